"""Reads a request path: which group, version, resource, namespace, name and subresource it means. Pure."""

from dataclasses import dataclass

NAMESPACE_SUBRESOURCES = ("status", "finalize")


@dataclass(frozen=True)
class Target:
    """A parsed path. `plural` is "" for a discovery path (`/apis/apps/v1`); absent parts are ""."""

    group: str
    version: str
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False


def parse(path: str) -> Target | None:
    """The target of a path below /api or /apis, or None when it has no such shape."""
    parts = [part for part in path.split("/") if part]
    if len(parts) >= 2 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 3 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    watch = bool(rest) and rest[0] == "watch"  # the old form of ?watch=true
    if watch:
        rest = rest[1:]
    return _within(group, version, rest, watch)


def _within(group: str, version: str, rest: list[str], watch: bool) -> Target | None:
    if not rest:
        return Target(group, version)
    in_namespace = rest[0] == "namespaces" and len(rest) >= 3
    if in_namespace and not (group == "" and len(rest) == 3 and rest[2] in NAMESPACE_SUBRESOURCES):
        namespace, rest = rest[1], rest[2:]
    else:
        namespace = ""
    if len(rest) > 3:
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    return Target(group, version, plural, namespace, name, subresource, watch)
