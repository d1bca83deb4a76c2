"""Validation of a pod's containers: names, images, ports, environment, mounts, resources. Pure."""

import re
from typing import Final

from sandbox.admission.fields import FieldError, duplicate, forbidden, invalid, not_found, required, unsupported
from sandbox.admission.metadata_validation import label_problem
from sandbox.admission.request import JsonObject
from sandbox.admission.resource_validation import validate_resources

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_TERMINATION_POLICIES: Final = ("FallbackToLogsOnError", "File")
_PORT_SIGNS = re.compile(r"[a-z0-9-]+")
_HAS_LETTER = re.compile(r"[a-z]")
_ENV_NAME = re.compile(r"[ -<>-~]+")  # any printable ASCII except '='
_ENV_NAME_RULE: Final = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)
_PORT_RULE: Final = "must be between 1 and 65535, inclusive"


def validate_containers(spec: JsonObject, path: str, volumes: set[str]) -> list[FieldError]:
    """All containers of a pod spec; names are unique over init, app and ephemeral ones."""
    if not spec.get("containers"):
        return [required(f"{path}.containers")]
    seen: set[str] = set()
    errors: list[FieldError] = []
    for key in ("containers", "initContainers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            here = f"{path}.{key}[{index}]"
            errors += _validate_name(container, here, seen)
            errors += _validate_container(container, here, volumes)
            if key == "initContainers":
                errors += _validate_init(container, here)
    return errors


def _validate_name(container: JsonObject, path: str, seen: set[str]) -> list[FieldError]:
    name = container.get("name") or ""
    if not name:
        return [required(f"{path}.name")]
    if problem := label_problem(name):
        return [invalid(f"{path}.name", name, problem)]
    if name in seen:
        return [duplicate(f"{path}.name", name)]
    seen.add(name)
    return []


def _validate_container(container: JsonObject, path: str, volumes: set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    image = container.get("image") or ""
    if not image:
        errors.append(required(f"{path}.image"))
    elif image != image.strip():
        errors.append(invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))
    for key, allowed in (
        ("imagePullPolicy", _PULL_POLICIES),
        ("terminationMessagePolicy", _TERMINATION_POLICIES),
        ("restartPolicy", _RESTART_POLICIES),
    ):
        value = container.get(key)
        if value is not None and value not in allowed:
            errors.append(unsupported(f"{path}.{key}", value, allowed))
    errors += _validate_ports(container.get("ports") or [], f"{path}.ports")
    errors += _validate_environment(container.get("env") or [], f"{path}.env")
    errors += _validate_mounts(container.get("volumeMounts") or [], f"{path}.volumeMounts", volumes)
    errors += validate_resources(container.get("resources") or {}, f"{path}.resources")
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(key) is not None:
            errors += _validate_probe(container[key], f"{path}.{key}", readiness=key == "readinessProbe")
    return errors


def _validate_init(container: JsonObject, path: str) -> list[FieldError]:
    if container.get("restartPolicy") == "Always":
        return []
    probes = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
    detail = "may not be set for init containers without restartPolicy=Always"
    return [forbidden(f"{path}.{key}", detail) for key in probes if container.get(key) is not None]


def _validate_ports(ports: list[JsonObject], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        here = f"{path}[{index}]"
        name = port.get("name") or ""
        if name:
            errors += [invalid(f"{here}.name", name, problem) for problem in _port_name_problems(name)]
        if name in names:
            errors.append(duplicate(f"{here}.name", name))
        elif name:
            names.add(name)
        number = port.get("containerPort")
        if not number:
            errors.append(required(f"{here}.containerPort"))
        elif not 1 <= number <= 65535:
            errors.append(invalid(f"{here}.containerPort", number, _PORT_RULE))
        host_port = port.get("hostPort")
        if host_port and not 1 <= host_port <= 65535:
            errors.append(invalid(f"{here}.hostPort", host_port, _PORT_RULE))
        if port.get("protocol", "TCP") not in _PROTOCOLS:
            errors.append(unsupported(f"{here}.protocol", port["protocol"], _PROTOCOLS))
    return errors


def _port_name_problems(name: str) -> list[str]:
    rules = {
        "must be no more than 15 characters": len(name) > 15,
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)": not _PORT_SIGNS.fullmatch(name),
        "must contain at least one letter (a-z)": not _HAS_LETTER.search(name),
        "must not contain consecutive hyphens": "--" in name,
        "must not begin or end with a hyphen": name.startswith("-") or name.endswith("-"),
    }
    return [problem for problem, is_broken in rules.items() if is_broken]


def _validate_environment(variables: list[JsonObject], path: str) -> list[FieldError]:
    errors = []
    for index, variable in enumerate(variables):
        here = f"{path}[{index}]"
        name = variable.get("name") or ""
        if not name:
            errors.append(required(f"{here}.name"))
        elif not _ENV_NAME.fullmatch(name):
            errors.append(invalid(f"{here}.name", name, _ENV_NAME_RULE))
        if variable.get("value") and variable.get("valueFrom"):
            detail = "may not be specified when `value` is not empty"
            errors.append(invalid(f"{here}.valueFrom", "", detail))
    return errors


def _validate_mounts(mounts: list[JsonObject], path: str, volumes: set[str]) -> list[FieldError]:
    errors = []
    places: set[str] = set()
    for index, mount in enumerate(mounts):
        here = f"{path}[{index}]"
        if not mount.get("name"):
            errors.append(required(f"{here}.name"))
        elif mount["name"] not in volumes:
            errors.append(not_found(f"{here}.name", mount["name"]))
        place = mount.get("mountPath") or ""
        if not place:
            errors.append(required(f"{here}.mountPath"))
        elif place in places:
            errors.append(invalid(f"{here}.mountPath", place, "must be unique"))
        places.add(place)
    return errors


def _validate_probe(probe: JsonObject, path: str, *, readiness: bool) -> list[FieldError]:
    errors = []
    handlers = [key for key in ("exec", "httpGet", "tcpSocket", "grpc") if probe.get(key) is not None]
    if not handlers:
        errors.append(required(path, "must specify a handler type"))
    errors += [forbidden(f"{path}.{extra}", "may not specify more than 1 handler type") for extra in handlers[1:]]
    for key in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        number = probe.get(key)
        if number is not None and number < 0:
            errors.append(invalid(f"{path}.{key}", number, "must be greater than or equal to 0"))
    successes = probe.get("successThreshold", 1)
    if not readiness and successes != 1:
        errors.append(invalid(f"{path}.successThreshold", successes, "must be 1"))
    return errors
