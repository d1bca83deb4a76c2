"""How pods are printed; the Status column is a small decision of its own. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from koord.api.timestamps import parse_rfc3339
from sandbox.apiserver.tables.columns import AGE, NAME, NONE, Column, Layout, age, duration, member, name_of, wide

JsonObject = dict[str, Any]


@dataclass
class _Counted:
    """Restarts of a pod, and when the latest was (epoch seconds, 0 for never)."""

    restarts: int = 0
    latest: float = 0.0

    def add(self, container: JsonObject) -> None:
        self.restarts += int(container.get("restartCount") or 0)
        finished = member(container, "lastState", "terminated", "finishedAt")
        if isinstance(finished, str):
            self.latest = max(self.latest, parse_rfc3339(finished))

    def text(self, now: float) -> str:
        if self.restarts and self.latest:
            return f"{self.restarts} ({duration(now - self.latest)} ago)"
        return str(self.restarts)


def _cells(pod: JsonObject, now: float) -> Sequence[object]:
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    restartable = _restartable_init(spec)
    total = len(spec.get("containers") or ()) + len(restartable)
    ready = sum(1 for entry in status.get("containerStatuses") or () if entry.get("ready"))
    ready += sum(
        1
        for entry in status.get("initContainerStatuses") or ()
        if entry.get("name") in restartable and entry.get("ready")
    )
    gates = spec.get("readinessGates") or ()
    conditions = {entry.get("type"): entry.get("status") for entry in status.get("conditions") or ()}
    passed = sum(1 for gate in gates if conditions.get(gate.get("conditionType")) == "True")
    return (
        name_of(pod),
        f"{ready}/{total}",
        status_text(pod),
        _restarts(pod).text(now),
        age(pod, now),
        status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{passed}/{len(gates)}" if gates else NONE,
    )


def _restarts(pod: JsonObject) -> _Counted:
    status = pod.get("status") or {}
    restartable = _restartable_init(pod.get("spec") or {})
    counted = _Counted()
    initializing = _initializing(pod)
    for entry in status.get("initContainerStatuses") or ():
        if initializing or entry.get("name") in restartable:
            counted.add(entry)
    if not initializing:
        for entry in status.get("containerStatuses") or ():
            counted.add(entry)
    return counted


def _restartable_init(spec: JsonObject) -> set[str]:
    init = spec.get("initContainers") or ()
    return {str(entry.get("name")) for entry in init if entry.get("restartPolicy") == "Always"}


def status_text(pod: JsonObject) -> str:
    """The one word that tells how a pod is doing."""
    status = pod.get("status") or {}
    text = status.get("reason") or status.get("phase") or "Unknown"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            text = "SchedulingGated"
    initializing = _initializing(pod)
    text = initializing or _containers_text(pod, text)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in ("Succeeded", "Failed"):
            return "Terminating"
    return str(text)


def _initializing(pod: JsonObject) -> str:
    """`Init:1/2` and its kin while init containers run; "" when they are done."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    restartable = _restartable_init(spec)
    total = len(spec.get("initContainers") or ())
    for index, entry in enumerate(status.get("initContainerStatuses") or ()):
        state = entry.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting")
        if terminated and terminated.get("exitCode") == 0:
            continue
        if entry.get("name") in restartable and entry.get("started"):
            continue
        if terminated:
            return "Init:" + (terminated.get("reason") or _exit_text(terminated))
        if waiting and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{total}"
    return ""


def _exit_text(terminated: JsonObject) -> str:
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode')}"


def _containers_text(pod: JsonObject, text: str) -> str:
    status = pod.get("status") or {}
    running = False
    entries: Iterable[JsonObject] = reversed(status.get("containerStatuses") or [])
    for entry in entries:
        state = entry.get("state") or {}
        waiting, terminated = state.get("waiting"), state.get("terminated")
        if waiting and waiting.get("reason"):
            text = waiting["reason"]
        elif terminated:
            text = terminated.get("reason") or _exit_text(terminated)
        elif entry.get("ready") and state.get("running") is not None:
            running = True
    if text == "Completed" and running:
        conditions = status.get("conditions") or ()
        ready = any(entry.get("type") == "Ready" and entry.get("status") == "True" for entry in conditions)
        return "Running" if ready else "NotReady"
    return text


PODS = Layout(
    (
        NAME,
        Column("Ready"),
        Column("Status"),
        Column("Restarts"),
        AGE,
        wide("IP"),
        wide("Node"),
        wide("Nominated Node"),
        wide("Readiness Gates"),
    ),
    _cells,
)
