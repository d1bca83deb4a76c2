"""Find what reads native requests or limits by the downward API and so breaks when those are replaced. Pure.

A program that sizes itself by `limits.cpu` gets the whole node's capacity once the limit is gone. The pod is
not changed for that; its author is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from koord.api.objects import JsonObject

MARK = b"resourceFieldRef"
_NATIVE = ("requests.cpu", "limits.cpu", "requests.memory", "limits.memory")
_SHOWN = 3


def downward_warnings(pod: JsonObject) -> list[str]:
    """At most one warning, naming the first references."""
    found = list(_references(pod.get("spec") or {}))
    if not found:
        return []
    rest = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return [
        f"native resources were replaced, so {', '.join(found[:_SHOWN])}{rest} will see the node's capacity"
        " instead of the container's: set the value literally"
    ]


def _references(spec: dict[str, Any]) -> Iterator[str]:
    for group in ("initContainers", "containers"):
        for container in spec.get(group) or ():
            for variable in container.get("env") or ():
                resource = _resource(variable.get("valueFrom"))
                if resource:
                    yield f"{variable.get('name')} ({resource}) of container {container.get('name')}"
    for volume in spec.get("volumes") or ():
        sources = [volume, *((volume.get("projected") or {}).get("sources") or ())]
        for source in sources:
            for item in (source.get("downwardAPI") or {}).get("items") or ():
                resource = _resource(item)
                if resource:
                    yield f"{item.get('path')} ({resource}) of volume {volume.get('name')}"


def _resource(holder: dict[str, Any] | None) -> str:
    resource = ((holder or {}).get("resourceFieldRef") or {}).get("resource", "")
    return resource if resource in _NATIVE else ""
