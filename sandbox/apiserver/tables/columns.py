"""Columns, rows and the way times are shown. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from koord.api.timestamps import parse_rfc3339

JsonObject = dict[str, Any]
Cells = Callable[[JsonObject, float], Sequence[object]]  # of a document at a time (epoch seconds)

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"


@dataclass(frozen=True)
class Column:
    """A column definition. Priority 0 is always shown, 1 with -o wide."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def document(self) -> JsonObject:
        """The TableColumnDefinition."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@dataclass(frozen=True)
class Layout:
    """How a kind is printed."""

    columns: tuple[Column, ...]
    cells: Cells


NAME = Column("Name", format="name", description="Unique within its namespace, or the cluster.")
AGE = Column("Age", description="Time since creation.")


def wide(name: str) -> Column:
    """A column of -o wide."""
    return Column(name, priority=1)


def name_of(document: JsonObject) -> str:
    """metadata.name."""
    return str(document["metadata"].get("name", ""))


def member(document: JsonObject, *path: str) -> Any:
    """A nested member, None when any step is absent."""
    found: Any = document
    for key in path:
        if not isinstance(found, dict):
            return None
        found = found.get(key)
    return found


def age(document: JsonObject, now: float) -> str:
    """Time since creation."""
    return since(document["metadata"].get("creationTimestamp"), now)


def since(timestamp: object, now: float) -> str:
    """Time since an RFC 3339 time, `<unknown>` when there is none."""
    if not isinstance(timestamp, str):
        return UNKNOWN
    try:
        return duration(now - parse_rfc3339(timestamp))
    except ValueError:
        return UNKNOWN


def duration(seconds: float) -> str:
    """A length of time as kubectl shows it: two units while that is informative."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 120:
        return f"{whole}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    years = days // 365
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(first: int, unit: str, second: int, small: str) -> str:
    return f"{first}{unit}{second}{small}" if second else f"{first}{unit}"


def labels_text(labels: Mapping[str, str] | None) -> str:
    """`a=b,c=d`, sorted, or `<none>`."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: JsonObject | None) -> str:
    """A label selector in the form of a query; `<none>` for an absent one."""
    if selector is None:
        return NONE
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for entry in selector.get("matchExpressions") or ():
        key, operator, values = entry.get("key", ""), entry.get("operator"), sorted(entry.get("values") or ())
        if operator == "Exists":
            terms.append(key)
        elif operator == "DoesNotExist":
            terms.append(f"!{key}")
        else:
            word = "in" if operator == "In" else "notin"
            terms.append(f"{key} {word} ({','.join(values)})")
    return ",".join(terms) or NONE


def containers_text(pod_spec: JsonObject | None) -> tuple[str, str]:
    """Names and images of a pod spec's containers."""
    containers = (pod_spec or {}).get("containers") or ()
    names = ",".join(str(entry.get("name", "")) for entry in containers)
    images = ",".join(str(entry.get("image", "")) for entry in containers)
    return names or NONE, images or NONE
