"""How controllers of pods are printed. Pure."""

from collections.abc import Sequence
from typing import Any

from koord.api.timestamps import parse_rfc3339
from sandbox.apiserver.tables.columns import (
    AGE,
    NAME,
    NONE,
    Column,
    Layout,
    age,
    containers_text,
    duration,
    labels_text,
    member,
    name_of,
    selector_text,
    since,
    wide,
)

JsonObject = dict[str, Any]

_WIDE = (wide("Containers"), wide("Images"), wide("Selector"))


def _number(document: JsonObject, *path: str) -> int:
    found = member(document, *path)
    return found if isinstance(found, int) else 0


def _template(document: JsonObject) -> tuple[str, str]:
    return containers_text(member(document, "spec", "template", "spec"))


def _selector(document: JsonObject) -> str:
    return selector_text(member(document, "spec", "selector"))


def _deployment(document: JsonObject, now: float) -> Sequence[object]:
    return (
        name_of(document),
        f"{_number(document, 'status', 'readyReplicas')}/{_number(document, 'spec', 'replicas')}",
        _number(document, "status", "updatedReplicas"),
        _number(document, "status", "availableReplicas"),
        age(document, now),
        *_template(document),
        _selector(document),
    )


def _replica_set(document: JsonObject, now: float) -> Sequence[object]:
    return (
        name_of(document),
        _number(document, "spec", "replicas"),
        _number(document, "status", "replicas"),
        _number(document, "status", "readyReplicas"),
        age(document, now),
        *_template(document),
        _selector(document),
    )


def _replication_controller(document: JsonObject, now: float) -> Sequence[object]:
    cells = _replica_set({**document, "spec": {**(document.get("spec") or {}), "selector": {}}}, now)
    return (*cells[:-1], labels_text(member(document, "spec", "selector")))


def _stateful_set(document: JsonObject, now: float) -> Sequence[object]:
    ready = f"{_number(document, 'status', 'readyReplicas')}/{_number(document, 'spec', 'replicas')}"
    return name_of(document), ready, age(document, now), *_template(document)


def _daemon_set(document: JsonObject, now: float) -> Sequence[object]:
    return (
        name_of(document),
        _number(document, "status", "desiredNumberScheduled"),
        _number(document, "status", "currentNumberScheduled"),
        _number(document, "status", "numberReady"),
        _number(document, "status", "updatedNumberScheduled"),
        _number(document, "status", "numberAvailable"),
        labels_text(member(document, "spec", "template", "spec", "nodeSelector")),
        age(document, now),
        *_template(document),
        _selector(document),
    )


def _job(document: JsonObject, now: float) -> Sequence[object]:
    return (
        name_of(document),
        _job_status(document),
        _completions(document),
        _job_duration(document, now),
        age(document, now),
        *_template(document),
        _selector(document),
    )


def _job_status(document: JsonObject) -> str:
    true = {
        condition.get("type")
        for condition in member(document, "status", "conditions") or ()
        if condition.get("status") == "True"
    }
    for kind, text in (("Complete", "Complete"), ("Failed", "Failed")):
        if kind in true:
            return text
    if document["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for kind, text in (
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if kind in true:
            return text
    return "Running"


def _completions(document: JsonObject) -> str:
    succeeded = _number(document, "status", "succeeded")
    completions = member(document, "spec", "completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallelism = _number(document, "spec", "parallelism")
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(document: JsonObject, now: float) -> str:
    started, ended = member(document, "status", "startTime"), member(document, "status", "completionTime")
    if not started:
        return ""
    return duration((parse_rfc3339(ended) if ended else now) - parse_rfc3339(started))


def _cron_job(document: JsonObject, now: float) -> Sequence[object]:
    last = member(document, "status", "lastScheduleTime")
    template = member(document, "spec", "jobTemplate") or {}
    return (
        name_of(document),
        member(document, "spec", "schedule"),
        member(document, "spec", "timeZone") or NONE,
        str(bool(member(document, "spec", "suspend"))),
        len(member(document, "status", "active") or ()),
        since(last, now) if last else NONE,
        age(document, now),
        *_template(template),
        _selector(template),
    )


def _integer(name: str) -> Column:
    return Column(name, "integer")


_REPLICAS = (NAME, _integer("Desired"), _integer("Current"), _integer("Ready"), AGE, *_WIDE)

LAYOUTS: dict[tuple[str, str], Layout] = {
    ("apps", "deployments"): Layout(
        (NAME, Column("Ready"), Column("Up-to-date"), Column("Available"), AGE, *_WIDE), _deployment
    ),
    ("apps", "replicasets"): Layout(_REPLICAS, _replica_set),
    ("", "replicationcontrollers"): Layout(_REPLICAS, _replication_controller),
    ("apps", "statefulsets"): Layout((NAME, Column("Ready"), AGE, *_WIDE[:2]), _stateful_set),
    ("apps", "daemonsets"): Layout(
        (
            NAME,
            _integer("Desired"),
            _integer("Current"),
            _integer("Ready"),
            _integer("Up-to-date"),
            _integer("Available"),
            Column("Node Selector"),
            AGE,
            *_WIDE,
        ),
        _daemon_set,
    ),
    ("batch", "jobs"): Layout((NAME, Column("Status"), Column("Completions"), Column("Duration"), AGE, *_WIDE), _job),
    ("batch", "cronjobs"): Layout(
        (
            NAME,
            Column("Schedule"),
            Column("Timezone"),
            Column("Suspend", "boolean"),
            _integer("Active"),
            Column("Last Schedule"),
            AGE,
            *_WIDE,
        ),
        _cron_job,
    ),
}
