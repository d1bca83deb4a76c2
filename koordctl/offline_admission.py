"""What the webhook would decide, offline: the same code on profiles, namespaces and priority classes from files."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from koord.api import names
from koord.api.objects import Pod, PriorityClass
from koord.api.priority import BANDS
from koord.api.profiles import ClusterColocationProfile
from koordctl.manifests import JsonObject, PodPlace
from webhook.context import Context, FeatureGates
from webhook.decision import Decision
from webhook.json_patch import apply_operations
from webhook.judgement import Judgement
from webhook.mutate import decide
from webhook.profiles import ProfileSet
from webhook.review import submission_of
from webhook.validation.pods import PodRules

SHIPPED_CLASSES = {str(band): bounds.lowest for band, bounds in BANDS.items()}
"""The PriorityClasses that come with Koord, and their values."""


class Unreadable(ValueError):  # noqa: N818 - what it is
    """A manifest's pod that no API server would take in; the message names it, the place and what was expected."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of one pod: the decision, its judgement, and the pod before and after (None: refused)."""

    place: PodPlace
    decision: Decision
    judgement: Judgement | None
    after: JsonObject | None

    @property
    def refusal(self) -> str:
        """Why the pod is refused, "" when it is not."""
        if not self.decision.allowed:
            return self.decision.message
        return "" if self.judgement is None or self.judgement.allowed else self.judgement.message


def build_context(
    profiles: Iterable[JsonObject],
    namespaces: Iterable[JsonObject],
    classes: Iterable[JsonObject],
    gates: FeatureGates,
) -> Context:
    """The cluster as the files say. Documents of other kinds are passed over; raises msgspec.ValidationError."""
    found = [msgspec.convert(one, PriorityClass) for one in classes if one["kind"] == "PriorityClass"]
    if not found:
        shipped = [{"metadata": {"name": name}, "value": value} for name, value in SHIPPED_CLASSES.items()]
        found = msgspec.convert(shipped, list[PriorityClass])
    return Context(
        profiles=ProfileSet(
            msgspec.json.decode(msgspec.json.encode(one), type=ClusterColocationProfile)
            for one in profiles
            if one["kind"] == "ClusterColocationProfile"
        ),
        namespaces={
            one["metadata"]["name"]: (one["metadata"].get("labels") or {})
            | {names.LABEL_NAMESPACE_NAME: one["metadata"]["name"]}
            for one in namespaces
            if one["kind"] == "Namespace"
        },
        priority_classes={one.metadata.name: one for one in found},
        gates=gates,
    )


def admit(place: PodPlace, context: Context, *, explain: bool = False) -> Outcome:
    """Decide about the pod, or the pods that the template makes, as at their creation. Raises Unreadable."""
    try:
        msgspec.convert({key: place.holder.get(key) or {} for key in ("metadata", "spec")}, Pod)
    except msgspec.ValidationError as error:
        raise Unreadable(f"{place.owner}: {error}") from error
    pod = _as_created(place, context)
    decision = decide(submission_of(pod, place.namespace, uid=place.owner), context, explain=explain)
    if not decision.allowed:
        return Outcome(place, decision, None, None)
    after = apply_operations(pod, decision.operations)
    judgement = PodRules(context.gates).judge(msgspec.convert(after, Pod), None)
    return Outcome(place, decision, judgement, _as_written(place, pod, after))


def _as_created(place: PodPlace, context: Context) -> JsonObject:
    """The pod as the API server shows it to webhooks: named, in its namespace, with its class's priority and requests
    taken from limits."""
    pod = {key: copy.deepcopy(place.holder[key]) for key in ("metadata", "spec") if place.holder.get(key)}
    metadata = pod.setdefault("metadata", {})
    metadata["namespace"] = place.namespace
    if place.is_template:
        metadata["generateName"] = f"{place.owner.partition('/')[2]}-"
    spec = pod.setdefault("spec", {})
    known = context.priority_classes.get(spec.get("priorityClassName", ""))
    if known is not None:
        spec.setdefault("priority", known.value)
    for container in [*spec.get("containers", []), *(spec.get("initContainers") or [])]:
        resources = container.get("resources") or {}
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    return pod


def _as_written(place: PodPlace, before: JsonObject, after: JsonObject) -> JsonObject:
    """The pod as it would stand in the manifest: without what its creation adds and the webhook left as it was."""
    written = copy.deepcopy(after)
    own = place.holder.get("metadata") or {}
    for key in ("namespace", "generateName"):
        if key not in own:
            written["metadata"].pop(key, None)
    spec, before_spec, own_spec = written["spec"], before["spec"], place.holder.get("spec") or {}
    if "priority" not in own_spec and spec.get("priority") == before_spec.get("priority"):
        spec.pop("priority", None)
    for group in ("containers", "initContainers"):
        originals = {container.get("name"): container for container in own_spec.get(group) or []}
        submitted = {container.get("name"): container for container in before_spec.get(group) or []}
        for container in spec.get(group) or []:
            name = container.get("name")
            if name in originals and container.get("resources") == submitted[name].get("resources"):
                _restore(container, originals[name])
    if not written["metadata"] and "metadata" not in place.holder:
        del written["metadata"]
    return written


def _restore(container: JsonObject, original: JsonObject) -> None:
    if "resources" in original:
        container["resources"] = copy.deepcopy(original["resources"])
    else:
        container.pop("resources", None)
