"""The built-in kinds, as a table."""

from sandbox.apiserver.kinds import Kind, KindRegistry, ScalePaths

_REPLICAS = ScalePaths()

RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"
EXTENSIONS = "apiextensions.k8s.io"

_CORE = (
    Kind(
        "",
        "v1",
        "namespaces",
        "Namespace",
        namespaced=False,
        short_names=("ns",),
        has_status=True,
        subresources=("finalize",),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    ),
    Kind("", "v1", "nodes", "Node", namespaced=False, short_names=("no",), has_status=True),
    Kind(
        "",
        "v1",
        "pods",
        "Pod",
        short_names=("po",),
        categories=("all",),
        has_status=True,
        generation=True,
        subresources=("binding", "eviction", "log"),
    ),
    Kind("", "v1", "services", "Service", short_names=("svc",), categories=("all",), has_status=True),
    Kind("", "v1", "endpoints", "Endpoints", short_names=("ep",)),
    Kind("", "v1", "configmaps", "ConfigMap", short_names=("cm",)),
    Kind("", "v1", "secrets", "Secret"),
    Kind("", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",)),
    Kind("", "v1", "events", "Event", short_names=("ev",), model="CoreV1Event"),
    Kind("", "v1", "limitranges", "LimitRange", short_names=("limits",)),
    Kind("", "v1", "resourcequotas", "ResourceQuota", short_names=("quota",), has_status=True),
    Kind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False, short_names=("pv",), has_status=True),
    Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc",), has_status=True),
    Kind(
        "",
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        short_names=("rc",),
        categories=("all",),
        has_status=True,
        scale=_REPLICAS,
        generation=True,
    ),
)

_WORKLOADS = (
    Kind(
        "apps",
        "v1",
        "deployments",
        "Deployment",
        short_names=("deploy",),
        categories=("all",),
        has_status=True,
        scale=_REPLICAS,
        generation=True,
    ),
    Kind(
        "apps",
        "v1",
        "replicasets",
        "ReplicaSet",
        short_names=("rs",),
        categories=("all",),
        has_status=True,
        scale=_REPLICAS,
        generation=True,
    ),
    Kind(
        "apps",
        "v1",
        "statefulsets",
        "StatefulSet",
        short_names=("sts",),
        categories=("all",),
        has_status=True,
        scale=_REPLICAS,
        generation=True,
    ),
    Kind(
        "apps",
        "v1",
        "daemonsets",
        "DaemonSet",
        short_names=("ds",),
        categories=("all",),
        has_status=True,
        generation=True,
    ),
    Kind("apps", "v1", "controllerrevisions", "ControllerRevision"),
    Kind("batch", "v1", "jobs", "Job", categories=("all",), has_status=True, generation=True),
    Kind(
        "batch",
        "v1",
        "cronjobs",
        "CronJob",
        short_names=("cj",),
        categories=("all",),
        has_status=True,
        generation=True,
    ),
)

_POLICY = (
    Kind("coordination.k8s.io", "v1", "leases", "Lease"),
    Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", generation=True),
    Kind("events.k8s.io", "v1", "events", "Event", short_names=("ev",), model="EventsV1Event", storage_version=False),
    Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short_names=("netpol",), generation=True),
    Kind(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        short_names=("pdb",),
        has_status=True,
        generation=True,
    ),
    Kind(
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        "PriorityClass",
        namespaced=False,
        short_names=("pc",),
        generation=True,
    ),
    Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False, short_names=("sc",)),
    Kind("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False),
    Kind("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False),
    Kind("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False, has_status=True),
    Kind(RBAC, "v1", "roles", "Role"),
    Kind(RBAC, "v1", "rolebindings", "RoleBinding"),
    Kind(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    Kind(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    Kind(
        ADMISSION,
        "v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        namespaced=False,
        categories=("api-extensions",),
        generation=True,
    ),
    Kind(
        ADMISSION,
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        namespaced=False,
        categories=("api-extensions",),
        generation=True,
    ),
    Kind(
        EXTENSIONS,
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        has_status=True,
        generation=True,
    ),
)

_REVIEWS = (
    Kind("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False, verbs=("create",)),
    Kind(
        "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False, verbs=("create",)
    ),
    Kind(
        "authorization.k8s.io",
        "v1",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        namespaced=False,
        verbs=("create",),
    ),
    Kind(
        "authorization.k8s.io",
        "v1",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
        namespaced=False,
        verbs=("create",),
    ),
    Kind(
        "authorization.k8s.io",
        "v1",
        "subjectaccessreviews",
        "SubjectAccessReview",
        namespaced=False,
        verbs=("create",),
    ),
    Kind("authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", verbs=("create",)),
)


def builtin_kinds() -> KindRegistry:
    """A fresh registry of every built-in kind."""
    return KindRegistry((*_CORE, *_WORKLOADS, *_POLICY, *_REVIEWS))
