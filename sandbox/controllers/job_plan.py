"""What a Job's controller does next: count ended pods, make or remove pods, finish. Pure.

A pod that fails by itself counts against backoffLimit and delays its replacement (10 s, doubling). A
pod that somebody deletes or evicts counts, too, but is replaced at once. Ended pods are counted
exactly once: they keep a finalizer until their uid stands in the status.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from koord.api.timestamps import format_rfc3339, parse_rfc3339
from sandbox.admission.request import JsonObject
from sandbox.controllers.replica_count import is_active
from sandbox.lifecycle.pods import condition, is_ready, is_terminating, phase, set_condition

TRACKING: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
INTERIM: Final = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}
"""The condition that announces an end, while the last pods are still going, and the one that tells of it."""
FIRST_BACKOFF_S: Final = 10.0
LAST_BACKOFF_S: Final = 600.0
BURST: Final = 500


@dataclass(frozen=True)
class Counted:
    """Ended pods, those of the status and those found now. The lists hold uids not yet released."""

    succeeded: int
    failed: int
    new_succeeded: tuple[str, ...]
    new_failed: tuple[str, ...]
    succeeded_indexes: frozenset[int]


@dataclass(frozen=True)
class JobPlan:
    """create: completion index (None for plain jobs) of each pod to make.

    ended: ("Complete" | "Failed", reason, message) or None while the job goes on. again_s: when time
    alone changes the plan.
    """

    create: tuple[int | None, ...]
    delete: tuple[JsonObject, ...]
    ended: tuple[str, str, str] | None
    again_s: float | None


def is_ended(job: JsonObject) -> bool:
    """Whether the job has completed or failed for good."""
    return any((condition(job, name) or {}).get("status") == "True" for name in ("Complete", "Failed"))


def pod_failed(pod: JsonObject) -> bool:
    """Failed, or taken away before it could succeed."""
    return phase(pod) == "Failed" or (is_terminating(pod) and phase(pod) != "Succeeded")


def index_of(pod: JsonObject) -> int | None:
    """The completion index of an Indexed job's pod."""
    text = str((pod["metadata"].get("annotations") or {}).get(INDEX, ""))
    return int(text) if text.isdigit() else None


def count_pods(job: JsonObject, pods: Sequence[JsonObject]) -> Counted:
    """Add the pods that ended since the status was written."""
    status = job.get("status") or {}
    pending = status.get("uncountedTerminatedPods") or {}
    known = {*(pending.get("succeeded") or ()), *(pending.get("failed") or ())}
    fresh = [pod for pod in pods if TRACKING in (pod["metadata"].get("finalizers") or ()) and _uid(pod) not in known]
    indexes = parse_indexes(status.get("completedIndexes") or "")
    new_succeeded = []
    for pod in fresh:
        if phase(pod) == "Succeeded":
            index = index_of(pod)
            if not _is_indexed(job):
                new_succeeded.append(_uid(pod))
            elif index is not None and index not in indexes:
                indexes.add(index)
                new_succeeded.append(_uid(pod))
    new_failed = [_uid(pod) for pod in fresh if pod_failed(pod) and not _is_ignored(job, pod)]
    return Counted(
        succeeded=(status.get("succeeded") or 0) + len(new_succeeded),
        failed=(status.get("failed") or 0) + len(new_failed),
        new_succeeded=tuple(new_succeeded),
        new_failed=tuple(new_failed),
        succeeded_indexes=frozenset(indexes),
    )


