"""Defaults of pods and pod templates, as core/v1 sets them when an object is decoded.

Everything here changes the document in place and is idempotent: a second pass changes nothing.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from koord.api import quantity
from koord.api.objects import PodSpec
from koord.api.pod_resources import requests_nano
from sandbox.admission.request import JsonObject

TERMINATION_GRACE_S: Final = 30
EVICTION_TOLERATION_S: Final = 300
_DEFAULT_MODE: Final = 0o644
_POD_LEVEL: Final = ("cpu", "memory")
_PROBE_NUMBERS: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_VOLUME_MODES: Final = ("secret", "configMap", "projected", "downwardAPI")
_TAG = re.compile(r":([^:/@]+)$")


def containers_of(spec: JsonObject) -> Iterator[JsonObject]:
    """Init, app and ephemeral containers, in this order."""
    for key in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(key) or ()


def default_pod(pod: JsonObject) -> None:
    """A whole pod: the template's defaults, limits copied into absent requests, service links."""
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        _copy_limits(container)
    if spec.get("resources"):
        _default_pod_level(spec)


def default_pod_spec(spec: JsonObject) -> None:
    """What pods and pod templates have in common."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("terminationGracePeriodSeconds", TERMINATION_GRACE_S)
    spec.setdefault("securityContext", {})
    for container in containers_of(spec):
        _default_container(container, host_network=bool(spec.get("hostNetwork")))
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def admit_service_account(pod: JsonObject) -> None:
    """Give a pod without a service account the namespace's default one (admission, not decoding)."""
    spec = pod["spec"]
    if not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"] = "default"


def admit_eviction_tolerations(pod: JsonObject) -> None:
    """Tolerate not-ready and unreachable nodes for five minutes unless the pod says otherwise."""
    tolerations = pod["spec"].get("tolerations") or []
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates_no_execute(toleration, key) for toleration in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": EVICTION_TOLERATION_S,
                }
            )
    pod["spec"]["tolerations"] = tolerations


def pull_policy(image: str) -> str:
    """Always for a `latest` or missing tag, IfNotPresent for any other tag and for digests."""
    if "@" in image:
        return "IfNotPresent"
    tag = _TAG.search(image)
    return "Always" if tag is None or tag[1] == "latest" else "IfNotPresent"


def _tolerates_no_execute(toleration: JsonObject, key: str) -> bool:
    covers_key = toleration.get("key", "") in (key, "")
    return covers_key and toleration.get("effect", "") in ("NoExecute", "")


def _default_container(container: JsonObject, *, host_network: bool) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", pull_policy(container.get("image") or ""))
    container.setdefault("resources", {})
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network and not port.get("hostPort"):
            port["hostPort"] = port.get("containerPort")
    for variable in container.get("env") or ():
        field_ref = (variable.get("valueFrom") or {}).get("fieldRef")
        if field_ref is not None:
            field_ref.setdefault("apiVersion", "v1")
    for name in _PROBES:
        if container.get(name) is not None:
            _default_probe(container[name])
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict):
            _default_http_get(handler)


def _default_probe(probe: JsonObject) -> None:
    for key, number in _PROBE_NUMBERS.items():
        probe.setdefault(key, number)
    _default_http_get(probe)
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def _default_http_get(handler: JsonObject) -> None:
    if handler.get("httpGet") is not None:
        handler["httpGet"].setdefault("path", "/")
        handler["httpGet"].setdefault("scheme", "HTTP")


def _default_field_refs(downward: JsonObject) -> None:
    for item in downward.get("items") or ():
        if item.get("fieldRef") is not None:
            item["fieldRef"].setdefault("apiVersion", "v1")


def _default_volume(volume: JsonObject) -> None:
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}
    for source in _VOLUME_MODES:
        if volume.get(source) is not None:
            volume[source].setdefault("defaultMode", _DEFAULT_MODE)
    _default_field_refs(volume.get("downwardAPI") or {})
    for source in (volume.get("projected") or {}).get("sources") or ():
        _default_field_refs(source.get("downwardAPI") or {})
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")


def _copy_limits(container: JsonObject) -> None:
    resources = container["resources"]
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _default_pod_level(spec: JsonObject) -> None:
    """Absent pod-level requests are the sum of the containers' requests, else the pod-level limits."""
    resources = spec["resources"]
    given = resources.get("requests") or {}
    limits = resources.get("limits") or {}
    plain = msgspec.convert({**spec, "resources": None, "overhead": {}}, PodSpec, strict=False)
    summed = requests_nano(plain)
    requests = dict(given)
    for name in (*_POD_LEVEL, *(name for name in limits if name not in _POD_LEVEL)):
        if name not in given and summed.get(name) and (limits or given):
            requests[name] = quantity.format_nano(summed[name], _family(name))
        elif name not in given and name in limits:
            requests[name] = limits[name]
    if requests:
        resources["requests"] = requests


def _family(name: str) -> quantity.Family:
    return "decimal" if name == "cpu" else "binary"
