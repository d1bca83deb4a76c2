"""Requests as values: what to ask the API server, without asking.

Everything here is pure. A request that cannot be meant (a namespaced object without
its namespace, an empty name) is refused before it can hit a different path.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, NewType
from urllib.parse import quote

import msgspec

from koord.kube.resources import Resource

PatchType = NewType("PatchType", str)
MERGE_PATCH: Final = PatchType("application/merge-patch+json")
JSON_PATCH: Final = PatchType("application/json-patch+json")
STRATEGIC_PATCH: Final = PatchType("application/strategic-merge-patch+json")
APPLY_PATCH: Final = PatchType("application/apply-patch+yaml")
"""Server-side apply; the body may be JSON, which is YAML too."""

JSON: Final = "application/json"

Query = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, relative to the server's root."""

    method: str
    path: str
    query: Query = ()
    body: bytes | None = None
    content_type: str = JSON

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    def with_query(self, **parameters: str) -> Request:
        """The same request with more query parameters; empty values are left out."""
        added = tuple((name, value) for name, value in parameters.items() if value)
        return replace(self, query=self.query + added)


def collection_path(resource: Resource[Any], namespace: str = "") -> str:
    """Where objects are listed and created; "" spans all namespaces."""
    if not resource.namespaced or not namespace:
        return f"{resource.base_path}/{resource.plural}"
    return f"{resource.base_path}/namespaces/{quote(namespace, safe='')}/{resource.plural}"


def object_path(resource: Resource[Any], name: str, namespace: str = "", subresource: str = "") -> str:
    """Where one object is."""
    if not name:
        raise ValueError(f"{resource.kind}: a name is needed")
    _require_namespace(resource, name, namespace)
    path = f"{collection_path(resource, namespace)}/{quote(name, safe='')}"
    return f"{path}/{subresource}" if subresource else path


def _require_namespace(resource: Resource[Any], name: str, namespace: str) -> None:
    if resource.namespaced and not namespace:
        raise ValueError(f"{resource.kind} {name or '(new)'}: a namespace is needed")


def _write_query(field_manager: str, dry_run: bool) -> Query:
    query: Query = (("fieldManager", field_manager),) if field_manager else ()
    return (*query, ("dryRun", "All")) if dry_run else query


def build_get(resource: Resource[Any], name: str, namespace: str = "", subresource: str = "") -> Request:
    """Read one object."""
    return Request("GET", object_path(resource, name, namespace, subresource))


def build_list(
    resource: Resource[Any], namespace: str = "", label_selector: str = "", field_selector: str = ""
) -> Request:
    """List a collection; paging and watching parameters are added with `with_query`."""
    return Request("GET", collection_path(resource, namespace)).with_query(
        labelSelector=label_selector, fieldSelector=field_selector
    )


def build_create(
    resource: Resource[Any],
    body: dict[str, Any],
    namespace: str = "",
    *,
    field_manager: str = "",
    dry_run: bool = False,
) -> Request:
    """Create an object; the namespace defaults to the one in its metadata."""
    metadata = body.get("metadata") or {}
    namespace = namespace or metadata.get("namespace", "")
    _require_namespace(resource, metadata.get("name", ""), namespace)
    return Request(
        "POST",
        collection_path(resource, namespace),
        _write_query(field_manager, dry_run),
        msgspec.json.encode(body),
    )


def build_update(
    resource: Resource[Any],
    name: str,
    body: dict[str, Any],
    namespace: str = "",
    *,
    subresource: str = "",
    field_manager: str = "",
    dry_run: bool = False,
) -> Request:
    """Replace an object (PUT); the body should hold the resourceVersion that was read."""
    return Request(
        "PUT",
        object_path(resource, name, namespace, subresource),
        _write_query(field_manager, dry_run),
        msgspec.json.encode(body),
    )


def build_patch(
    resource: Resource[Any],
    name: str,
    body: object,
    namespace: str = "",
    *,
    subresource: str = "",
    content_type: PatchType = MERGE_PATCH,
    field_manager: str = "",
    force: bool = False,
    dry_run: bool = False,
) -> Request:
    """Patch an object. `force` (apply only) takes fields over from other managers."""
    query = _write_query(field_manager, dry_run)
    if force:
        query = (*query, ("force", "true"))
    return Request(
        "PATCH",
        object_path(resource, name, namespace, subresource),
        query,
        msgspec.json.encode(body),
        content_type,
    )


def build_delete(
    resource: Resource[Any],
    name: str,
    namespace: str = "",
    *,
    grace_period_s: int | None = None,
    uid: str = "",
    propagation: str = "",
    dry_run: bool = False,
) -> Request:
    """Delete an object, with its uid as a precondition when one is given."""
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if grace_period_s is not None:
        options["gracePeriodSeconds"] = grace_period_s
    if uid:
        options["preconditions"] = {"uid": uid}
    if propagation:
        options["propagationPolicy"] = propagation
    if dry_run:
        options["dryRun"] = ["All"]
    return Request("DELETE", object_path(resource, name, namespace), body=msgspec.json.encode(options))


def build_eviction(
    pods: Resource[Any], name: str, namespace: str, *, uid: str = "", dry_run: bool = False
) -> Request:
    """Ask for a pod's eviction; with `uid`, only of that very pod."""
    options: dict[str, Any] = {}
    if uid:
        options["preconditions"] = {"uid": uid}
    if dry_run:
        options["dryRun"] = ["All"]
    eviction: dict[str, Any] = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    }
    if options:
        eviction["deleteOptions"] = options
    return Request("POST", object_path(pods, name, namespace, "eviction"), body=msgspec.json.encode(eviction))
