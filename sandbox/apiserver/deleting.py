"""DELETE: at once, gracefully, or held back by finalizers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from koord.api.timestamps import format_rfc3339, parse_rfc3339
from sandbox.admission.request import DELETE
from sandbox.apiserver import bodies, conversion, query, status, strategy
from sandbox.apiserver.calls import Call
from sandbox.apiserver.storage import Entry
from sandbox.apiserver.updating import deletion_is_complete
from sandbox.apiserver.writing import Desk

JsonObject = dict[str, Any]

PROPAGATIONS = ("Orphan", "Background", "Foreground")
FOREGROUND_FINALIZER = "foregroundDeletion"
ORPHAN_FINALIZER = "orphan"
DEFAULT_GRACE_S = 30
# Kinds whose DELETE answers with the object instead of a Status, once it is gone.
RETURN_OBJECT = frozenset(
    {
        ("", "pods"),
        ("", "services"),
        ("", "serviceaccounts"),
        ("", "persistentvolumes"),
        ("", "persistentvolumeclaims"),
        ("", "resourcequotas"),
        ("storage.k8s.io", "storageclasses"),
        ("storage.k8s.io", "volumeattachments"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "csidrivers"),
    }
)


@dataclass(frozen=True)
class DeleteOptions:
    """DeleteOptions. `grace_s` None means the object's own."""

    grace_s: int | None = None
    uid: str = ""
    version: str = ""
    propagation: str = ""
    dry_run: bool = False

    def document(self) -> JsonObject:
        """The DeleteOptions that admission sees."""
        options: JsonObject = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        if self.grace_s is not None:
            options["gracePeriodSeconds"] = self.grace_s
        if self.propagation:
            options["propagationPolicy"] = self.propagation
        if self.dry_run:
            options["dryRun"] = ["All"]
        return options


def delete_options(body: JsonObject, parameters: Mapping[str, str]) -> DeleteOptions:
    """Read the options from the body, or from the query when there is none. Raises StatusError 400 or 422."""
    if not body:
        grace = query.integer(parameters, "gracePeriodSeconds")
        orphan = query.boolean(parameters, "orphanDependents") if "orphanDependents" in parameters else None
        propagation = parameters.get("propagationPolicy", "")
        dry_run = query.dry_run(parameters.get("dryRun", ""))
        return DeleteOptions(grace, "", "", _propagation(propagation, orphan), dry_run)
    conditions = bodies.as_object(body.get("preconditions") or {})
    grace = body.get("gracePeriodSeconds")
    if grace is not None and (isinstance(grace, bool) or not isinstance(grace, int)):
        raise status.bad_request(f"gracePeriodSeconds: invalid value {grace!r}: allowed: a whole number of seconds")
    dry_runs: Sequence[str] = body.get("dryRun") or ()
    return DeleteOptions(
        grace_s=grace,
        uid=conditions.get("uid") or "",
        version=conditions.get("resourceVersion") or "",
        propagation=_propagation(body.get("propagationPolicy") or "", body.get("orphanDependents")),
        dry_run=any(query.dry_run(text) for text in dry_runs) or query.dry_run(parameters.get("dryRun", "")),
    )


def _propagation(text: str, orphan: bool | None) -> str:
    if orphan is not None:
        return "Orphan" if orphan else "Background"
    if text and text not in PROPAGATIONS:
        told = ", ".join(f'"{name}"' for name in PROPAGATIONS)
        cause = status.Cause(
            "FieldValueInvalid", f'Invalid value: "{text}": must be one of {told}', "propagationPolicy"
        )
        raise status.invalid("meta.k8s.io", "DeleteOptions", "", [cause])
    return text


@dataclass(frozen=True)
class Deleted:
    """The outcome. `gone`: it has left the store (not when it is waiting, nor on a dry run)."""

    entry: Entry
    gone: bool


