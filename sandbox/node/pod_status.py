"""A pod's status from what its node knows of its containers, by the kubelet's rules. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from koord.api import qos
from koord.api.objects import JsonObject
from koord.api.timestamps import format_rfc3339
from sandbox.node import model

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
CREATING = "ContainerCreating"
INITIALIZING = "PodInitializing"
RUNTIME = "sandbox"


@dataclass(frozen=True)
class Waiting:
    """Not started, or between two runs."""

    reason: str
    message: str = ""

    def document(self) -> JsonObject:
        """state.waiting."""
        return {"waiting": _without_empty({"reason": self.reason, "message": self.message})}


@dataclass(frozen=True)
class Running:
    """Its process lives. Times are epoch seconds."""

    started_at: float

    def document(self) -> JsonObject:
        """state.running."""
        return {"running": {"startedAt": format_rfc3339(self.started_at)}}


@dataclass(frozen=True)
class Terminated:
    """One run is over. `exit_code` is 128 + the signal's number when a signal ended it."""

    exit_code: int
    reason: str
    started_at: float
    finished_at: float
    container_id: str
    message: str = ""

    def document(self) -> JsonObject:
        """state.terminated."""
        return {
            "terminated": {
                "exitCode": self.exit_code,
                "reason": self.reason,
                "startedAt": format_rfc3339(self.started_at),
                "finishedAt": format_rfc3339(self.finished_at),
                "containerID": f"{RUNTIME}://{self.container_id}",
                **_without_empty({"message": self.message}),
            }
        }


State = Waiting | Running | Terminated


@dataclass(frozen=True)
class ContainerRecord:
    """What is known of one container. `last`: how the run before the present one ended."""

    name: str
    image: str
    state: State
    is_init: bool = False
    is_sidecar: bool = False
    last: Terminated | None = None
    restart_count: int = 0
    container_id: str = ""
    started: bool = False
    probed_ready: bool = False

    @property
    def is_ready(self) -> bool:
        """Counts for the pod: running, started and its readiness probe (if any) content."""
        if self.is_init and not self.is_sidecar:
            return _succeeded(self)
        return isinstance(self.state, Running) and self.started and self.probed_ready

    def document(self) -> JsonObject:
        """The ContainerStatus."""
        status: JsonObject = {
            "name": self.name,
            "image": self.image,
            "imageID": "",
            "state": self.state.document(),
            "lastState": self.last.document() if self.last else {},
            "ready": self.is_ready,
            "started": self.started and isinstance(self.state, Running),
            "restartCount": self.restart_count,
        }
        if self.container_id:
            status["containerID"] = f"{RUNTIME}://{self.container_id}"
        return status


@dataclass(frozen=True)
class PodRecord:
    """What the node knows of a pod.

    reason, message: why the node itself ended it, if it did. ended: the node is through with it, whatever its
    restart policy. transitions: condition type to (status, since when), from the status before.
    """

    pod: model.Pod
    containers: Mapping[str, ContainerRecord]
    host_ip: str
    pod_ip: str
    started_at: float
    has_sandbox: bool = True
    reason: str = ""
    message: str = ""
    ended: bool = False
    transitions: Mapping[str, tuple[str, float]] = field(default_factory=dict)


def initial_records(spec: model.PodSpec) -> dict[str, ContainerRecord]:
    """Every container waiting, init containers first."""
    reason = INITIALIZING if spec.init_containers else CREATING
    records = {
        item.name: ContainerRecord(
            item.name, item.image, Waiting(INITIALIZING), is_init=True, is_sidecar=item.is_sidecar
        )
        for item in spec.init_containers
    }
    records.update({item.name: ContainerRecord(item.name, item.image, Waiting(reason)) for item in spec.containers})
    return records


def phase(record: PodRecord) -> str:
    """The pod's phase; never a final one while any of its containers runs."""
    reached = _phase_reached(record)
    alive = any(isinstance(item.state, Running) for item in record.containers.values())
    return RUNNING if alive and reached in (SUCCEEDED, FAILED) else reached


