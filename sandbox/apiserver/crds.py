"""CustomResourceDefinitions: from the stored definition to kinds that are served, and the conditions that tell so."""

from collections.abc import Callable
from typing import Any

from sandbox.apiserver.kinds import Kind, KindRegistry, PrinterColumn, ScalePaths
from sandbox.apiserver.storage import ADDED, DELETED, Event, GroupResource, Storage

JsonObject = dict[str, Any]

DEFINITIONS = GroupResource("apiextensions.k8s.io", "customresourcedefinitions")


def kinds_of(definition: JsonObject) -> list[Kind]:
    """The kinds that a definition serves, one for each served version. Pure."""
    spec = definition.get("spec") or {}
    return [_kind(spec, version) for version in spec.get("versions") or () if version.get("served")]


def _kind(spec: JsonObject, version: JsonObject) -> Kind:
    names = spec.get("names") or {}
    subresources = version.get("subresources") or {}
    fields = tuple(entry.get("jsonPath", "") for entry in version.get("selectableFields") or ())
    return Kind(
        group=spec.get("group", ""),
        version=version.get("name", ""),
        plural=names.get("plural", ""),
        kind=names.get("kind", ""),
        namespaced=spec.get("scope") == "Namespaced",
        singular=names.get("singular") or str(names.get("kind", "")).lower(),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        has_status="status" in subresources,
        scale=_scale(subresources.get("scale")),
        custom=True,
        schema=(version.get("schema") or {}).get("openAPIV3Schema"),
        columns=tuple(_column(entry) for entry in version.get("additionalPrinterColumns") or ()),
        selectable_fields=fields,
        list_kind=names.get("listKind", ""),
        storage_version=bool(version.get("storage")),
    )


def _scale(scale: JsonObject | None) -> ScalePaths | None:
    if scale is None:
        return None
    return ScalePaths(
        scale.get("specReplicasPath", ""), scale.get("statusReplicasPath", ""), scale.get("labelSelectorPath", "")
    )


def _column(entry: JsonObject) -> PrinterColumn:
    return PrinterColumn(
        name=entry.get("name", ""),
        type=entry.get("type", "string"),
        json_path=entry.get("jsonPath", ""),
        description=entry.get("description", ""),
        format=entry.get("format", ""),
        priority=entry.get("priority", 0),
    )


def name_conflict(definition: JsonObject, kinds: KindRegistry) -> str:
    """Why the definition's names cannot be accepted, "" when they can. Pure but for the registry it reads."""
    spec = definition.get("spec") or {}
    names = spec.get("names") or {}
    for kind in kinds:
        if kind.group != spec.get("group") or kind.plural == names.get("plural"):
            continue
        if kind.kind == names.get("kind"):
            return f'"{kind.kind}" is already in use'
        if kind.singular_name == names.get("singular"):
            return f'"{kind.singular_name}" is already in use'
    return ""


def status_of(definition: JsonObject, conflict: str, now: str) -> JsonObject:
    """The status of a definition whose names are accepted (no conflict) or not. Pure."""
    spec = definition.get("spec") or {}
    before = definition.get("status") or {}
    accepted = not conflict
    conditions = _conditions(before.get("conditions") or [], accepted, conflict, now)
    storage_version = next((entry["name"] for entry in spec.get("versions") or () if entry.get("storage")), None)
    versions = list(before.get("storedVersions") or [])
    if storage_version and storage_version not in versions:
        versions.append(storage_version)
    names = before.get("acceptedNames") if conflict else spec.get("names")
    return {
        **before,
        "acceptedNames": names or {"kind": "", "plural": ""},
        "conditions": conditions,
        "storedVersions": versions,
    }


def _conditions(before: list[JsonObject], accepted: bool, conflict: str, now: str) -> list[JsonObject]:
    told = {
        "NamesAccepted": ("NoConflicts", "no conflicts found") if accepted else ("KindConflict", conflict),
        "Established": ("InitialNamesAccepted", "the initial names have been accepted")
        if accepted
        else ("NotAccepted", "not all names are accepted"),
    }
    known = {entry.get("type"): entry for entry in before}
    result = [entry for entry in before if entry.get("type") not in told]
    for kind, (reason, message) in told.items():
        value = "True" if accepted else "False"
        old = known.get(kind)
        if old and old.get("status") == value:
            result.append(old)
        else:
            entry = {"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": now}
            result.append(entry)
    return result


class DefinitionKeeper:
    """Serves the kinds of stored definitions, from the write on that creates them.

    `now` gives the time in metav1.Time's form.
    """

    def __init__(self, storage: Storage, kinds: KindRegistry, now: Callable[[], str]) -> None:
        self._storage = storage
        self._kinds = kinds
        self._now = now

    def start(self) -> None:
        """Serve what is stored already and follow changes."""
        for entry in self._storage.entries(DEFINITIONS):
            self._serve(entry.object)
        self._storage.listen(DEFINITIONS, self._on_change)

    def _on_change(self, event: Event) -> None:
        definition = event.entry.object
        if event.type == DELETED:
            self._withdraw(definition)
            return
        if event.type != ADDED and event.previous and event.previous.object.get("spec") == definition.get("spec"):
            return
        self._serve(definition)

    def _serve(self, definition: JsonObject) -> None:
        conflict = name_conflict(definition, self._kinds)
        status = status_of(definition, conflict, self._now())
        if not conflict:
            spec = definition["spec"]
            self._kinds.replace(spec["group"], spec["names"]["plural"], kinds_of(definition))
        if status != definition.get("status"):
            self._storage.update(DEFINITIONS, {**definition, "status": status})

    def _withdraw(self, definition: JsonObject) -> None:
        spec = definition["spec"]
        resource = GroupResource(spec["group"], spec["names"]["plural"])
        if self._kinds.any_version(*resource) is None:
            return
        self._storage.drop([resource])
        self._kinds.remove(*resource)
