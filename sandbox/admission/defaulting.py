"""Defaults of the built-in kinds, as the API server sets them when it decodes an object.

`apply_defaults` is called on every object that comes in and again after each webhook's patch.
It changes the document in place, only fills what is absent, and is idempotent.
"""

from collections.abc import Callable

from sandbox.admission.pod_defaults import default_pod, default_pod_spec
from sandbox.admission.request import JsonObject

ROLLING_SHARE = "25%"
_WEBHOOK_TIMEOUT_S = 10


def apply_defaults(group: str, plural: str, obj: JsonObject) -> None:
    """Fill the defaults of one object; kinds without defaults are left alone."""
    default = _BY_KIND.get((group, plural))
    if default is not None:
        default(obj)


def _spec(obj: JsonObject) -> JsonObject:
    spec = obj.get("spec")
    if spec is None:
        spec = obj["spec"] = {}
    result: JsonObject = spec
    return result


def _template(spec: JsonObject) -> JsonObject:
    template: JsonObject = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    pod_spec: JsonObject = template.setdefault("spec", {})
    default_pod_spec(pod_spec)
    return template


def _default_deployment(obj: JsonObject) -> None:
    spec = _spec(obj)
    _template(spec)
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", ROLLING_SHARE)
        rolling.setdefault("maxSurge", ROLLING_SHARE)


def _default_replica_set(obj: JsonObject) -> None:
    spec = _spec(obj)
    _template(spec)
    spec.setdefault("replicas", 1)


def _default_daemon_set(obj: JsonObject) -> None:
    spec = _spec(obj)
    _template(spec)
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)


def _default_stateful_set(obj: JsonObject) -> None:
    spec = _spec(obj)
    _template(spec)
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("partition", 0)
        rolling.setdefault("maxUnavailable", 1)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")


def _default_job_spec(spec: JsonObject) -> None:
    _template(spec)
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = spec["parallelism"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    replacement = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", replacement)


def _default_job(obj: JsonObject) -> None:
    _default_job_spec(_spec(obj))


def _default_cron_job(obj: JsonObject) -> None:
    spec = _spec(obj)
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    _template(_spec(spec.setdefault("jobTemplate", {})))


def _default_service(obj: JsonObject) -> None:
    spec = _spec(obj)
    kind = spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def _default_namespace(obj: JsonObject) -> None:
    metadata = obj.setdefault("metadata", {})
    if metadata.get("name"):
        labels = metadata["labels"] = metadata.get("labels") or {}
        labels["kubernetes.io/metadata.name"] = metadata["name"]


def _default_node(obj: JsonObject) -> None:
    status = obj.get("status")
    if status and status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def _default_secret(obj: JsonObject) -> None:
    obj.setdefault("type", "Opaque")


def _default_priority_class(obj: JsonObject) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _default_network_policy(obj: JsonObject) -> None:
    spec = _spec(obj)
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _default_storage_class(obj: JsonObject) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def _default_volume_claim(obj: JsonObject) -> None:
    _spec(obj).setdefault("volumeMode", "Filesystem")


def _default_mutating(obj: JsonObject) -> None:
    _default_webhooks(obj)
    for hook in obj.get("webhooks") or ():
        hook.setdefault("reinvocationPolicy", "Never")


def _default_webhooks(obj: JsonObject) -> None:
    for hook in obj.get("webhooks") or ():
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        hook.setdefault("timeoutSeconds", _WEBHOOK_TIMEOUT_S)
        for rule in hook.get("rules") or ():
            rule.setdefault("scope", "*")
        service = (hook.get("clientConfig") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)


def _default_crd(obj: JsonObject) -> None:
    spec = _spec(obj)
    names = spec.setdefault("names", {})
    if names.get("kind"):
        names.setdefault("singular", str(names["kind"]).lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})


_BY_KIND: dict[tuple[str, str], Callable[[JsonObject], None]] = {
    ("", "pods"): default_pod,
    ("", "services"): _default_service,
    ("", "namespaces"): _default_namespace,
    ("", "nodes"): _default_node,
    ("", "secrets"): _default_secret,
    ("", "replicationcontrollers"): _default_replica_set,
    ("", "persistentvolumeclaims"): _default_volume_claim,
    ("networking.k8s.io", "networkpolicies"): _default_network_policy,
    ("storage.k8s.io", "storageclasses"): _default_storage_class,
    ("apps", "deployments"): _default_deployment,
    ("apps", "replicasets"): _default_replica_set,
    ("apps", "daemonsets"): _default_daemon_set,
    ("apps", "statefulsets"): _default_stateful_set,
    ("batch", "jobs"): _default_job,
    ("batch", "cronjobs"): _default_cron_job,
    ("scheduling.k8s.io", "priorityclasses"): _default_priority_class,
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): _default_mutating,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): _default_webhooks,
    ("apiextensions.k8s.io", "customresourcedefinitions"): _default_crd,
}
