"""How policies, registrations and the other small kinds are printed. Pure."""

from collections.abc import Sequence
from typing import Any

from sandbox.apiserver.tables.columns import (
    AGE,
    NAME,
    Column,
    Layout,
    age,
    member,
    name_of,
    selector_text,
    wide,
)

JsonObject = dict[str, Any]

_CREATED_AT = Column("Created At", "date")
NOT_APPLICABLE = "N/A"


def _created(document: JsonObject, _now: float) -> Sequence[object]:
    return name_of(document), document["metadata"].get("creationTimestamp", "")


def _aged(document: JsonObject, now: float) -> Sequence[object]:
    return name_of(document), age(document, now)


def _budget(document: JsonObject, now: float) -> Sequence[object]:
    minimum, maximum = member(document, "spec", "minAvailable"), member(document, "spec", "maxUnavailable")
    return (
        name_of(document),
        NOT_APPLICABLE if minimum is None else str(minimum),
        NOT_APPLICABLE if maximum is None else str(maximum),
        member(document, "status", "disruptionsAllowed") or 0,
        age(document, now),
    )


def _priority_class(document: JsonObject, now: float) -> Sequence[object]:
    return (
        name_of(document),
        document.get("value", 0),
        bool(document.get("globalDefault")),
        age(document, now),
        document.get("preemptionPolicy", ""),
    )


def _lease(document: JsonObject, now: float) -> Sequence[object]:
    return name_of(document), member(document, "spec", "holderIdentity") or "", age(document, now)


def _webhooks(document: JsonObject, now: float) -> Sequence[object]:
    return name_of(document), len(document.get("webhooks") or ()), age(document, now)


def _binding(document: JsonObject, now: float) -> Sequence[object]:
    role = document.get("roleRef") or {}
    subjects = document.get("subjects") or ()
    users, groups, accounts = (
        ", ".join(
            f"{entry.get('namespace')}/{entry.get('name')}" if kind == "ServiceAccount" else entry.get("name", "")
            for entry in subjects
            if entry.get("kind") == kind
        )
        for kind in ("User", "Group", "ServiceAccount")
    )
    return name_of(document), f"{role.get('kind')}/{role.get('name')}", age(document, now), users, groups, accounts


def _storage_class(document: JsonObject, now: float) -> Sequence[object]:
    name = name_of(document)
    annotations = document["metadata"].get("annotations") or {}
    if annotations.get("storageclass.kubernetes.io/is-default-class") == "true":
        name += " (default)"
    return (
        name,
        document.get("provisioner", ""),
        document.get("reclaimPolicy", "Delete"),
        document.get("volumeBindingMode", "Immediate"),
        bool(document.get("allowVolumeExpansion")),
        age(document, now),
    )


def _network_policy(document: JsonObject, now: float) -> Sequence[object]:
    return name_of(document), selector_text(member(document, "spec", "podSelector")), age(document, now)


def _revision(document: JsonObject, now: float) -> Sequence[object]:
    owners = document["metadata"].get("ownerReferences") or ()
    controller = next((entry for entry in owners if entry.get("controller")), None)
    told = "<none>"
    if controller:
        told = f"{controller.get('kind', '').lower()}.{controller.get('apiVersion', '').partition('/')[0]}/" + str(
            controller.get("name")
        )
    return name_of(document), told, document.get("revision", 0), age(document, now)


def _definition(document: JsonObject, _now: float) -> Sequence[object]:
    spec = document.get("spec") or {}
    names = spec.get("names") or {}
    conditions = member(document, "status", "conditions") or ()
    return (
        name_of(document),
        spec.get("scope", ""),
        ",".join(sorted(_version_text(entry) for entry in spec.get("versions") or () if entry.get("served"))),
        document["metadata"].get("creationTimestamp", ""),
        spec.get("group", ""),
        names.get("kind", ""),
        ",".join(names.get("shortNames") or ()),
        any(entry.get("type") == "Established" and entry.get("status") == "True" for entry in conditions),
    )


def _version_text(version: JsonObject) -> str:
    return f"{version.get('name')}(storage)" if version.get("storage") else str(version.get("name"))


PLAIN = Layout((NAME, AGE), _aged)
_CREATED = Layout((NAME, _CREATED_AT), _created)
_BINDINGS = Layout((NAME, Column("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts")), _binding)
_REGISTRATIONS = Layout((NAME, Column("Webhooks", "integer"), AGE), _webhooks)

LAYOUTS: dict[tuple[str, str], Layout] = {
    ("policy", "poddisruptionbudgets"): Layout(
        (
            NAME,
            Column("Min Available"),
            Column("Max Unavailable"),
            Column("Allowed Disruptions", "integer"),
            AGE,
        ),
        _budget,
    ),
    ("scheduling.k8s.io", "priorityclasses"): Layout(
        (NAME, Column("Value", "integer"), Column("Global-Default", "boolean"), AGE, Column("PreemptionPolicy")),
        _priority_class,
    ),
    ("coordination.k8s.io", "leases"): Layout((NAME, Column("Holder"), AGE), _lease),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): _REGISTRATIONS,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): _REGISTRATIONS,
    ("apiextensions.k8s.io", "customresourcedefinitions"): Layout(
        (
            NAME,
            Column("Scope"),
            Column("Versions"),
            _CREATED_AT,
            wide("Group"),
            wide("Kind"),
            wide("ShortNames"),
            Column("Established", "boolean", priority=1),
        ),
        _definition,
    ),
    ("rbac.authorization.k8s.io", "roles"): _CREATED,
    ("rbac.authorization.k8s.io", "clusterroles"): _CREATED,
    ("rbac.authorization.k8s.io", "rolebindings"): _BINDINGS,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): _BINDINGS,
    ("", "limitranges"): _CREATED,
    ("networking.k8s.io", "networkpolicies"): Layout((NAME, Column("Pod-Selector"), AGE), _network_policy),
    ("apps", "controllerrevisions"): Layout(
        (NAME, Column("Controller"), Column("Revision", "integer"), AGE), _revision
    ),
    ("storage.k8s.io", "storageclasses"): Layout(
        (
            NAME,
            Column("Provisioner"),
            Column("ReclaimPolicy"),
            Column("VolumeBindingMode"),
            Column("AllowVolumeExpansion", "boolean"),
            AGE,
        ),
        _storage_class,
    ),
}
