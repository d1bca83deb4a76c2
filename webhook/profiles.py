"""ClusterColocationProfiles, compiled once when they change so that a pod costs little. Pure.

A profile with a selector that cannot be compiled is ignored, not applied to everything. A profile whose
probability or patch is broken still matches, and then refuses the pod as Koordinator does. Either way
`problems` says what is wrong, once, when the profile is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from koord.api import names
from koord.api.errors import InvalidInput
from koord.api.objects import JsonObject
from koord.api.profiles import ClusterColocationProfile, ClusterColocationProfileSpec
from koord.api.selectors import InvalidSelector, LabelSelector, Selector, compile_selector
from webhook.decision import Verdict

Pairs = tuple[tuple[str, str], ...]

_PERCENT = re.compile(r"([+-]?\d+)%")
_EVERYTHING = Selector({}, ())


@dataclass(frozen=True, slots=True)
class CompiledProfile:
    """One profile, ready to match and apply.

    order: its place by name among all profiles. percent: pods it applies to, out of 100, also outside 0..100
    as written. probability_error, patch_error: texts that refuse a matching pod, "" when sound.
    """

    order: int
    name: str
    namespace_selector: Selector
    selector: Selector
    percent: int
    labels: Pairs
    annotations: Pairs
    label_mappings: Pairs
    annotation_mappings: Pairs
    label_suffixes: Pairs
    scheduler_name: str
    qos_class: str
    priority_class_name: str
    sub_priority: str | None
    patch: JsonObject | None
    skips_resources: bool
    probability_error: str = ""
    patch_error: str = ""
    ignored_because: str = ""
    problems: tuple[InvalidInput, ...] = ()


def compile_profile(profile: ClusterColocationProfile, order: int = 0) -> CompiledProfile:
    """Compile one profile; never raises, what is wrong with it is in the result."""
    spec, reference = profile.spec, f"ClusterColocationProfile/{profile.metadata.name}"
    problems: list[InvalidInput] = []
    namespace_selector = _compile(spec.namespace_selector, reference, "spec.namespaceSelector", problems)
    selector = _compile(spec.selector, reference, "spec.selector", problems)
    ignored_because = str(problems[0]) if problems else ""
    percent, probability_error = _parse_probability(spec, reference, problems)
    patch, patch_error = _parse_patch(spec, reference, problems)
    return CompiledProfile(
        order=order,
        name=profile.metadata.name,
        namespace_selector=namespace_selector or _EVERYTHING,
        selector=selector or _EVERYTHING,
        percent=percent,
        labels=tuple(spec.labels.items()),
        annotations=tuple(spec.annotations.items()),
        label_mappings=tuple(sorted(spec.label_keys_mapping.items())),
        annotation_mappings=tuple(sorted(spec.annotation_keys_mapping.items())),
        label_suffixes=tuple(sorted(spec.label_suffixes.items())),
        scheduler_name=spec.scheduler_name,
        qos_class=spec.qos_class,
        priority_class_name=spec.priority_class_name,
        sub_priority=None if spec.koordinator_priority is None else str(spec.koordinator_priority),
        patch=patch,
        skips_resources=names.ANNOTATION_SKIP_UPDATE_RESOURCES in profile.metadata.annotations,
        probability_error=probability_error,
        patch_error=patch_error,
        ignored_because=ignored_because,
        problems=tuple(problems),
    )


def _compile(
    selector: LabelSelector | None, reference: str, field: str, problems: list[InvalidInput]
) -> Selector | None:
    if selector is None or selector.is_empty():
        return None
    try:
        return compile_selector(selector)
    except InvalidSelector as error:
        value = msgspec.json.encode(selector).decode()
        problems.append(InvalidInput(reference, field, value, f"a valid label selector ({error})"))
        return None


def _parse_probability(
    spec: ClusterColocationProfileSpec, reference: str, problems: list[InvalidInput]
) -> tuple[int, str]:
    value, error = spec.probability, ""
    if value is None:
        return 100, ""
    if isinstance(value, str):
        match = _PERCENT.fullmatch(value)
        if match is None:
            error = f'invalid value for IntOrString: "{value}" is not a percentage such as "30%"'
        percent = int(match[1]) if match else 0
    else:
        percent = value
    if error or not 0 <= percent <= 100:
        problems.append(InvalidInput(reference, "spec.probability", value, 'an integer 0 to 100, or "0%" to "100%"'))
    return percent, error


def _parse_patch(
    spec: ClusterColocationProfileSpec, reference: str, problems: list[InvalidInput]
) -> tuple[JsonObject | None, str]:
    raw = bytes(spec.patch)
    value = msgspec.json.decode(raw) if raw else None
    if value is None or isinstance(value, dict):
        return value or None, ""
    problems.append(InvalidInput(reference, "spec.patch", value, "a JSON object"))
    return None, "spec.patch must be a JSON object"


class Candidates:
    """The profiles that may match a pod of one namespace, indexed by one label that each requires."""

    __slots__ = ("_always", "_by_label")

    def __init__(self, profiles: Iterable[CompiledProfile]) -> None:
        always: list[CompiledProfile] = []
        by_label: dict[tuple[str, str], list[CompiledProfile]] = {}
        for profile in profiles:
            if profile.selector.equalities:
                by_label.setdefault(profile.selector.equalities[0], []).append(profile)
            else:
                always.append(profile)
        self._always = tuple(always)
        self._by_label = by_label

    def matching(self, labels: Mapping[str, str]) -> list[CompiledProfile]:
        """The profiles whose selector matches the pod's labels, by ascending name."""
        found = [profile for profile in self._always if profile.selector.matches(labels)]
        if self._by_label:
            for pair in labels.items():
                if pair in self._by_label:
                    found.extend(profile for profile in self._by_label[pair] if profile.selector.matches(labels))
        if len(found) > 1:
            found.sort(key=_order)
        return found


