"""Discovery: which groups, versions and resources there are, in the plain and in the aggregated form. Pure."""

from collections.abc import Iterable
from typing import Any

from sandbox.apiserver.kinds import Kind, KindRegistry
from sandbox.apiserver.negotiation import MediaRange

JsonObject = dict[str, Any]

AGGREGATED_VERSIONS = ("v2", "v2beta1")
_STATUS_VERBS = ("get", "patch", "update")
_SUBRESOURCE_KINDS: dict[tuple[str, str], tuple[tuple[str, str, str], tuple[str, ...]]] = {
    ("pods", "binding"): (("", "v1", "Binding"), ("create",)),
    ("pods", "eviction"): (("policy", "v1", "Eviction"), ("create",)),
    ("pods", "log"): (("", "v1", "Pod"), ("get",)),
    ("namespaces", "finalize"): (("", "v1", "Namespace"), ("update",)),
}
_SCALE = ("autoscaling", "v1", "Scale")


def aggregated_version(ranges: Iterable[MediaRange]) -> str:
    """The aggregated form that a client prefers, "" when it wants the plain one first or only."""
    for entry in ranges:
        if entry.type not in ("application/json", "*/*", "application/*"):
            continue
        if entry.parameters.get("as") != "APIGroupDiscoveryList":
            return ""
        if entry.parameters.get("v") in AGGREGATED_VERSIONS:
            return entry.parameters["v"]
    return ""


def content_type(version: str) -> str:
    """The media type of the aggregated form."""
    return f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"


def aggregated(kinds: KindRegistry, version: str, *, core: bool) -> JsonObject:
    """APIGroupDiscoveryList of the core group, or of all others."""
    groups = {group: versions for group, versions in kinds.group_versions().items() if (group == "") is core}
    items = []
    for group, versions in groups.items():
        listed = [
            {
                "version": name,
                "resources": [_discovered(kind) for kind in _of(kinds, group, name)],
                "freshness": "Current",
            }
            for name in versions
        ]
        meta: JsonObject = {"creationTimestamp": None} | ({"name": group} if group else {})
        items.append({"metadata": meta, "versions": listed})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def _of(kinds: KindRegistry, group: str, version: str) -> list[Kind]:
    return [kind for kind in kinds if (kind.group, kind.version) == (group, version)]


def _discovered(kind: Kind) -> JsonObject:
    found: JsonObject = {
        "resource": kind.plural,
        "responseKind": {"group": "", "version": "", "kind": kind.kind},  # empty: those of the list
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular_name,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        found["shortNames"] = list(kind.short_names)
    if kind.categories:
        found["categories"] = list(kind.categories)
    below = [
        {"subresource": name, "responseKind": _response_kind(*response), "verbs": list(verbs)}
        for name, response, verbs in _subresources(kind)
    ]
    if below:
        found["subresources"] = below
    return found


def _response_kind(group: str, version: str, kind: str) -> JsonObject:
    return {"group": group, "version": version, "kind": kind}


def _subresources(kind: Kind) -> list[tuple[str, tuple[str, str, str], tuple[str, ...]]]:
    found = []
    for name in kind.subresources:
        response, verbs = _SUBRESOURCE_KINDS[kind.plural, name]
        found.append((name, response, verbs))
    if kind.scale:
        found.append(("scale", _SCALE, _STATUS_VERBS))
    if kind.has_status:
        found.append(("status", (kind.group, kind.version, kind.kind), _STATUS_VERBS))
    return found


def resource_list(kinds: KindRegistry, group: str, version: str) -> JsonObject | None:
    """APIResourceList of one version, None when it has nothing."""
    found = _of(kinds, group, version)
    if not found:
        return None
    resources: list[JsonObject] = []
    for kind in found:
        entry: JsonObject = {
            "name": kind.plural,
            "singularName": kind.singular_name,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": list(kind.verbs),
        }
        if kind.short_names:
            entry["shortNames"] = list(kind.short_names)
        if kind.categories:
            entry["categories"] = list(kind.categories)
        resources.append(entry)
        resources.extend(_below(kind))
    api_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources}


def _below(kind: Kind) -> list[JsonObject]:
    entries = []
    for name, (group, version, response), verbs in _subresources(kind):
        entry: JsonObject = {
            "name": f"{kind.plural}/{name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": response,
            "verbs": list(verbs),
        }
        if (group, version) != (kind.group, kind.version):
            entry |= {"group": group, "version": version}
        entries.append(entry)
    return entries


def legacy_versions(address: str) -> JsonObject:
    """The APIVersions document of /api."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(kinds: KindRegistry) -> JsonObject:
    """The APIGroupList document of /apis."""
    groups = [_group(name, versions) for name, versions in kinds.group_versions().items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(kinds: KindRegistry, name: str) -> JsonObject | None:
    """The APIGroup document of one group, None when it is not served."""
    versions = kinds.group_versions().get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions and name else None


def _group(name: str, versions: list[str]) -> JsonObject:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}
