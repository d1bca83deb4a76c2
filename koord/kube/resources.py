"""Which kinds there are, where the API server serves them and what they decode into."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

from koord.api.devices import Device
from koord.api.objects import ConfigMap, JsonObject, Namespace, Node, Pod, PriorityClass
from koord.api.profiles import ClusterColocationProfile
from koord.api.slo import NodeMetric, NodeSLO
from koord.api.topology import NodeResourceTopology

T = TypeVar("T")


class Key(NamedTuple):
    """Where an object is: its namespace ("" for a cluster-wide kind) and its name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Identity(NamedTuple):
    """Which object this is (`key`, `uid`) and which state of it (`resource_version`)."""

    key: Key
    uid: str
    resource_version: str


@dataclass(frozen=True)
class Resource(Generic[T]):
    """One served kind. `type` is the struct its objects decode into, or dict for raw ones."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: builtins.type[T]

    @property
    def api_version(self) -> str:
        """As written in objects: `v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def base_path(self) -> str:
        """The path of the group and version, without a slash at the end."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def identify(self, obj: T) -> Identity:
        """Key, uid and resourceVersion of a decoded object."""
        if isinstance(obj, dict):
            raw = obj.get("metadata") or {}
            key = Key(raw.get("namespace", ""), raw.get("name", ""))
            return Identity(key, raw.get("uid", ""), raw.get("resourceVersion", ""))
        meta: Any = obj.metadata  # type: ignore[attr-defined]
        return Identity(Key(meta.namespace, meta.name), meta.uid, meta.resource_version)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def raw(group: str, version: str, plural: str, kind: str, namespaced: bool) -> Resource[JsonObject]:
    """A resource whose objects stay plain dicts, every field kept."""
    return Resource(group, version, plural, kind, namespaced, dict)


PODS: Final = Resource("", "v1", "pods", "Pod", True, Pod)
NODES: Final = Resource("", "v1", "nodes", "Node", False, Node)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", False, Namespace)
CONFIGMAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", True, ConfigMap)
SECRETS: Final = raw("", "v1", "secrets", "Secret", True)
EVENTS: Final = raw("", "v1", "events", "Event", True)
LEASES: Final = raw("coordination.k8s.io", "v1", "leases", "Lease", True)
PRIORITY_CLASSES: Final = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, PriorityClass
)
DEPLOYMENTS: Final = raw("apps", "v1", "deployments", "Deployment", True)
REPLICA_SETS: Final = raw("apps", "v1", "replicasets", "ReplicaSet", True)
DAEMON_SETS: Final = raw("apps", "v1", "daemonsets", "DaemonSet", True)
JOBS: Final = raw("batch", "v1", "jobs", "Job", True)
PDBS: Final = raw("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True)
CUSTOM_RESOURCE_DEFINITIONS: Final = raw(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
MUTATING_WEBHOOK_CONFIGURATIONS: Final = raw(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    False,
)
VALIDATING_WEBHOOK_CONFIGURATIONS: Final = raw(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    False,
)
NODE_METRICS: Final = Resource("slo.koordinator.sh", "v1alpha1", "nodemetrics", "NodeMetric", False, NodeMetric)
NODE_SLOS: Final = Resource("slo.koordinator.sh", "v1alpha1", "nodeslos", "NodeSLO", False, NodeSLO)
DEVICES: Final = Resource("scheduling.koordinator.sh", "v1alpha1", "devices", "Device", False, Device)
NODE_RESOURCE_TOPOLOGIES: Final = Resource(
    "topology.node.k8s.io",
    "v1alpha1",
    "noderesourcetopologies",
    "NodeResourceTopology",
    False,
    NodeResourceTopology,
)
CLUSTER_COLOCATION_PROFILES: Final = Resource(
    "config.koordinator.sh",
    "v1alpha1",
    "clustercolocationprofiles",
    "ClusterColocationProfile",
    False,
    ClusterColocationProfile,
)
