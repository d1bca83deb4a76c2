"""Which nodes an entry of the configuration means: its label selector, compiled once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from koord.api.selectors import InvalidSelector, LabelSelector, Requirement, Selector, compile_selector
from koord.slo_config.schema import Fragment, ListOf, MapOf, Record, Scalar

_TEXT = Scalar("string")
SELECTOR_SCHEMA = Record(
    {
        "matchLabels": MapOf(_TEXT),
        "matchExpressions": ListOf(Record({"key": _TEXT, "operator": _TEXT, "values": ListOf(_TEXT)})),
    }
)


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """One entry that applies to the nodes its selector matches.

    selector None: matches no node (it was absent or illegal; `problem` then says why).
    """

    name: str
    path: str
    selector: Selector | None
    fields: Fragment
    problem: str = ""

    def label(self) -> str:
        """How to show the entry to a person: `nodeConfigs[2] (gpu-pool)`."""
        return f"{self.path} ({self.name})" if self.name else self.path


def read_entries(listed: Sequence[Fragment], path: str) -> tuple[NodeEntry, ...]:
    """Split decoded entries into selector and the fields they override. An illegal selector is kept as a problem."""
    entries = []
    for index, fragment in enumerate(listed):
        where = f"{path}[{index}]"
        fields = {name: value for name, value in fragment.items() if name not in ("name", "nodeSelector")}
        selector, problem = _compile(fragment.get("nodeSelector"), where)
        entries.append(NodeEntry(fragment.get("name", ""), where, selector, fields, problem))
    return tuple(entries)


def first_match(entries: Iterable[NodeEntry], labels: Mapping[str, str]) -> NodeEntry | None:
    """The first entry whose selector matches; an empty selector matches every node."""
    return next((entry for entry in entries if entry.selector is not None and entry.selector.matches(labels)), None)


def _compile(written: Any, where: str) -> tuple[Selector | None, str]:
    if written is None:
        return None, f"{where}.nodeSelector: absent, so the entry matches no node"
    requirements = tuple(
        Requirement(one.get("key", ""), one.get("operator", ""), tuple(one.get("values", ())))
        for one in written.get("matchExpressions", ())
    )
    try:
        return compile_selector(LabelSelector(written.get("matchLabels"), requirements)), ""
    except InvalidSelector as error:
        return None, f"{where}.nodeSelector: {error}; the entry matches no node"
