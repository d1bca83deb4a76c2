"""Apply the fields of one matching profile to a draft, in Koordinator's order, and say what they changed. Pure.

labels, annotations, key mappings, suffixes, schedulerName, qosClass, priorityClassName, koordinatorPriority;
the free-form `patch` comes after and is not applied here.
"""

from __future__ import annotations

from collections.abc import Mapping

from koord.api import names
from koord.api.objects import PriorityClass
from webhook.decision import Change, Reason, Refusal
from webhook.draft import Draft
from webhook.profiles import CompiledProfile, Pairs


def apply_fields(
    draft: Draft, profile: CompiledProfile, priority_classes: Mapping[str, PriorityClass]
) -> list[Change]:
    """Change the draft; returns what changed. Raises Refusal when the priority class does not exist."""
    changes: list[Change] = []
    _set_all(draft.labels, profile.labels, "labels", changes)
    _set_all(draft.annotations, profile.annotations, "annotations", changes)
    if profile.label_mappings:
        _map_keys(draft.labels, profile.label_mappings, "labelKeysMapping", changes)
    if profile.annotation_mappings:
        _map_keys(draft.annotations, profile.annotation_mappings, "annotationKeysMapping", changes)
    for key, suffix in profile.label_suffixes:
        value = draft.labels.get(key)
        # Already there: this is a reinvocation. Appending again would make the outcome depend on how often
        # the API server calls.
        if value is not None and not value.endswith(suffix):
            _set(draft.labels, key, value + suffix, "labelSuffixes", changes)
    if profile.scheduler_name and profile.scheduler_name != draft.scheduler_name:
        changes.append(Change("schedulerName", "spec.schedulerName", draft.scheduler_name, profile.scheduler_name))
        draft.scheduler_name = profile.scheduler_name
    if profile.qos_class:
        _set(draft.labels, names.LABEL_QOS, profile.qos_class, "qosClass", changes)
    if profile.priority_class_name:
        _set_priority_class(draft, profile, priority_classes, changes)
    if profile.sub_priority is not None:
        _set(draft.labels, names.LABEL_PRIORITY, profile.sub_priority, "koordinatorPriority", changes)
    return changes


def _set_all(target: dict[str, str], pairs: Pairs, field: str, changes: list[Change]) -> None:
    for key, value in pairs:
        before = target.get(key)
        if before != value:
            changes.append(Change(field, key, before, value))
            target[key] = value


def _set(target: dict[str, str], key: str, value: str, field: str, changes: list[Change]) -> None:
    before = target.get(key)
    if before != value:
        changes.append(Change(field, key, before, value))
        target[key] = value


def _map_keys(target: dict[str, str], mappings: Pairs, field: str, changes: list[Change]) -> None:
    """Copy values to other keys, by ascending source key; a missing source gives an empty value."""
    for source, destination in mappings:
        _set(target, destination, target.get(source, ""), field, changes)


def _set_priority_class(
    draft: Draft,
    profile: CompiledProfile,
    priority_classes: Mapping[str, PriorityClass],
    changes: list[Change],
) -> None:
    """Name, value and preemption policy together: the API server refuses a pod where they disagree."""
    name = profile.priority_class_name
    found = priority_classes.get(name)
    if found is None:
        raise Refusal(
            Reason.PRIORITY_CLASS_MISSING,
            f'profile "{profile.name}" sets priorityClassName "{name}", but no such PriorityClass exists',
        )
    policy = found.preemption_policy or None
    if (draft.priority_class_name, draft.priority, draft.preemption_policy) == (name, found.value, policy):
        return
    before = None if draft.priority_class_name is None else f"{draft.priority_class_name} ({draft.priority})"
    changes.append(Change("priorityClassName", "spec.priorityClassName", before, f"{name} ({found.value})"))
    draft.priority_class_name, draft.priority, draft.preemption_policy = name, found.value, policy
