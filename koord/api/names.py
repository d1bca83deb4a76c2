"""Every name of the wire contract that more than one module uses.

The names are Koordinator's: its users' manifests work unchanged. Values here are never derived, so a search
for a label finds it.
"""

from typing import Final

# API groups
GROUP_CONFIG: Final = "config.koordinator.sh"
GROUP_SLO: Final = "slo.koordinator.sh"
GROUP_SCHEDULING: Final = "scheduling.koordinator.sh"
GROUP_QUOTA: Final = "quota.koordinator.sh"
GROUP_TOPOLOGY: Final = "topology.node.k8s.io"

# Pod labels
LABEL_QOS: Final = "koordinator.sh/qosClass"
LABEL_PRIORITY: Final = "koordinator.sh/priority"
LABEL_PRIORITY_CLASS: Final = "koordinator.sh/priority-class"
LABEL_EVICTION_ENABLED: Final = "koordinator.sh/eviction-enabled"
LABEL_QUOTA_NAME: Final = "quota.scheduling.koordinator.sh/name"
LABEL_QUOTA_IS_PARENT: Final = "quota.scheduling.koordinator.sh/is-parent"
LABEL_PREEMPTIBLE: Final = "quota.scheduling.koordinator.sh/preemptible"
LABEL_QUOTA_TREE_ID: Final = "quota.scheduling.koordinator.sh/tree-id"

# Pod annotations
ANNOTATION_EXTENDED_RESOURCE_SPEC: Final = "node.koordinator.sh/extended-resource-spec"
ANNOTATION_RESERVE_POD: Final = "scheduling.koordinator.sh/reserve-pod"
ANNOTATION_RESOURCE_STATUS: Final = "scheduling.koordinator.sh/resource-status"
ANNOTATION_EVICTION_PRIORITY: Final = "koordinator.sh/eviction-priority"
ANNOTATION_EVICTION_POLICY: Final = "koordinator.sh/eviction-policy"
ANNOTATION_CPU_BURST: Final = "koordinator.sh/cpuBurst"
ANNOTATION_QUOTA_NAMESPACES: Final = "quota.scheduling.koordinator.sh/namespaces"
ANNOTATION_MIRROR_POD: Final = "kubernetes.io/config.mirror"
ANNOTATION_CONFIG_SOURCE: Final = "kubernetes.io/config.source"

# ClusterColocationProfile metadata switches
ANNOTATION_SKIP_UPDATE_RESOURCES: Final = "config.koordinator.sh/skip-update-resources"

# Node labels
LABEL_CPU_RECLAIM_RATIO: Final = "node.koordinator.sh/cpu-reclaim-ratio"
LABEL_MEMORY_RECLAIM_RATIO: Final = "node.koordinator.sh/memory-reclaim-ratio"
LABEL_MID_STATIC_CPU_RESERVED_RATIO: Final = "node.koordinator.sh/mid-static-cpu-reserved-ratio"
LABEL_MID_STATIC_MEMORY_RESERVED_RATIO: Final = "node.koordinator.sh/mid-static-memory-reserved-ratio"
LABEL_CPU_NORMALIZATION_ENABLED: Final = "node.koordinator.sh/cpu-normalization-enabled"

# Node annotations
ANNOTATION_COLOCATION_STRATEGY: Final = "node.koordinator.sh/colocation-strategy"
ANNOTATION_NODE_RESERVATION: Final = "node.koordinator.sh/reservation"
ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE: Final = "node.koordinator.sh/originExtendedAllocatable"
ANNOTATION_THIRD_PARTY_ALLOCATIONS: Final = "node.koordinator.sh/thirdPartyAllocations"
ANNOTATION_CPU_NORMALIZATION_RATIO: Final = "node.koordinator.sh/cpu-normalization-ratio"
ANNOTATION_RESOURCE_AMPLIFICATION_RATIO: Final = "node.koordinator.sh/resource-amplification-ratio"
ANNOTATION_RAW_ALLOCATABLE: Final = "node.koordinator.sh/raw-allocatable"
ANNOTATION_NETWORK_BANDWIDTH: Final = "node.koordinator.sh/network-bandwidth"
ANNOTATION_CPU_BASIC_INFO: Final = "node.koordinator.sh/cpu-basic-info"
ANNOTATION_SYSTEM_QOS_RESOURCE: Final = "node.koordinator.sh/system-qos-resource"

# Koord's own: what the manager last wrote to a node, when and why
ANNOTATION_LAST_OFFER: Final = "node.koordinator.sh/last-offer"

# Node labels copied from its Device object
LABEL_GPU_VENDOR: Final = "node.koordinator.sh/gpu-vendor"
LABEL_GPU_MODEL: Final = "node.koordinator.sh/gpu-model"
LABEL_GPU_DRIVER_VERSION: Final = "node.koordinator.sh/gpu-driver-version"

# Resource names. batch-cpu and mid-cpu count milli-cores (1 core = 1000); the memory names count bytes.
CPU: Final = "cpu"
MEMORY: Final = "memory"
BATCH_CPU: Final = "kubernetes.io/batch-cpu"
BATCH_MEMORY: Final = "kubernetes.io/batch-memory"
MID_CPU: Final = "kubernetes.io/mid-cpu"
MID_MEMORY: Final = "kubernetes.io/mid-memory"
GPU: Final = "koordinator.sh/gpu"
GPU_SHARED: Final = "koordinator.sh/gpu.shared"
GPU_CORE: Final = "koordinator.sh/gpu-core"
GPU_MEMORY: Final = "koordinator.sh/gpu-memory"
GPU_MEMORY_RATIO: Final = "koordinator.sh/gpu-memory-ratio"
HUAWEI_NPU_CORE: Final = "huawei.com/npu-core"
HUAWEI_NPU_CPU: Final = "huawei.com/npu-cpu"
HUAWEI_NPU_DVPP: Final = "huawei.com/npu-dvpp"
RDMA: Final = "koordinator.sh/rdma"

# slo-controller-config
CONFIG_NAMESPACE: Final = "koordinator-system"
CONFIG_NAME: Final = "slo-controller-config"
KEY_COLOCATION: Final = "colocation-config"
KEY_THRESHOLD: Final = "resource-threshold-config"
KEY_RESOURCE_QOS: Final = "resource-qos-config"
KEY_CPU_BURST: Final = "cpu-burst-config"
KEY_SYSTEM: Final = "system-config"
KEY_HOST_APPLICATION: Final = "host-application-config"
KEY_CPU_NORMALIZATION: Final = "cpu-normalization-config"
KEY_RESOURCE_AMPLIFICATION: Final = "resource-amplification-config"
LAST_GOOD_SUFFIX: Final = "-last-good"
"""Added to the ConfigMap's name: where the manager keeps the texts in force."""

# Kubernetes' own
LABEL_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
LABEL_HOSTNAME: Final = "kubernetes.io/hostname"
NAMESPACE_KUBE_SYSTEM: Final = "kube-system"
