"""What holds for any pod and any profiles, against a plain model of the rules that works on whole documents."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonpatch
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from koord.api import names, quantity
from koord.api.objects import JsonObject, PriorityClass
from koord.api.profiles import ClusterColocationProfile
from koord.api.strategic_merge import merge_schema, strategic_merge
from webhook.context import Context, FeatureGates
from webhook.decision import Decision, Reason, Verdict
from webhook.json_patch import apply_operations, diff, escape, unescape
from webhook.mutate import decide
from webhook.profiles import ProfileSet
from webhook.review import submission_of

BANDS = {"koord-batch": (names.BATCH_CPU, names.BATCH_MEMORY), "koord-mid": (names.MID_CPU, names.MID_MEMORY)}
CLASSES = {
    "koord-batch": PriorityClass(value=5000, preemption_policy="Never"),
    "koord-mid": PriorityClass(value=7500),
    "koord-prod": PriorityClass(value=9000, preemption_policy="PreemptLowerPriority"),
}
NO_GPU = FeatureGates(disable_device_resource_spec=True)

KEYS = st.sampled_from(["app", "team", "a/b", "x~y", "example.org/k"])
TEXTS = st.sampled_from(["", "1", "spark", "v"])
LABELS = st.dictionaries(KEYS, TEXTS, max_size=3)
AMOUNTS = {
    "cpu": st.sampled_from(["1", "500m", "0", "100u", "1.5", 2, 0.1]),
    "memory": st.sampled_from(["1Gi", "4096Mi", "1G", "0", 1024]),
    names.BATCH_CPU: st.sampled_from(["500", "1k", 2000]),
    names.BATCH_MEMORY: st.sampled_from(["1Gi", "512"]),
    "example.com/dev": st.just("1"),
}
RESOURCES = st.fixed_dictionaries({}, optional=AMOUNTS)
REQUIREMENTS = st.fixed_dictionaries({}, optional={"requests": RESOURCES, "limits": RESOURCES})
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["main", "side", "c"])},
        optional={"resources": REQUIREMENTS, "futureField": st.just({"a": [1]})},
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda container: container["name"],
)
METADATA = st.fixed_dictionaries(
    {"name": st.just("p"), "namespace": st.just("default")}, optional={"labels": LABELS, "annotations": LABELS}
)
SPEC = st.fixed_dictionaries(
    {"containers": CONTAINERS},
    optional={
        "initContainers": CONTAINERS,
        "overhead": st.fixed_dictionaries({}, optional={"cpu": AMOUNTS["cpu"], "memory": AMOUNTS["memory"]}),
        "priority": st.sampled_from([0, 5000, 5999, 6500, 7500, 9500, 3500]),
        "priorityClassName": st.sampled_from(["koord-batch", "other"]),
        "preemptionPolicy": st.just("Never"),
        "schedulerName": st.just("default-scheduler"),
        "futureField": st.just({"a": None}),
    },
)
PODS = st.fixed_dictionaries({"metadata": METADATA, "spec": SPEC})

PATCHES = st.sampled_from(
    [
        {"metadata": {"labels": {"app": None, "patched": "yes"}}},
        {"spec": {"containers": [{"name": "main", "image": "i:2", "resources": {"limits": {"cpu": "3"}}}]}},
        {"spec": {"containers": [{"name": "new", "resources": {"requests": {"cpu": "1"}}}], "hostNetwork": True}},
        {"spec": {"nodeSelector": {"pool": "batch"}, "schedulerName": "patched"}},
    ]
)
SELECTORS: st.SearchStrategy[JsonObject] = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"matchLabels": st.dictionaries(st.sampled_from(["app", "team"]), TEXTS, min_size=1)}),
    st.just({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "labels": LABELS,
    "annotations": LABELS,
    "qosClass": st.sampled_from(["BE", "LS", "LSR"]),
    "priorityClassName": st.sampled_from(sorted(CLASSES)),
    "koordinatorPriority": st.integers(-5, 5),
    "schedulerName": st.just("koord-scheduler"),
}
SPECS = st.fixed_dictionaries(
    {},
    optional=FIELDS
    | {
        "selector": SELECTORS,
        "namespaceSelector": st.sampled_from([{}, {"matchLabels": {"env": "batch"}}, {"matchLabels": {"env": "x"}}]),
        "labelKeysMapping": st.dictionaries(KEYS, KEYS, max_size=2),
        "annotationKeysMapping": st.dictionaries(KEYS, KEYS, max_size=2),
        "labelSuffixes": st.dictionaries(KEYS, st.sampled_from(["-x", "v"]), max_size=2),
        "patch": PATCHES,
    },
)
STABLE_SPECS = st.fixed_dictionaries({}, optional=FIELDS | {"patch": PATCHES})


@st.composite
def profile_lists(draw: st.DrawFn, specs: st.SearchStrategy[Any] = SPECS) -> list[JsonObject]:
    profiles: list[JsonObject] = []
    for name in draw(st.lists(st.sampled_from(["a", "b", "b-10", "b-9", "c"]), unique=True, max_size=4)):
        metadata: JsonObject = {"name": name}
        if draw(st.integers(0, 9)) == 0:
            metadata["annotations"] = {names.ANNOTATION_SKIP_UPDATE_RESOURCES: "true"}
        profiles.append({"metadata": metadata, "spec": draw(specs)})
    return profiles


def context_of(profiles: list[JsonObject]) -> Context:
    decoded = msgspec.json.decode(msgspec.json.encode(profiles), type=list[ClusterColocationProfile])
    return Context(ProfileSet(decoded), {"default": {"env": "batch"}}, CLASSES, NO_GPU)


def decide_on(pod: JsonObject, context: Context, *, explain: bool = False) -> Decision:
    return decide(submission_of(pod), context, lambda _: 0, explain=explain)


def outcome(pod: JsonObject, decision: Decision) -> JsonObject:
    """The pod after the patch, applied by an RFC 6902 library to what the API server sent."""
    patch = json.loads(msgspec.json.encode(decision.operations))
    return dict(jsonpatch.apply_patch(copy.deepcopy(pod), patch))


# The model: plain, slow, on whole documents.


def selects(selector: JsonObject | None, labels: dict[str, str]) -> bool:
    selector = selector or {}
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(entry["key"] in labels for entry in selector.get("matchExpressions") or ())


def model(pod: JsonObject, profiles: list[JsonObject]) -> JsonObject:
    pod = copy.deepcopy(pod)
    labels = pod["metadata"].get("labels") or {}
    matching = sorted(
        (
            profile
            for profile in profiles
            if selects(profile["spec"].get("namespaceSelector"), {"env": "batch"})
            and selects(profile["spec"].get("selector"), labels)
        ),
        key=lambda profile: profile["metadata"]["name"],
    )
    for profile in matching:
        pod = model_apply(pod, profile["spec"])
    skipped = any("annotations" in profile["metadata"] for profile in matching)
    if matching and not skipped:
        model_translate(pod)
    model_annotation(pod)
    return pod


def model_apply(pod: JsonObject, spec: JsonObject) -> JsonObject:
    labels = pod["metadata"].setdefault("labels", {})
    annotations = pod["metadata"].setdefault("annotations", {})
    labels.update(spec.get("labels") or {})
    annotations.update(spec.get("annotations") or {})
    for target, field in ((labels, "labelKeysMapping"), (annotations, "annotationKeysMapping")):
        for source, destination in sorted((spec.get(field) or {}).items()):
            target[destination] = target.get(source, "")
    for key, suffix in (spec.get("labelSuffixes") or {}).items():
        if key in labels and not labels[key].endswith(suffix):
            labels[key] += suffix
    if "schedulerName" in spec:
        pod["spec"]["schedulerName"] = spec["schedulerName"]
    if "qosClass" in spec:
        labels[names.LABEL_QOS] = spec["qosClass"]
    if "priorityClassName" in spec:
        found = CLASSES[spec["priorityClassName"]]
        pod["spec"] |= {"priorityClassName": spec["priorityClassName"], "priority": found.value}
        pod["spec"].pop("preemptionPolicy", None)
        if found.preemption_policy:
            pod["spec"]["preemptionPolicy"] = found.preemption_policy
    if "koordinatorPriority" in spec:
        labels[names.LABEL_PRIORITY] = str(spec["koordinatorPriority"])
    if "patch" in spec:
        schema = merge_schema("v1", "Pod")
        assert schema is not None
        pod = copy.deepcopy(strategic_merge(pod, spec["patch"], schema))
        for field in ("labels", "annotations"):
            pod["metadata"].setdefault(field, {})
    return pod


def model_band(pod: JsonObject) -> str:
    priority = pod["spec"].get("priority")
    for band, low in (("koord-prod", 9000), ("koord-mid", 7000), ("koord-batch", 5000), ("koord-free", 3000)):
        if priority is not None and low <= priority < low + 1000:
            return band
    qos = (pod["metadata"].get("labels") or {}).get(names.LABEL_QOS)
    if qos:
        return "koord-batch" if qos == "BE" else "koord-prod"
    for container in all_containers(pod):
        for resources in (container.get("resources") or {}).values():
            if any(quantity.nano(resources.get(name, 0)) > 0 for name in ("cpu", "memory")):
                return "koord-prod"
    return "koord-batch"


def all_containers(pod: JsonObject) -> list[JsonObject]:
    return [*(pod["spec"].get("initContainers") or ()), *(pod["spec"].get("containers") or ())]


def model_translate(pod: JsonObject) -> None:
    if model_band(pod) not in BANDS:
        return
    cpu, memory = BANDS[model_band(pod)]
    maps = [pod["spec"].get("overhead") or {}]
    for container in all_containers(pod):
        maps += (container.get("resources") or {}).values()
    for resources in maps:
        if "cpu" in resources:
            resources[cpu] = quantity.milli(resources.pop("cpu"))
        if "memory" in resources:
            resources[memory] = resources.pop("memory")
    for container in all_containers(pod):
        for name, amount in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in (cpu, memory):
                container["resources"].setdefault("requests", {}).setdefault(name, amount)


def model_annotation(pod: JsonObject) -> None:
    containers: JsonObject = {}
    for container in pod["spec"]["containers"]:
        for kind, resources in (container.get("resources") or {}).items():
            batch = {name: resources[name] for name in (names.BATCH_CPU, names.BATCH_MEMORY) if name in resources}
            if batch:
                containers.setdefault(container["name"], {})[kind] = batch
    if containers:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[names.ANNOTATION_EXTENDED_RESOURCE_SPEC] = json.dumps({"containers": containers})


def comparable(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        if key in ("requests", "limits", "overhead"):
            return {name: quantity.nano(amount) for name, amount in value.items()}
        members = {name: comparable(member, name) for name, member in value.items()}
        return {name: member for name, member in members.items() if member != {} or name == "futureField"}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if key == names.ANNOTATION_EXTENDED_RESOURCE_SPEC:
        return comparable(json.loads(value))
    return value


@given(PODS, profile_lists())
def test_the_patch_makes_what_the_model_makes(pod: JsonObject, profiles: list[JsonObject]) -> None:
    before = copy.deepcopy(pod)
    decision = decide_on(pod, context_of(profiles))
    assert decision.allowed
    assert comparable(outcome(pod, decision)) == comparable(model(pod, profiles))
    assert pod == before


@given(PODS, profile_lists(), st.randoms(use_true_random=False))
def test_the_order_in_which_profiles_are_listed_does_not_matter(
    pod: JsonObject, profiles: list[JsonObject], random: Any
) -> None:
    shuffled = list(profiles)
    random.shuffle(shuffled)
    assert decide_on(pod, context_of(profiles)) == decide_on(pod, context_of(shuffled))


@given(PODS, profile_lists(STABLE_SPECS))
def test_a_second_call_changes_nothing(pod: JsonObject, profiles: list[JsonObject]) -> None:
    context = context_of(profiles)
    once = outcome(pod, decide_on(pod, context))
    again = decide_on(once, context)
    assert comparable(outcome(once, again)) == comparable(once)
    if not any("patch" in profile["spec"] for profile in profiles):
        assert again.reason is Reason.UNCHANGED


@given(PODS, profile_lists())
def test_a_translated_pod_keeps_no_native_resources(pod: JsonObject, profiles: list[JsonObject]) -> None:
    decision = decide_on(pod, context_of(profiles))
    after = outcome(pod, decision)
    if decision.translation is None or decision.translation.band not in BANDS:
        return
    for container in all_containers(after):
        for resources in (container.get("resources") or {}).values():
            assert not {"cpu", "memory"} & set(resources)
    assert not {"cpu", "memory"} & set(after["spec"].get("overhead") or {})


@given(PODS, profile_lists())
def test_without_a_patch_only_owned_paths_are_written(pod: JsonObject, profiles: list[JsonObject]) -> None:
    for profile in profiles:
        profile["spec"].pop("patch", None)
    decision = decide_on(pod, context_of(profiles))
    for operation in decision.operations:
        parts = operation.path.split("/")[1:]
        if parts[:2] in (["metadata", "labels"], ["metadata", "annotations"]):
            existed = parts[1] in pod["metadata"]
            assert len(parts) == (3 if existed else 2)
        elif parts[1] in ("containers", "initContainers"):
            assert parts[3] == "resources"
        else:
            assert parts[1] in ("priority", "priorityClassName", "preemptionPolicy", "schedulerName", "overhead")


@given(PODS, profile_lists())
def test_an_explanation_names_every_profile_and_agrees_with_the_model(
    pod: JsonObject, profiles: list[JsonObject]
) -> None:
    decision = decide_on(pod, context_of(profiles), explain=True)
    verdicts = {outcome.name: outcome.verdict for outcome in decision.profiles}
    assert list(verdicts) == sorted(profile["metadata"]["name"] for profile in profiles)
    labels = pod["metadata"].get("labels") or {}
    for profile in profiles:
        spec, verdict = profile["spec"], verdicts[profile["metadata"]["name"]]
        if not selects(spec.get("namespaceSelector"), {"env": "batch"}):
            assert verdict is Verdict.NAMESPACE_MISMATCH
        elif not selects(spec.get("selector"), labels):
            assert verdict is Verdict.POD_MISMATCH
        else:
            assert verdict is Verdict.APPLIED


@given(st.text(max_size=20))
def test_any_key_survives_a_json_pointer(key: str) -> None:
    assert unescape(escape(key)) == key
    assert apply_operations({}, diff({}, {key: 1})) == {key: 1}


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from(["", "a", "b"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, JSON, max_size=4), st.dictionaries(KEYS, JSON, max_size=4))
def test_a_difference_applied_gives_the_other_document(original: JsonObject, final: JsonObject) -> None:
    operations = json.loads(msgspec.json.encode(diff(original, final)))
    patched = jsonpatch.apply_patch(original, operations)
    assert json.dumps(patched, sort_keys=True) == json.dumps(final, sort_keys=True)
    if json.dumps(original, sort_keys=True) == json.dumps(final, sort_keys=True):
        assert operations == []
