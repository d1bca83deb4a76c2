"""Validation of metadata: names, labels, annotations, owners, finalizers. Pure."""

import re
from collections.abc import Mapping
from typing import Any, Final

from sandbox.admission.fields import FieldError, forbidden, invalid, required, too_long
from sandbox.admission.request import JsonObject

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
MAX_ANNOTATION_BYTES: Final = 256 * 1024

SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
LABEL_1035_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
QUALIFIED_RULE: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation "
    "is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_LABEL_NAMES: Final = (("", "namespaces"), ("", "services"))
_PATH_SEGMENT_GROUPS: Final = ("rbac.authorization.k8s.io",)


def subdomain_problem(text: str) -> str:
    """Why a text is no DNS subdomain; "" when it is one."""
    if len(text) > 253:
        return "must be no more than 253 characters"
    return "" if _DNS_SUBDOMAIN.fullmatch(text) else SUBDOMAIN_RULE


def label_problem(text: str) -> str:
    """Why a text is no DNS label (63 characters, no dots); "" when it is one."""
    if len(text) > 63:
        return "must be no more than 63 characters"
    if _DNS_LABEL.fullmatch(text):
        return ""
    return "must not contain dots" if _DNS_SUBDOMAIN.fullmatch(text) else LABEL_RULE


def label_1035_problem(text: str) -> str:
    """Why a text is no DNS label that begins with a letter; "" when it is one."""
    if len(text) > 63:
        return "must be no more than 63 characters"
    return "" if _DNS_1035.fullmatch(text) else LABEL_1035_RULE


def qualified_name_problem(text: str) -> str:
    """Why a text is no qualified name such as example.com/MyName; "" when it is one."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        form = QUALIFIED_RULE.replace("name part must", "a valid label key must")
        return f"{form} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
    if slash and not prefix:
        return "prefix part must be non-empty"
    if prefix and (problem := subdomain_problem(prefix)):
        return f"prefix part {problem}"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return "" if _QUALIFIED.fullmatch(name) else QUALIFIED_RULE


def label_value_problem(text: str) -> str:
    """Why a text is no label value; "" when it is one."""
    if len(text) > 63:
        return "must be no more than 63 bytes"
    return "" if not text or _QUALIFIED.fullmatch(text) else LABEL_VALUE_RULE


def validate_labels(labels: Mapping[str, str] | None, path: str) -> list[FieldError]:
    """Keys and values of a label map."""
    errors = []
    for key, value in (labels or {}).items():
        if problem := qualified_name_problem(key):
            errors.append(invalid(path, key, problem))
        if not isinstance(value, str):
            errors.append(invalid(path, value, "must be a string"))
        elif problem := label_value_problem(value):
            errors.append(invalid(path, value, problem))
    return errors


def validate_annotations(annotations: Mapping[str, str] | None, path: str) -> list[FieldError]:
    """Keys of an annotation map, and its size as a whole."""
    errors = []
    total = 0
    for key, value in (annotations or {}).items():
        if problem := qualified_name_problem(key.lower()):
            errors.append(invalid(path, key, problem))
        if not isinstance(value, str):
            errors.append(invalid(path, value, "must be a string"))
            continue
        total += len(key.encode()) + len(value.encode())
    if total > MAX_ANNOTATION_BYTES:
        errors.append(too_long(path, MAX_ANNOTATION_BYTES))
    return errors


def validate_name(group: str, plural: str, name: str, path: str) -> list[FieldError]:
    """An object's name by the rule of its kind."""
    if group in _PATH_SEGMENT_GROUPS:
        if name in (".", ".."):
            return [invalid(path, name, f"may not be '{name}'")]
        return [invalid(path, name, f"may not contain '{sign}'") for sign in "/%" if sign in name]
    problem = label_problem(name) if (group, plural) in _LABEL_NAMES else subdomain_problem(name)
    return [invalid(path, name, problem)] if problem else []


def validate_metadata(group: str, plural: str, metadata: JsonObject) -> list[FieldError]:
    """Everything in metadata that can be wrong by itself."""
    errors: list[FieldError] = []
    name, prefix = metadata.get("name") or "", metadata.get("generateName") or ""
    if not name and not prefix:
        errors.append(required("metadata.name", "name or generateName is required"))
    if name:
        errors += validate_name(group, plural, name, "metadata.name")
    elif prefix:
        errors += validate_name(group, plural, prefix.rstrip("-.") or prefix, "metadata.generateName")
    errors += validate_labels(metadata.get("labels"), "metadata.labels")
    errors += validate_annotations(metadata.get("annotations"), "metadata.annotations")
    errors += _validate_owners(metadata.get("ownerReferences") or [])
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        errors += _validate_finalizer(finalizer, f"metadata.finalizers[{index}]")
    return errors


def validate_metadata_update(metadata: JsonObject, old: JsonObject) -> list[FieldError]:
    """What an update may not change."""
    errors = [
        invalid(f"metadata.{key}", metadata[key], "field is immutable")
        for key in ("name", "namespace", "uid")
        if old.get(key) and metadata.get(key) and metadata[key] != old[key]
    ]
    if old.get("deletionTimestamp"):
        added = set(metadata.get("finalizers") or ()) - set(old.get("finalizers") or ())
        if added:
            detail = "no new finalizers can be added if the object is being deleted, found new finalizers "
            errors.append(forbidden("metadata.finalizers", f"{detail}{sorted(added)}"))
    return errors


def _validate_owners(owners: list[Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    controllers = []
    for index, owner in enumerate(owners):
        path = f"metadata.ownerReferences[{index}]"
        if not isinstance(owner, dict):
            errors.append(invalid(path, owner, "must be an object"))
            continue
        errors += [
            required(f"{path}.{key}", "must not be empty")
            for key in ("apiVersion", "kind", "name", "uid")
            if not owner.get(key)
        ]
        if owner.get("controller"):
            controllers.append(owner)
    if len(controllers) > 1:
        found = " and ".join(f"{owner.get('kind')}/{owner.get('name')}" for owner in controllers[:2])
        detail = f'Only one reference can have Controller set to true. Found "true" in references for {found}'
        errors.append(invalid("metadata.ownerReferences", owners, detail))
    return errors


def _validate_finalizer(finalizer: object, path: str) -> list[FieldError]:
    if not isinstance(finalizer, str):
        return [invalid(path, finalizer, "must be a string")]
    if "/" not in finalizer and finalizer not in ("orphan", "foregroundDeletion", "kubernetes"):
        return [invalid(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified")]
    problem = qualified_name_problem(finalizer)
    return [invalid(path, finalizer, problem)] if problem else []
