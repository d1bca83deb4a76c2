"""How built-in lists and maps merge: a table of what the generated models do not say.

Lists that are not here are atomic; maps and structs that are not here merge by member.
"""

from collections.abc import Mapping

# (model, JSON name) -> the members that identify an item.
MAP_LISTS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("V1PodSpec", "containers"): ("name",),
    ("V1PodSpec", "initContainers"): ("name",),
    ("V1PodSpec", "ephemeralContainers"): ("name",),
    ("V1PodSpec", "volumes"): ("name",),
    ("V1PodSpec", "imagePullSecrets"): ("name",),
    ("V1PodSpec", "hostAliases"): ("ip",),
    ("V1PodSpec", "topologySpreadConstraints"): ("topologyKey", "whenUnsatisfiable"),
    ("V1PodSpec", "schedulingGates"): ("name",),
    ("V1PodSpec", "resourceClaims"): ("name",),
    ("V1PodStatus", "conditions"): ("type",),
    ("V1PodStatus", "podIPs"): ("ip",),
    ("V1PodStatus", "resourceClaimStatuses"): ("name",),
    ("V1Container", "ports"): ("containerPort", "protocol"),
    ("V1Container", "env"): ("name",),
    ("V1Container", "volumeMounts"): ("mountPath",),
    ("V1Container", "volumeDevices"): ("devicePath",),
    ("V1EphemeralContainer", "ports"): ("containerPort", "protocol"),
    ("V1EphemeralContainer", "env"): ("name",),
    ("V1EphemeralContainer", "volumeMounts"): ("mountPath",),
    ("V1EphemeralContainer", "volumeDevices"): ("devicePath",),
    ("V1ResourceRequirements", "claims"): ("name",),
    ("V1ObjectMeta", "ownerReferences"): ("uid",),
    ("V1ServiceSpec", "ports"): ("port", "protocol"),
    ("V1ServiceStatus", "conditions"): ("type",),
    ("V1ReplicationControllerStatus", "conditions"): ("type",),
    ("V1NodeStatus", "conditions"): ("type",),
    ("V1NodeStatus", "addresses"): ("type",),
    ("V1NamespaceStatus", "conditions"): ("type",),
    ("V1ServiceAccount", "secrets"): ("name",),
    ("V1PersistentVolumeClaimStatus", "conditions"): ("type",),
    ("V1DeploymentStatus", "conditions"): ("type",),
    ("V1ReplicaSetStatus", "conditions"): ("type",),
    ("V1StatefulSetStatus", "conditions"): ("type",),
    ("V1DaemonSetStatus", "conditions"): ("type",),
    ("V1PodDisruptionBudgetStatus", "conditions"): ("type",),
    ("V1MutatingWebhookConfiguration", "webhooks"): ("name",),
    ("V1ValidatingWebhookConfiguration", "webhooks"): ("name",),
    ("V1MutatingWebhook", "matchConditions"): ("name",),
    ("V1ValidatingWebhook", "matchConditions"): ("name",),
    ("V1CustomResourceDefinitionStatus", "conditions"): ("type",),
    ("V1CSINodeSpec", "drivers"): ("name",),
    ("V1CSINodeStatus", "storageHealth"): ("name",),
    ("V1ContainerStatus", "allocatedResourcesStatus"): ("name",),
    ("V1ContainerStatus", "volumeMounts"): ("mountPath",),
    ("V1JSONSchemaProps", "x-kubernetes-validations"): ("rule",),
    ("V1JobSchedulingConfiguration", "resourceClaims"): ("name",),
    ("V1NodeAllocatableResourceClaimStatus", "mapping"): ("name",),
    ("V1NodeAllocatableResourceClaimStatus", "overhead"): ("name",),
    ("V1PodSpec", "evictionResponders"): ("name",),
    ("V1PodStatus", "nodeAllocatableResourceClaimStatuses"): ("resourceClaimName",),
    ("V1PodStatus", "volumeHealth"): ("name",),
    ("V1PodVolumeHealth", "healthConditions"): ("status", "reason"),
    ("V1ResourceStatus", "resources"): ("resourceID",),
    ("V1VolumeHealthStatus", "healthConditions"): ("status", "reason"),
}
SET_LISTS = frozenset(
    {
        ("V1ObjectMeta", "finalizers"),
        ("V1NodeSpec", "podCIDRs"),
        ("V1CSIDriverSpec", "volumeLifecycleModes"),
        ("V1ContainerRestartRuleOnExitCodes", "values"),
        ("V1Endpoint", "addresses"),
        ("V1NodeAllocatableResourceClaimStatus", "containers"),
        ("V1NodePodPreemptionPolicy", "disableResizePreemption"),
        ("V1PodFailurePolicyOnExitCodesRequirement", "values"),
        ("V1UncountedTerminatedPods", "failed"),
        ("V1UncountedTerminatedPods", "succeeded"),
        ("V1VolumeMount", "bindMountOptions"),
    }
)
# Key members that may be absent, with what they then mean.
KEY_DEFAULTS: Mapping[tuple[str, str], Mapping[str, object]] = {
    ("V1Container", "ports"): {"protocol": "TCP"},
    ("V1EphemeralContainer", "ports"): {"protocol": "TCP"},
    ("V1ServiceSpec", "ports"): {"protocol": "TCP"},
}
ATOMIC_MAPS = frozenset(
    {
        ("V1PodSpec", "nodeSelector"),
        ("V1ServiceSpec", "selector"),
        ("V1ReplicationControllerSpec", "selector"),
    }
)
ATOMIC_STRUCTS = frozenset(
    {
        "CoreV1EndpointPort",
        "V1ConfigMapKeySelector",
        "DiscoveryV1EndpointPort",
        "V1EndpointAddress",
        "V1EvictionResponder",
        "V1FileKeySelector",
        "V1LabelSelector",
        "V1LocalObjectReference",
        "V1NodeSelector",
        "V1NodeSelectorTerm",
        "V1ObjectFieldSelector",
        "V1ObjectReference",
        "V1OwnerReference",
        "V1ResourceFieldSelector",
        "V1RoleRef",
        "V1ScopeSelector",
        "V1SecretKeySelector",
        "V1SecretReference",
        "RbacV1Subject",
        "V1TopologySelectorTerm",
        "V1TypedLocalObjectReference",
    }
)
# Maps whose values, and members whose value, are quantities.
QUANTITY_MAPS = frozenset(
    {
        "allocatable",
        "allocatedResources",
        "capacity",
        "default",
        "defaultRequest",
        "hard",
        "limits",
        "max",
        "maxLimitRequestRatio",
        "min",
        "overhead",
        "podFixed",
        "requests",
        "used",
    }
)
QUANTITY_MEMBERS = frozenset(
    {
        ("V1EmptyDirVolumeSource", "sizeLimit"),
        ("V1NodeAllocatableMappedResources", "quantity"),
        ("V1NodeAllocatableOverheadResources", "perContainer"),
        ("V1NodeAllocatableOverheadResources", "perPod"),
        ("V1ResourceFieldSelector", "divisor"),
    }
)
INT_OR_STRING_MEMBERS = frozenset(
    {
        ("V1HTTPGetAction", "port"),
        ("V1NetworkPolicyPort", "port"),
        ("V1PodDisruptionBudgetSpec", "maxUnavailable"),
        ("V1PodDisruptionBudgetSpec", "minAvailable"),
        ("V1RollingUpdateDaemonSet", "maxSurge"),
        ("V1RollingUpdateDaemonSet", "maxUnavailable"),
        ("V1RollingUpdateDeployment", "maxSurge"),
        ("V1RollingUpdateDeployment", "maxUnavailable"),
        ("V1RollingUpdateStatefulSetStrategy", "maxUnavailable"),
        ("V1ServicePort", "targetPort"),
        ("V1TCPSocketAction", "port"),
    }
)
