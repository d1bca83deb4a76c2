"""What a container's process is given: its variables and its command line, as the kubelet derives them. Pure.

`$(NAME)` in values, command and args stands for a variable defined before; an unknown one stays as written and
`$$` is a dollar sign.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from koord.api import quantity
from koord.api.errors import InvalidInput
from koord.api.objects import ResourceList
from sandbox.node import model

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
_SOURCES = "fieldRef, resourceFieldRef (config maps and secrets cannot be read by sandbox nodes)"


@dataclass(frozen=True)
class Surroundings:
    """What a pod can learn of its node. `base`: variables every container has, as an image would set them."""

    node_name: str
    host_ip: str
    pod_ip: str
    allocatable: ResourceList = field(default_factory=dict)
    base: Mapping[str, str] = field(default_factory=dict)


def container_environment(pod: model.Pod, container: model.Container, around: Surroundings) -> dict[str, str]:
    """All variables. Raises InvalidInput for a source or field that a sandbox node cannot give."""
    ref = f"Pod/{pod.key}"
    if container.env_from:
        allowed = "absent: config maps and secrets cannot be read by sandbox nodes"
        raise InvalidInput(ref, f"containers[{container.name}].envFrom", list(container.env_from), allowed)
    own: dict[str, str] = {}
    for variable in container.env:
        if variable.value_from is None:
            own[variable.name] = expand(variable.value, own)
        else:
            where = f"containers[{container.name}].env[{variable.name}].valueFrom"
            own[variable.name] = _referenced(ref, where, pod, container, variable.value_from, around)
    return {**around.base, "HOSTNAME": pod.metadata.name, **own}


def command_line(pod: model.Pod, container: model.Container, environment: Mapping[str, str]) -> list[str]:
    """command followed by args. Raises InvalidInput when both are empty, since there is no image to ask."""
    words = [expand(word, environment) for word in (*container.command, *container.args)]
    if not words:
        allowed = "a command: images are not pulled, so what the image would run is unknown"
        raise InvalidInput(f"Pod/{pod.key}", f"containers[{container.name}].command", words, allowed)
    return words


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace the `$(NAME)` references of known variables."""

    def substitute(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    return _REFERENCE.sub(substitute, text)


def _referenced(
    ref: str,
    where: str,
    pod: model.Pod,
    container: model.Container,
    source: model.EnvVarSource,
    around: Surroundings,
) -> str:
    if source.field_ref is not None:
        found = field_value(pod, source.field_ref.field_path, around)
        if found is None:
            allowed = "metadata.name, .namespace, .uid, .labels['KEY'], .annotations['KEY'], spec.nodeName, "
            allowed += "spec.serviceAccountName, status.podIP, .podIPs, .hostIP, .hostIPs"
            raise InvalidInput(ref, f"{where}.fieldRef.fieldPath", source.field_ref.field_path, allowed)
        return found
    if source.resource_field_ref is not None:
        return _resource_value(ref, where, pod, container, source.resource_field_ref, around)
    raise InvalidInput(ref, where, "another source", _SOURCES)


def field_value(pod: model.Pod, path: str, around: Surroundings) -> str | None:
    """The value of a downward-API field; None for a path that the API does not offer."""
    meta = pod.metadata
    if subscript := _SUBSCRIPT.fullmatch(path):
        mapping = meta.labels if subscript[1] == "labels" else meta.annotations
        return mapping.get(subscript[2], "")
    simple = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "spec.nodeName": around.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.podIP": around.pod_ip,
        "status.podIPs": around.pod_ip,
        "status.hostIP": around.host_ip,
        "status.hostIPs": around.host_ip,
    }
    return simple.get(path)


def _resource_value(
    ref: str,
    where: str,
    pod: model.Pod,
    container: model.Container,
    selector: model.ResourceFieldSelector,
    around: Surroundings,
) -> str:
    block, _, resource = selector.resource.partition(".")
    owner = _named(pod.spec.containers, selector.container_name) or container
    if block not in ("limits", "requests") or not resource:
        allowed = "limits.NAME or requests.NAME"
        raise InvalidInput(ref, f"{where}.resourceFieldRef.resource", selector.resource, allowed)
    amounts = owner.resources.limits if block == "limits" else owner.resources.requests
    fallback = around.allocatable.get(resource, 0) if block == "limits" else 0
    divisor = quantity.nano(selector.divisor) or quantity.NANO
    return str(-(-quantity.nano(amounts.get(resource, fallback)) // divisor))


def _named(containers: Sequence[model.Container], name: str) -> model.Container | None:
    return next((container for container in containers if container.name == name), None)