def _phase_reached(record: PodRecord) -> str:
    if record.reason:
        return FAILED
    policy = record.pod.spec.restart_policy or "Always"
    mains = [item for item in record.containers.values() if not item.is_init]
    inits = [item for item in record.containers.values() if item.is_init]
    if any(_failed_for_good(item, policy) for item in inits if not item.is_sidecar):
        return FAILED
    if record.ended:
        return SUCCEEDED if all(_succeeded(item) for item in mains) else FAILED
    if not all(_has_initialized(item) for item in inits):
        return PENDING
    return _main_phase(mains, policy)


def _succeeded(item: ContainerRecord) -> bool:
    return isinstance(item.state, Terminated) and item.state.exit_code == 0


def _main_phase(mains: Sequence[ContainerRecord], policy: str) -> str:
    states = [item.state for item in mains]
    if any(isinstance(item.state, Waiting) and item.last is None for item in mains):
        return PENDING
    ended = [state for state in states if isinstance(state, Terminated)]
    if len(ended) < len(states) or policy == "Always":
        return RUNNING
    if all(state.exit_code == 0 for state in ended):
        return SUCCEEDED
    return FAILED if policy == "Never" else RUNNING


def _failed_for_good(item: ContainerRecord, policy: str) -> bool:
    return policy == "Never" and isinstance(item.state, Terminated) and item.state.exit_code != 0


def _has_initialized(item: ContainerRecord) -> bool:
    if item.is_sidecar:
        return item.started or item.last is not None or isinstance(item.state, Terminated)
    return _succeeded(item)


def conditions(record: PodRecord) -> dict[str, tuple[str, str, str]]:
    """Condition type to (status, reason, message)."""
    now_phase = phase(record)
    inits = [item for item in record.containers.values() if item.is_init]
    lacking = [item.name for item in inits if not _has_initialized(item)]
    found = {
        "PodReadyToStartContainers": _truth(record.has_sandbox),
        "Initialized": _truth(not lacking, "ContainersNotInitialized", "containers with incomplete status", lacking),
        "PodScheduled": _truth(True),
    }
    if now_phase in (SUCCEEDED, FAILED):
        done = "PodCompleted" if now_phase == SUCCEEDED else "PodFailed"
        found["Ready"] = found["ContainersReady"] = _truth(False, done)
        if now_phase == SUCCEEDED:
            found["Initialized"] = ("True", done, "")
        return found
    counted = [item for item in record.containers.values() if not item.is_init or item.is_sidecar]
    unready = [item.name for item in counted if not item.is_ready]
    ready = _truth(not unready, "ContainersNotReady", "containers with unready status", unready)
    found["Ready"] = found["ContainersReady"] = ready
    return found


def _truth(holds: bool, reason: str = "", complaint: str = "", culprits: Sequence[str] = ()) -> tuple[str, str, str]:
    if holds:
        return "True", "", ""
    return "False", reason, f"{complaint}: [{' '.join(culprits)}]" if culprits else ""


def advance(record: PodRecord, now: float) -> dict[str, tuple[str, float]]:
    """The transitions after this status: a condition keeps its time for as long as it keeps its status."""
    moved: dict[str, tuple[str, float]] = {}
    for kind, (status, _, _) in conditions(record).items():
        before = record.transitions.get(kind)
        moved[kind] = before if before is not None and before[0] == status else (status, now)
    return moved


def status_document(record: PodRecord, now: float) -> JsonObject:
    """The PodStatus to write. `now` (epoch seconds) dates the conditions that changed. Raises InvalidQuantity."""
    moments = advance(record, now)
    document: JsonObject = {
        "phase": phase(record),
        "conditions": [
            {
                "type": kind,
                "status": status,
                "lastTransitionTime": format_rfc3339(moments[kind][1]),
                **_without_empty({"reason": reason, "message": message}),
            }
            for kind, (status, reason, message) in conditions(record).items()
        ],
        "hostIP": record.host_ip,
        "hostIPs": [{"ip": record.host_ip}],
        "podIP": record.pod_ip,
        "podIPs": [{"ip": record.pod_ip}],
        "startTime": format_rfc3339(record.started_at),
        "qosClass": str(qos.computed_kube_qos(record.pod.spec)),
        "containerStatuses": [item.document() for item in record.containers.values() if not item.is_init],
    }
    if inits := [item.document() for item in record.containers.values() if item.is_init]:
        document["initContainerStatuses"] = inits
    if document["phase"] == FAILED:
        document |= _without_empty({"reason": record.reason, "message": record.message})
    return document


def _without_empty(texts: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in texts.items() if text}
