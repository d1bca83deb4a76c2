"""From client-side to server-side apply: what kubectl's last-applied annotation allows and how it goes on. Pure."""

from typing import Any

import msgspec

from sandbox.apiserver.fields import sets
from sandbox.apiserver.fields.types import FieldType

JsonObject = dict[str, Any]

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MANAGER = "kubectl"  # other managers do not take part


def allowed_conflicts(live: JsonObject, kind: FieldType) -> sets.PathSet:
    """Fields that the annotation applied and that still have that value: taking them over is no conflict."""
    text = _annotation(live)
    try:
        applied = msgspec.json.decode(text, type=dict[str, Any]) if text else None
    except (msgspec.DecodeError, msgspec.ValidationError):
        return set()
    if applied is None or applied.get("apiVersion") != live.get("apiVersion"):
        return set()
    change = sets.compare(live, applied, kind)
    return sets.field_set(applied, kind) - change.modified - change.added - change.removed


def kept_current(document: JsonObject, config: JsonObject) -> JsonObject:
    """The applied document with its annotation, if it has one, telling the configuration that was applied last."""
    if not _annotation(document):
        return document
    config_meta = dict(config.get("metadata") or {})
    if "annotations" in config_meta:
        told = {key: value for key, value in config_meta["annotations"].items() if key != ANNOTATION}
        config_meta["annotations"] = told
    text = msgspec.json.encode({**config, "metadata": config_meta}).decode() + "\n"
    annotations = {**document["metadata"]["annotations"], ANNOTATION: text}
    return {**document, "metadata": {**document["metadata"], "annotations": annotations}}


def _annotation(document: JsonObject) -> str:
    return ((document.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION) or ""