def _order(profile: CompiledProfile) -> int:
    return profile.order


class ProfileSet:
    """All profiles of the cluster by ascending name."""

    def __init__(self, profiles: Iterable[ClusterColocationProfile] = ()) -> None:
        by_name = sorted(profiles, key=lambda profile: profile.metadata.name)
        self.profiles = tuple(compile_profile(profile, order) for order, profile in enumerate(by_name))

    def candidates(self, namespace_labels: Mapping[str, str] | None) -> Candidates:
        """Those whose namespace selector matches; None: the namespace is unknown, so it matches no selector."""
        return Candidates(
            profile for profile in self.profiles if namespace_verdict(profile, namespace_labels) is None
        )


def namespace_verdict(
    profile: CompiledProfile, namespace_labels: Mapping[str, str] | None
) -> tuple[Verdict, str] | None:
    """Why a profile cannot match any pod of the namespace, None when it can."""
    if profile.ignored_because:
        return Verdict.INVALID, profile.ignored_because
    if profile.namespace_selector is _EVERYTHING:
        return None
    if namespace_labels is None:
        return Verdict.NAMESPACE_UNKNOWN, "the namespace does not exist or was not seen yet"
    mismatch = profile.namespace_selector.first_mismatch(namespace_labels)
    return (Verdict.NAMESPACE_MISMATCH, mismatch) if mismatch else None


def mismatch_verdict(
    profile: CompiledProfile, namespace_labels: Mapping[str, str] | None, pod_labels: Mapping[str, str]
) -> tuple[Verdict, str] | None:
    """Why a profile does not match the pod, None when it does. For explanations; matching goes by the index."""
    verdict = namespace_verdict(profile, namespace_labels)
    if verdict is not None:
        return verdict
    mismatch = profile.selector.first_mismatch(pod_labels)
    return (Verdict.POD_MISMATCH, mismatch) if mismatch else None
