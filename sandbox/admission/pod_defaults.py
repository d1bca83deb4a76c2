"""Defaults of pods and pod templates, as core/v1 sets them when an object is decoded.

Everything here changes the document in place and is idempotent: a second pass changes nothing.
"""

import re
from collections.abc import Iterator
from typing import Final

from sandbox.admission.request import JsonObject

TERMINATION_GRACE_S: Final = 30
EVICTION_TOLERATION_S: Final = 300
_DEFAULT_MODE: Final = 0o644
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
    for constraint in spec.get("topologySpreadConstraints") or ():
        constraint.setdefault("whenUnsatisfiable", "DoNotSchedule")
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


def _default_probe(probe: JsonObject) -> None:
    for key, number in _PROBE_NUMBERS.items():
        probe.setdefault(key, number)
    if probe.get("httpGet") is not None:
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def _default_volume(volume: JsonObject) -> None:
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}
    for source in _VOLUME_MODES:
        if volume.get(source) is not None:
            volume[source].setdefault("defaultMode", _DEFAULT_MODE)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")


def _copy_limits(container: JsonObject) -> None:
    resources = container["resources"]
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _default_pod_level(spec: JsonObject) -> None:
    """Pod-level requests default to pod-level limits, cpu and memory first from containers' sum upstream."""
    resources = spec["resources"]
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
