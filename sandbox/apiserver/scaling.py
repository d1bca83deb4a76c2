"""The scale subresource: replicas of any kind that has them, as autoscaling/v1 Scale. Pure."""

from typing import Any

import msgspec

from koord.api import selectors
from sandbox.apiserver import status
from sandbox.apiserver.kinds import Kind, ScalePaths
from sandbox.apiserver.tables.columns import selector_text

JsonObject = dict[str, Any]

API_VERSION = "autoscaling/v1"


def scale_of(kind: Kind, document: JsonObject) -> JsonObject:
    """The Scale of an object."""
    paths = _paths(kind)
    meta = document["metadata"]
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = _read(document, paths.spec_replicas)
    told: JsonObject = {"replicas": _read(document, paths.status_replicas) or 0}
    if selector := _selector(kind, document, paths):
        told["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": API_VERSION,
        "metadata": {key: meta[key] for key in shown if key in meta},
        "spec": {"replicas": replicas} if replicas else {},
        "status": told,
    }


def scaled(kind: Kind, document: JsonObject, scale: JsonObject) -> JsonObject:
    """The object with the replicas of a Scale. Raises StatusError 400 or 422."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        raise status.bad_request(f"spec.replicas: invalid value {replicas!r}: allowed: a whole number")
    name = document["metadata"]["name"]
    if replicas < 0:
        cause = status.Cause(
            "FieldValueInvalid", f"Invalid value: {replicas}: must be greater than or equal to 0", "spec.replicas"
        )
        raise status.invalid("autoscaling", "Scale", name, [cause])
    return _written(document, _steps(_paths(kind).spec_replicas), replicas)


def _paths(kind: Kind) -> ScalePaths:
    if kind.scale is None:
        raise status.unknown_path()
    return kind.scale


def _steps(path: str) -> list[str]:
    return [step for step in path.split(".") if step]


def _read(document: JsonObject, path: str) -> Any:
    found: Any = document
    for step in _steps(path):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _written(document: JsonObject, steps: list[str], value: int) -> JsonObject:
    head, *rest = steps
    inner = document.get(head)
    return {**document, head: _written(inner if isinstance(inner, dict) else {}, rest, value) if rest else value}


def _selector(kind: Kind, document: JsonObject, paths: ScalePaths) -> str:
    if not paths.selector:
        return ""
    found = _read(document, paths.selector)
    if isinstance(found, str) or found is None:
        return found or ""
    if kind.plural == "replicationcontrollers":
        found = {"matchLabels": found}
    return _as_query(found)


def _as_query(selector: JsonObject) -> str:
    try:
        selectors.compile_selector(msgspec.convert(selector, selectors.LabelSelector))
    except (msgspec.ValidationError, selectors.InvalidSelector):
        return ""
    return selector_text(selector)
