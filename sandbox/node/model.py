"""The pod and node fields that the binder and the nodes of the sandbox read, beyond those of koord.api.

Decoded from the wire by one shared watch; never encoded back: what a node says of a pod is a patch.
"""

from typing import Any

from msgspec import field

from koord.api import objects
from koord.api.quantity import QuantityText
from koord.kube.resources import Resource

ANNOTATION_RUN_SECONDS = "sandbox.koord/run-seconds"
"""On a pod of a simulated node: it is Succeeded that many seconds after it started. Absent: it runs on."""

ANNOTATION_CGROUP_PARENT = "sandbox.koord/cgroup-parent"
"""On the real node: the directory, below every controller's mount, that holds its kubepods."""


class Struct(objects.Struct, frozen=True):
    """Base of the structs here."""


class FieldSelector(Struct, frozen=True):
    """valueFrom.fieldRef: a field of the pod itself."""

    field_path: str = ""


class ResourceFieldSelector(Struct, frozen=True):
    """valueFrom.resourceFieldRef: a request or limit of a container, in units of `divisor`."""

    resource: str = ""
    container_name: str = ""
    divisor: QuantityText = "1"


class EnvVarSource(Struct, frozen=True):
    """Where the value of a variable comes from."""

    field_ref: FieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: dict[str, Any] | None = None
    secret_key_ref: dict[str, Any] | None = None


class EnvVar(Struct, frozen=True):
    """One variable of a container."""

    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class HttpHeader(Struct, frozen=True):
    """One header of an httpGet probe."""

    name: str = ""
    value: str = ""


class HttpGetAction(Struct, frozen=True):
    """A probe by HTTP; any status from 200 to 399 is success."""

    port: int | str = 0
    path: str = "/"
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[HttpHeader, ...] = ()


class TcpSocketAction(Struct, frozen=True):
    """A probe by opening a connection."""

    port: int | str = 0
    host: str = ""


class ExecAction(Struct, frozen=True):
    """A probe by running a command; exit code 0 is success."""

    command: tuple[str, ...] = ()


class Probe(Struct, frozen=True):
    """A readiness, startup or liveness probe. Zero stands for the API's default."""

    http_get: HttpGetAction | None = None
    tcp_socket: TcpSocketAction | None = None
    exec: ExecAction | None = None
    initial_delay_seconds: int = 0
    period_seconds: int = 10
    timeout_seconds: int = 1
    success_threshold: int = 1
    failure_threshold: int = 3


class ContainerPort(Struct, frozen=True):
    """A named port of a container, which probes may name."""

    name: str = ""
    container_port: int = 0
    host_port: int = 0
    protocol: str = "TCP"


class Container(objects.Container, frozen=True):
    """A container as the node runs it."""

    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[dict[str, Any], ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    startup_probe: Probe | None = None
    volume_mounts: tuple[dict[str, Any], ...] = ()


class NodeSelectorRequirement(Struct, frozen=True):
    """One expression of a node selector term; operators In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct, frozen=True):
    """Expressions that must all hold; a term without any matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Struct, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(Struct, frozen=True):
    """The required half of a pod's node affinity."""

    required: NodeSelector | None = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class Affinity(Struct, frozen=True):
    """The part of a pod's affinity that the binder honours."""

    node_affinity: NodeAffinity | None = None


class PodSpec(objects.PodSpec, frozen=True):
    """The pod spec fields that the sandbox's nodes and binder read."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    affinity: Affinity | None = None
    scheduling_gates: tuple[dict[str, Any], ...] = ()
    host_network: bool = False
    active_deadline_seconds: int | None = None
    service_account_name: str = ""


class Pod(Struct, frozen=True):
    """core/v1 Pod as the sandbox's nodes and binder see it."""

    metadata: objects.ObjectMeta = objects.ObjectMeta()
    spec: PodSpec = PodSpec()
    status: objects.PodStatus = objects.PodStatus()

    @property
    def key(self) -> str:
        """namespace/name, for logs."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def is_terminal(self) -> bool:
        """Succeeded or Failed: its containers have stopped for good and hold nothing of the node."""
        return self.status.phase in ("Succeeded", "Failed")


PODS: Resource[Pod] = Resource("", "v1", "pods", "Pod", True, Pod)