def plan_job(job: JsonObject, pods: Sequence[JsonObject], counted: Counted, now_s: float) -> JobPlan:
    """The next step of a job that has not ended."""
    spec = job.get("spec") or {}
    active = [pod for pod in pods if is_active(pod)]
    ended = _verdict(job, pods, counted, now_s, len(active))
    if ended is not None:
        return JobPlan((), tuple(active), ended, None)
    if spec.get("suspend"):
        return JobPlan((), tuple(active), None, None)
    surplus = active[: max(len(active) - _wanted(spec, counted, len(active)), 0)]
    missing = min(_wanted(spec, counted, len(active)) - len(active), BURST)
    if (spec.get("podReplacementPolicy") or "") == "Failed":
        missing -= sum(is_terminating(pod) and phase(pod) not in ("Succeeded", "Failed") for pod in pods)
    deadline_s = _deadline_left_s(job, now_s)
    wait_s = _backoff_left_s(pods, now_s)
    if missing > 0 and wait_s > 0:
        return JobPlan((), tuple(surplus), None, min(wait_s, deadline_s or wait_s))
    return JobPlan(_indexes(job, active, counted, max(missing, 0)), tuple(surplus), None, deadline_s)


def _wanted(spec: JsonObject, counted: Counted, active: int) -> int:
    """Pods that should be running now."""
    parallelism = int(spec.get("parallelism", 1))
    completions = spec.get("completions")
    if completions is None:  # a work queue: once one has succeeded, no new ones
        return min(active, parallelism) if counted.succeeded else parallelism
    return max(min(int(completions) - counted.succeeded, parallelism), 0)


def _indexes(job: JsonObject, active: Sequence[JsonObject], counted: Counted, number: int) -> tuple[int | None, ...]:
    if not _is_indexed(job):
        return (None,) * number
    taken = {index_of(pod) for pod in active} | counted.succeeded_indexes
    free = [index for index in range(int(job["spec"]["completions"])) if index not in taken]
    return tuple(free[:number])


def _verdict(
    job: JsonObject, pods: Sequence[JsonObject], counted: Counted, now_s: float, active: int
) -> tuple[str, str, str] | None:
    for name, kind in INTERIM.items():
        announced = condition(job, name)
        if announced is not None and announced.get("status") == "True":
            return kind, announced.get("reason", ""), announced.get("message", "")
    spec = job.get("spec") or {}
    failing = next((pod for pod in pods if pod_failed(pod) and _action(job, pod) == "FailJob"), None)
    if failing is not None:
        name = f"{failing['metadata']['namespace']}/{failing['metadata']['name']}"
        return "Failed", "PodFailurePolicy", f"Pod {name} matches a FailJob rule"
    if counted.failed > int(spec.get("backoffLimit", 6)):
        return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    if (left_s := _deadline_left_s(job, now_s)) is not None and left_s <= 0:
        return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
    if spec.get("completions") is not None:
        done = counted.succeeded >= int(spec["completions"])
    else:  # a work queue is empty when a pod has succeeded and none is left
        done = counted.succeeded > 0 and active == 0
    return ("Complete", "CompletionsReached", "Reached expected number of succeeded pods") if done else None


def _deadline_left_s(job: JsonObject, now_s: float) -> float | None:
    limit_s = (job.get("spec") or {}).get("activeDeadlineSeconds")
    started = (job.get("status") or {}).get("startTime")
    if limit_s is None or not started:
        return None
    left: float = parse_rfc3339(started) + limit_s - now_s
    return left


def _backoff_left_s(pods: Sequence[JsonObject], now_s: float) -> float:
    """Seconds to wait after the latest failure; more after each one since the last success."""
    successes = [_ended_at(pod) for pod in pods if phase(pod) == "Succeeded"]
    last_success = max(successes, default=0.0)
    failures = [
        _ended_at(pod)
        for pod in pods
        if phase(pod) == "Failed" and not is_terminating(pod) and condition(pod, "DisruptionTarget") is None
    ]
    recent = [ended_s for ended_s in failures if ended_s > last_success]
    if not recent:
        return 0.0
    delay_s = min(FIRST_BACKOFF_S * 2.0 ** min(len(recent) - 1, 16), LAST_BACKOFF_S)
    return max(max(recent) + delay_s - now_s, 0.0)


def _ended_at(pod: JsonObject) -> float:
    """When the last container ended; for pods without that, when they were made."""
    ends = [
        entry["state"]["terminated"].get("finishedAt")
        for entry in (pod.get("status") or {}).get("containerStatuses") or ()
        if (entry.get("state") or {}).get("terminated")
    ]
    stamps = [parse_rfc3339(stamp) for stamp in ends if stamp]
    return max(stamps) if stamps else parse_rfc3339(pod["metadata"]["creationTimestamp"])