class Deleter:
    """Deletes objects of every kind."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def delete(self, call: Call, options: DeleteOptions, *, one_of_many: bool = False) -> Deleted:
        """Delete, or mark as being deleted. Raises StatusError NotFound, Conflict, Forbidden.

        one_of_many: a collection is deleted, so that admission is told no name.
        """
        desk = self._desk
        current = desk.current(call)
        _check(call, options, current)
        old = conversion.served(call.kind, current.object)
        asked = replace(call, name="") if one_of_many else call
        await desk.admit(asked, DELETE, None, old, options.document())
        current = desk.current(call)  # admission may have taken its time
        _check(call, options, current)
        return self.carry_out(call, options, current)

    def carry_out(self, call: Call, options: DeleteOptions, current: Entry) -> Deleted:
        """What deletion does to an admitted object: remove it, or leave it waiting."""
        desk = self._desk
        marked = self._marked(call, options, current.object)
        complete = deletion_is_complete(call, marked)
        if call.options.dry_run or options.dry_run:
            return Deleted(Entry(marked, current.version), gone=complete)
        resource = conversion.storage_of(call.kind)
        if complete:
            return Deleted(desk.storage.delete(resource, *current.key), gone=True)
        return Deleted(desk.storage.update(resource, marked, expected=current.version), gone=False)

    def _marked(self, call: Call, options: DeleteOptions, document: JsonObject) -> JsonObject:
        grace_s = _grace_s(call, options, document)
        meta = dict(document["metadata"])
        finalizers = _finalizers(meta.get("finalizers") or [], options.propagation)
        if finalizers:
            meta["finalizers"] = finalizers
        else:
            meta.pop("finalizers", None)
        known = meta.get("deletionTimestamp")
        before = meta.get("deletionGracePeriodSeconds") or 0
        if not known:
            meta["deletionTimestamp"] = format_rfc3339(self._desk.clock() + grace_s)
            meta["deletionGracePeriodSeconds"] = grace_s
            if "generation" in meta:
                meta["generation"] += 1
        elif grace_s < before:
            meta["deletionTimestamp"] = format_rfc3339(parse_rfc3339(known) - before + grace_s)
            meta["deletionGracePeriodSeconds"] = grace_s
        marked = {**document, "metadata": meta}
        if (call.kind.group, call.kind.plural) == ("", "namespaces"):
            marked["status"] = {**(document.get("status") or {}), "phase": "Terminating"}
        return marked


def _check(call: Call, options: DeleteOptions, current: Entry) -> None:
    meta = current.object["metadata"]
    kind = call.kind
    if options.uid and options.uid != meta.get("uid"):
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta.get('uid')}). "
            "The object might have been deleted and then recreated"
        )
        raise status.conflict(kind.group, kind.plural, call.name, why)
    if options.version and options.version != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in "
            f"record ({meta['resourceVersion']}). The object might have been modified"
        )
        raise status.conflict(kind.group, kind.plural, call.name, why)


def _grace_s(call: Call, options: DeleteOptions, document: JsonObject) -> int:
    """Only pods are deleted gracefully, and only those that a node may be running."""
    if (call.kind.group, call.kind.plural) != ("", "pods"):
        return 0
    spec = document.get("spec") or {}
    if not spec.get("nodeName") or strategy.finished(document):
        return 0
    own = spec.get("terminationGracePeriodSeconds")
    grace = options.grace_s if options.grace_s is not None else own if own is not None else DEFAULT_GRACE_S
    return 1 if grace < 0 else int(grace)


def _finalizers(current: list[str], propagation: str) -> list[str]:
    if not propagation:
        return current
    kept = [name for name in current if name not in (FOREGROUND_FINALIZER, ORPHAN_FINALIZER)]
    if propagation == "Foreground":
        kept.append(FOREGROUND_FINALIZER)
    elif propagation == "Orphan":
        kept.append(ORPHAN_FINALIZER)
    return kept
