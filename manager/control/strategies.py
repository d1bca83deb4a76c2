"""The strategy in force per node, resolved again only when configuration, labels or annotation changed."""

from collections.abc import Mapping

from koord.api import names
from koord.slo_config.colocation import ColocationConfig
from koord.slo_config.resolve import Resolved, resolve

_Inputs = tuple[ColocationConfig, Mapping[str, str], str]


class Strategies:
    """A memory of `resolve` with one entry per node."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[_Inputs, Resolved]] = {}

    def of(self, name: str, config: ColocationConfig, labels: Mapping[str, str], annotation: str) -> Resolved:
        """The strategy of a node; annotation "" means none."""
        known = self._known.get(name)
        if known is not None:
            (last_config, last_labels, last_annotation), resolved = known
            if last_config is config and last_annotation == annotation and last_labels == labels:
                return resolved
        annotations = {names.ANNOTATION_COLOCATION_STRATEGY: annotation} if annotation else {}
        resolved = resolve(config, labels, annotations)
        self._known[name] = ((config, labels, annotation), resolved)
        return resolved

    def forget(self, name: str) -> None:
        """The node is gone."""
        self._known.pop(name, None)
