"""Validation of webhook configurations and CustomResourceDefinitions. Pure."""

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from sandbox.admission.fields import FieldError, duplicate, forbidden, invalid, required, unsupported
from sandbox.admission.metadata_validation import LABEL_1035_RULE, label_1035_problem, subdomain_problem
from sandbox.admission.request import JsonObject
from sandbox.admission.scheduling_validation import validate_selector
from sandbox.admission.schema import compile_schema

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")


def validate_webhooks(obj: JsonObject) -> list[FieldError]:
    """A Mutating- or ValidatingWebhookConfiguration."""
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, hook in enumerate(obj.get("webhooks") or ()):
        here = f"webhooks[{index}]"
        name = hook.get("name") or ""
        if problem := _full_name_problem(name):
            errors.append(invalid(f"{here}.name", name, problem))
        if name in names:
            errors.append(duplicate(f"{here}.name", name))
        names.add(name)
        errors += _validate_hook(hook, here)
    return errors


def _validate_hook(hook: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, rule in enumerate(hook.get("rules") or ()):
        errors += _validate_rule(rule, f"{path}.rules[{index}]")
    for key, allowed in (
        ("failurePolicy", ("Fail", "Ignore")),
        ("matchPolicy", ("Equivalent", "Exact")),
        ("sideEffects", _SIDE_EFFECTS),
        ("reinvocationPolicy", ("IfNeeded", "Never")),
    ):
        value = hook.get(key)
        if key == "sideEffects" and value is None:
            supported = ", ".join(_SIDE_EFFECTS)
            errors.append(required(f"{path}.sideEffects", f"must specify one of {supported}"))
        elif value is not None and value not in allowed:
            errors.append(unsupported(f"{path}.{key}", value, allowed))
    timeout_s = hook.get("timeoutSeconds")
    if timeout_s is not None and not 1 <= timeout_s <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        errors.append(invalid(f"{path}.timeoutSeconds", timeout_s, detail))
    versions = hook.get("admissionReviewVersions") or []
    if not versions:
        errors.append(required(f"{path}.admissionReviewVersions", "must specify one of v1, v1beta1"))
    elif not {"v1", "v1beta1"} & set(versions):
        detail = "must include at least one of v1, v1beta1"
        errors.append(invalid(f"{path}.admissionReviewVersions", versions, detail))
    if hook.get("matchConditions"):
        errors.append(forbidden(f"{path}.matchConditions", "the sandbox does not evaluate CEL expressions"))
    errors += validate_selector(hook.get("namespaceSelector"), f"{path}.namespaceSelector")
    errors += validate_selector(hook.get("objectSelector"), f"{path}.objectSelector")
    errors += _validate_client(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    return errors


def _validate_rule(rule: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    words = {"operations": "operations", "apiGroups": "API groups", "apiVersions": "API versions"}
    for key, word in words.items():
        values = rule.get(key) or []
        if not values:
            errors.append(required(f"{path}.{key}"))
        if "*" in values and len(values) > 1:
            errors.append(invalid(f"{path}.{key}", values, f"if '*' is present, must not specify other {word}"))
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            errors.append(unsupported(f"{path}.operations[{index}]", operation, _OPERATIONS))
    errors += _validate_resources(rule.get("resources") or [], f"{path}.resources")
    scope = rule.get("scope", "*")
    if scope not in ("*", "Cluster", "Namespaced"):
        errors.append(unsupported(f"{path}.scope", scope, ("*", "Cluster", "Namespaced")))
    return errors


def _validate_resources(values: list[str], path: str) -> list[FieldError]:
    if not values:
        return [required(path)]
    errors = []
    if "*/*" in values and len(values) > 1:
        errors.append(invalid(path, values, "if '*/*' is present, must not specify other resources"))
    if "*" in values and any("/" not in value for value in values if value != "*"):
        detail = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, values, detail))
    return errors


def _validate_client(client: JsonObject, path: str) -> list[FieldError]:
    url: str | None = client.get("url")
    service: JsonObject | None = client.get("service")
    if url is not None and service is None:
        return _validate_url(url, f"{path}.url")
    if url is not None or service is None:
        return [required(path, "exactly one of url or service is required")]
    errors = [required(f"{path}.service.{key}") for key in ("name", "namespace") if not service.get(key)]
    if not 1 <= service.get("port", 443) <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(invalid(f"{path}.service.port", service["port"], detail))
    return errors


def _validate_url(url: str, path: str) -> list[FieldError]:
    parts = urlsplit(url)
    if parts.scheme != "https":
        detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        return [invalid(path, parts.scheme, detail)]
    if not parts.hostname:
        return [invalid(path, url, "host must be specified")]
    unwanted = {"user information": parts.username, "query parameters": parts.query, "fragments": parts.fragment}
    return [invalid(path, text, f"{what} are not permitted in the URL") for what, text in unwanted.items() if text]


def _full_name_problem(name: str) -> str:
    if problem := subdomain_problem(name):
        return problem
    if len(name.split(".")) < 3:
        return "should be a domain with at least three segments separated by dots"
    return ""


def validate_crd(obj: JsonObject) -> list[FieldError]:
    """A CustomResourceDefinition: its names, versions and schemas."""
    spec = obj.get("spec") or {}
    names, group = spec.get("names") or {}, spec.get("group") or ""
    errors: list[FieldError] = []
    if problem := subdomain_problem(group):
        errors.append(invalid("spec.group", group, problem) if group else required("spec.group"))
    elif len(group.split(".")) < 2:
        errors.append(invalid("spec.group", group, "should be a domain with at least one dot"))
    expected = f"{names.get('plural', '')}.{group}"
    actual = (obj.get("metadata") or {}).get("name") or ""
    if actual != expected:
        errors.append(invalid("metadata.name", actual, 'must be spec.names.plural+"."+spec.group'))
    if not spec.get("scope"):
        errors.append(required("spec.scope"))
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        errors.append(unsupported("spec.scope", spec.get("scope", ""), ("Cluster", "Namespaced")))
    errors += _validate_names(names)
    errors += _validate_versions(spec.get("versions") or [])
    return errors


def validate_crd_update(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Group, scope, kind and plural of a served CustomResourceDefinition are fixed."""
    spec, old_spec = obj.get("spec") or {}, old.get("spec") or {}
    errors = [
        invalid(f"spec.{key}", spec.get(key), "field is immutable")
        for key in ("group", "scope")
        if spec.get(key) != old_spec.get(key)
    ]
    names, old_names = spec.get("names") or {}, old_spec.get("names") or {}
    errors += [
        invalid(f"spec.names.{key}", names.get(key), "field is immutable")
        for key in ("kind", "plural")
        if names.get(key) != old_names.get(key)
    ]
    return errors


def _validate_names(names: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in ("plural", "singular", "kind", "listKind"):
        text = names.get(key) or ""
        if not text:
            errors.append(required(f"spec.names.{key}"))
        elif problem := label_1035_problem(text.lower()):
            mixed = "may have mixed case, but should otherwise match: " if "ind" in key else ""
            errors.append(invalid(f"spec.names.{key}", text, mixed + problem))
        elif text != text.lower() and key in ("plural", "singular"):
            errors.append(invalid(f"spec.names.{key}", text, LABEL_1035_RULE))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        errors.append(invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same"))
    for index, text in enumerate(names.get("shortNames") or ()):
        if problem := label_1035_problem(text):
            errors.append(invalid(f"spec.names.shortNames[{index}]", text, problem))
    return errors


def _validate_versions(versions: list[JsonObject]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, version in enumerate(versions):
        here = f"spec.versions[{index}]"
        name = version.get("name") or ""
        if problem := label_1035_problem(name):
            errors.append(invalid(f"{here}.name", name, problem))
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        # With one version the API server moves its schema up before it looks at it.
        schema_path = f"{here}.schema" if len(versions) > 1 else "spec.validation"
        if schema is None:
            errors.append(required(f"{here}.schema.openAPIV3Schema"))
        else:
            errors += _validate_schema(schema, f"{schema_path}.openAPIV3Schema")
    if len({version.get("name") for version in versions}) < len(versions):
        errors.append(invalid("spec.versions", versions, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        errors.append(invalid("spec.versions", versions, detail))
    return errors


def _validate_schema(schema: Any, path: str) -> list[FieldError]:
    errors = list(_structural_errors(schema, path, is_root=True))
    if errors:
        return errors
    try:
        compile_schema(schema)
    except (TypeError, ValueError, AttributeError) as error:
        return [invalid(path, "schema", f"cannot be compiled: {error}")]
    return []


def _structural_errors(schema: Any, path: str, *, is_root: bool = False) -> Iterator[FieldError]:
    if not isinstance(schema, dict):
        yield invalid(path, schema, "must be an object")
        return
    kind = schema.get("type")
    if is_root and kind != "object":
        yield invalid(f"{path}.type", kind or "", "must be object at the root")
    elif kind is None:
        if not schema.get("x-kubernetes-int-or-string") and not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield required(f"{path}.type", "must not be empty for specified object fields")
    elif kind not in _TYPES:
        yield unsupported(f"{path}.type", kind, _TYPES)
    if "pattern" in schema and (problem := _pattern_problem(schema["pattern"])):
        yield invalid(f"{path}.pattern", schema["pattern"], problem)
    if kind == "array" and "items" not in schema:
        yield required(f"{path}.items", "must be specified")
    additional = schema.get("additionalProperties")
    if additional is not None and schema.get("properties"):
        detail = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", detail)
    for name, below in (schema.get("properties") or {}).items():
        yield from _structural_errors(below, f"{path}.properties[{name}]")
    if isinstance(additional, dict):
        yield from _structural_errors(additional, f"{path}.additionalProperties")
    if "items" in schema:
        yield from _structural_errors(schema["items"], f"{path}.items")


def _pattern_problem(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        return f"must be a valid regular expression, but isn't: {error}"
    return ""
