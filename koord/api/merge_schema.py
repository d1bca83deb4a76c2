"""Which lists of the built-in kinds a strategic merge patch merges, and by which key.

The API server learns this from struct tags of its Go types; here it is a table holding only what departs
from the default. The default is: maps merge key by key, every list is replaced as a whole. A field that a
table does not mention (also one that a later Kubernetes adds) follows the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class MergeSchema:
    """Merge rules of one object type. Immutable, may be shared between kinds."""

    fields: Mapping[str, FieldRule] = field(default_factory=lambda: MappingProxyType({}))

    def rule(self, name: str) -> FieldRule:
        """The rule of field `name`; the default rule when the table does not mention it."""
        return self.fields.get(name, DEFAULT_RULE)


@dataclass(frozen=True, slots=True)
class FieldRule:
    """How a patch acts on one field.

    merged: a list field is merged instead of replaced; its items are objects known by `merge_key`, or
    scalars forming a set when `merge_key` is empty. replaced: a map field is replaced instead of merged.
    inner: the rules of the map, or of each item of the list.
    """

    inner: MergeSchema = field(default_factory=MergeSchema)
    merged: bool = False
    merge_key: str = ""
    replaced: bool = False


DEFAULT_RULE = FieldRule()
UNTYPED = MergeSchema()


def _schema(**rules: FieldRule) -> MergeSchema:
    return MergeSchema(MappingProxyType(rules))


def _inside(inner: MergeSchema) -> FieldRule:
    return FieldRule(inner=inner)


def _by(key: str, inner: MergeSchema = UNTYPED) -> FieldRule:
    return FieldRule(inner=inner, merged=True, merge_key=key)


_SET = FieldRule(merged=True)
_CONDITIONS = _inside(_schema(conditions=_by("type")))

_METADATA = _inside(_schema(ownerReferences=_by("uid"), finalizers=_SET))

_CONTAINER = _schema(
    env=_by("name"),
    ports=_by("containerPort"),
    volumeMounts=_by("mountPath"),
    volumeDevices=_by("devicePath"),
)
_POD_SPEC = _inside(
    _schema(
        containers=_by("name", _CONTAINER),
        initContainers=_by("name", _CONTAINER),
        ephemeralContainers=_by("name", _CONTAINER),
        volumes=_by("name"),
        imagePullSecrets=_by("name"),
        hostAliases=_by("ip"),
        topologySpreadConstraints=_by("topologyKey"),
        schedulingGates=_by("name"),
        resourceClaims=_by("name"),
    )
)
_POD_STATUS = _inside(
    _schema(
        conditions=_by("type"),
        hostIPs=_by("ip"),
        podIPs=_by("ip"),
        resourceClaimStatuses=_by("name"),
        nodeAllocatableResourceClaimStatuses=_by("resourceClaimName"),
    )
)
_POD_TEMPLATE = _inside(_schema(metadata=_METADATA, spec=_POD_SPEC))
_JOB_SPEC = _inside(_schema(template=_POD_TEMPLATE))
_JOB_TEMPLATE = _inside(_schema(metadata=_METADATA, spec=_JOB_SPEC))
_WEBHOOKS = _by("name", _schema(matchConditions=_by("name")))
_ADMISSION_POLICY_SPEC = _inside(_schema(matchConditions=_by("name"), variables=_by("name")))


def _object(**rules: FieldRule) -> MergeSchema:
    return _schema(metadata=_METADATA, **rules)


_PLAIN = _object()
_WITH_CONDITIONS = _object(status=_CONDITIONS)
_WORKLOAD = _object(spec=_inside(_schema(template=_POD_TEMPLATE)), status=_CONDITIONS)
_WEBHOOK_CONFIGURATION = _object(webhooks=_WEBHOOKS)

_CORE: dict[str, MergeSchema] = {
    "Pod": _object(spec=_POD_SPEC, status=_POD_STATUS),
    "PodTemplate": _object(template=_POD_TEMPLATE),
    "ReplicationController": _WORKLOAD,
    "Service": _object(spec=_inside(_schema(ports=_by("port"))), status=_CONDITIONS),
    "Node": _object(
        spec=_inside(_schema(podCIDRs=_SET)),
        status=_inside(_schema(conditions=_by("type"), addresses=_by("type"))),
    ),
    "Namespace": _WITH_CONDITIONS,
    "ServiceAccount": _object(secrets=_by("name")),
    "PersistentVolumeClaim": _WITH_CONDITIONS,
    "PersistentVolume": _PLAIN,
    "ConfigMap": _PLAIN,
    "Secret": _PLAIN,
    "Event": _PLAIN,
    "Endpoints": _PLAIN,
    "LimitRange": _PLAIN,
    "ResourceQuota": _PLAIN,
    "Binding": _PLAIN,
}
_APPS: dict[str, MergeSchema] = {
    "Deployment": _WORKLOAD,
    "ReplicaSet": _WORKLOAD,
    "StatefulSet": _WORKLOAD,
    "DaemonSet": _WORKLOAD,
    "ControllerRevision": _PLAIN,
}
_BATCH: dict[str, MergeSchema] = {
    "Job": _object(spec=_JOB_SPEC, status=_CONDITIONS),
    "CronJob": _object(spec=_inside(_schema(jobTemplate=_JOB_TEMPLATE))),
}
_ADMISSION: dict[str, MergeSchema] = {
    "MutatingWebhookConfiguration": _WEBHOOK_CONFIGURATION,
    "ValidatingWebhookConfiguration": _WEBHOOK_CONFIGURATION,
    "ValidatingAdmissionPolicy": _object(spec=_ADMISSION_POLICY_SPEC, status=_CONDITIONS),
    "ValidatingAdmissionPolicyBinding": _PLAIN,
    "MutatingAdmissionPolicy": _object(spec=_ADMISSION_POLICY_SPEC),
    "MutatingAdmissionPolicyBinding": _PLAIN,
}
_POLICY: dict[str, MergeSchema] = {
    # Only this kind replaces its label selector: a merged one would mix two selections.
    "PodDisruptionBudget": _object(spec=_inside(_schema(selector=FieldRule(replaced=True))), status=_CONDITIONS),
    "Eviction": _PLAIN,
}


def _plain(*kinds: str) -> dict[str, MergeSchema]:
    return dict.fromkeys(kinds, _PLAIN)


_KINDS: dict[str, dict[str, MergeSchema]] = {
    "v1": _CORE,
    "apps/v1": _APPS,
    "batch/v1": _BATCH,
    "policy/v1": _POLICY,
    "admissionregistration.k8s.io/v1": _ADMISSION,
    "rbac.authorization.k8s.io/v1": _plain("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
    "scheduling.k8s.io/v1": _plain("PriorityClass"),
    "coordination.k8s.io/v1": _plain("Lease"),
    "events.k8s.io/v1": _plain("Event"),
    "discovery.k8s.io/v1": _plain("EndpointSlice"),
    "node.k8s.io/v1": _plain("RuntimeClass"),
    "networking.k8s.io/v1": _plain("NetworkPolicy", "Ingress", "IngressClass"),
    "certificates.k8s.io/v1": _plain("CertificateSigningRequest"),
    "autoscaling/v1": _plain("HorizontalPodAutoscaler", "Scale"),
    "autoscaling/v2": {"HorizontalPodAutoscaler": _WITH_CONDITIONS},
    "apiregistration.k8s.io/v1": {"APIService": _WITH_CONDITIONS},
    "apiextensions.k8s.io/v1": _plain("CustomResourceDefinition"),
    "resource.k8s.io/v1": {
        **_plain("DeviceClass", "ResourceClaimTemplate", "ResourceSlice"),
        "ResourceClaim": _object(status=_inside(_schema(reservedFor=_by("uid")))),
    },
    "storage.k8s.io/v1": {
        **_plain("StorageClass", "VolumeAttachment", "CSIDriver", "CSIStorageCapacity"),
        "CSINode": _object(spec=_inside(_schema(drivers=_by("name")))),
    },
}


def merge_schema(api_version: str, kind: str) -> MergeSchema | None:
    """The merge rules of a built-in kind, e.g. ("apps/v1", "Deployment").

    None when the kind is not built in, such as custom resources: the API server answers 415 to a
    strategic merge patch of those.
    """
    return _KINDS.get(api_version, {}).get(kind)
