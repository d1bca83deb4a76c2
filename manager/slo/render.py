"""The NodeSLO spec of one node."""

from collections.abc import Mapping

from koord.api import names, quantity
from koord.slo_config.loading import Configuration
from koord.slo_config.schema import Fragment
from koord.slo_config.slo import BLOCKS


def render(configuration: Configuration, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Fragment:
    """The spec for a node with these labels and annotations, as it goes on the wire.

    A network-bandwidth annotation replaces the configured bandwidth; one that is no quantity drops the whole
    systemStrategy, so that no node runs with half of what its owner wrote. Class defaults of the QoS block are
    the agent's, not ours.
    """
    spec: Fragment = {block.spec_field: configuration.blocks[block.key].value_for(labels) for block in BLOCKS}
    if written := annotations.get(names.ANNOTATION_NETWORK_BANDWIDTH):
        try:
            bandwidth = quantity.canonical(written)
        except quantity.InvalidQuantity:
            del spec["systemStrategy"]
        else:
            spec["systemStrategy"] = {**spec["systemStrategy"], "totalNetworkBandwidth": bandwidth}
    if applications := configuration.host_applications.value_for(labels):
        spec["hostApplications"] = list(applications)
    spec["extensions"] = {"Object": {}}
    return spec


def spec_changes(stored: Fragment, wanted: Fragment) -> Fragment:
    """The JSON merge patch of the spec that makes the stored one the wanted one; empty when nothing differs.

    Extensions that others stored are kept.
    """
    owned = {name: value for name, value in stored.items() if name != "extensions"}
    target = {name: value for name, value in wanted.items() if name != "extensions"}
    changes = merge_patch(owned, target)
    if "extensions" not in stored and "extensions" in wanted:
        changes["extensions"] = wanted["extensions"]
    return changes


def merge_patch(source: Fragment, target: Fragment) -> Fragment:
    """RFC 7386: the smallest patch from one object to another. Lists are replaced whole."""
    patch: Fragment = {name: None for name in source if name not in target}
    for name, value in target.items():
        old = source.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            if nested := merge_patch(old, value):
                patch[name] = nested
        elif name not in source or old != value:
            patch[name] = value
    return patch