def _is_ignored(job: JsonObject, pod: JsonObject) -> bool:
    return _action(job, pod) == "Ignore"


def _action(job: JsonObject, pod: JsonObject) -> str:
    """What podFailurePolicy says of a failed pod: FailJob, Ignore or Count."""
    rules = ((job.get("spec") or {}).get("podFailurePolicy") or {}).get("rules") or ()
    return next((rule["action"] for rule in rules if _rule_matches(rule, pod)), "Count")


def _rule_matches(rule: JsonObject, pod: JsonObject) -> bool:
    codes = rule.get("onExitCodes")
    if codes is not None:
        return any(_code_matches(codes, entry) for entry in (pod.get("status") or {}).get("containerStatuses") or ())
    for wanted in rule.get("onPodConditions") or ():
        found = condition(pod, wanted["type"])
        if found is not None and found.get("status") == wanted.get("status", "True"):
            return True
    return False


def _code_matches(codes: JsonObject, entry: JsonObject) -> bool:
    ended = (entry.get("state") or {}).get("terminated")
    if not ended or not ended.get("exitCode") or codes.get("containerName", entry["name"]) != entry["name"]:
        return False
    listed = ended["exitCode"] in codes["values"]
    return bool(listed == (codes["operator"] == "In"))


def job_status(job: JsonObject, pods: Sequence[JsonObject], counted: Counted, now_s: float) -> JsonObject:
    """Counts and start time; conditions stay as they are."""
    old = job.get("status") or {}
    pending = old.get("uncountedTerminatedPods") or {}
    active = [pod for pod in pods if is_active(pod)]
    tracked = {_uid(pod) for pod in pods if TRACKING in (pod["metadata"].get("finalizers") or ())}
    waiting = {
        name: [uid for uid in (*(pending.get(name) or ()), *new) if uid in tracked]
        for name, new in (("succeeded", counted.new_succeeded), ("failed", counted.new_failed))
    }
    status: JsonObject = {
        "active": len(active),
        "ready": sum(is_ready(pod) for pod in active),
        "terminating": sum(is_terminating(pod) and phase(pod) not in ("Succeeded", "Failed") for pod in pods),
        "succeeded": counted.succeeded,
        "failed": counted.failed,
        "uncountedTerminatedPods": {name: uids for name, uids in waiting.items() if uids},
    }
    if counted.succeeded_indexes:
        status["completedIndexes"] = format_indexes(counted.succeeded_indexes)
    if not (job.get("spec") or {}).get("suspend"):
        status["startTime"] = old.get("startTime") or format_rfc3339(now_s)
    for key in ("conditions", "completionTime"):
        if old.get(key):
            status[key] = old[key]
    return status


def finished_status(status: JsonObject, ended: tuple[str, str, str], now: str) -> JsonObject:
    """The status of a job that is decided: announced at once, ended when no pod is left to wait for or to count."""
    kind, reason, message = ended
    entry = {"status": "True", "reason": reason, "message": message, "lastProbeTime": now}
    announcement = next(name for name, final in INTERIM.items() if final == kind)
    if condition({"status": status}, announcement) is None:
        status = set_condition(status, {"type": announcement, **entry}, now)
    if status["active"] or status["terminating"] or status["uncountedTerminatedPods"]:
        return status
    status = set_condition(status, {"type": kind, **entry}, now)
    return {**status, "completionTime": now} if kind == "Complete" else status


def parse_indexes(text: str) -> set[int]:
    """`0-2,5` as a set."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def format_indexes(indexes: frozenset[int]) -> str:
    """A set as `0-2,5`."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _is_indexed(job: JsonObject) -> bool:
    return (job.get("spec") or {}).get("completionMode") == "Indexed"


def _uid(pod: JsonObject) -> str:
    return str(pod["metadata"]["uid"])
