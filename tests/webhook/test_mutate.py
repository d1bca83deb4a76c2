"""Single rules of the mutation that neither the vectors nor the properties state."""

from __future__ import annotations

import json
from typing import Any

import jsonpatch
import msgspec
import pytest

from koord.api import names
from koord.api.errors import InvalidInput
from koord.api.objects import JsonObject, PriorityClass
from koord.api.profiles import ClusterColocationProfile
from webhook.context import Context, FeatureGates
from webhook.decision import Decision, Reason, TranslationReason, Verdict
from webhook.mutate import decide
from webhook.profiles import ProfileSet
from webhook.quota_tree import ElasticQuota, ElasticQuotaProfile, compile_quota_trees
from webhook.review import pod_reference, submission_of

NATIVE = {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"cpu": "2", "memory": "4Gi"}}
DEFAULT_GATES = FeatureGates()
BATCH_PROFILE: JsonObject = {"qosClass": "BE", "priorityClassName": "koord-batch"}


def make_context(*specs: JsonObject, gates: FeatureGates = DEFAULT_GATES, **context: Any) -> Context:
    raw = [{"metadata": {"name": f"p{place}"}, "spec": spec} for place, spec in enumerate(specs)]
    profiles = msgspec.json.decode(msgspec.json.encode(raw), type=list[ClusterColocationProfile])
    classes = {"koord-batch": PriorityClass(value=5500, preemption_policy="Never")}
    return Context(ProfileSet(profiles), {"shop": {"env": "x"}}, classes, gates, **context)


def make_pod(*containers: JsonObject, **spec: Any) -> JsonObject:
    items = list(containers) or [{"name": "main", "image": "i", "resources": NATIVE}]
    return {
        "metadata": {"generateName": "web-", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"containers": items, **spec},
    }


def decide_on(pod: JsonObject, context: Context, **options: Any) -> Decision:
    return decide(submission_of(pod), context, **options)


def after(pod: JsonObject, decision: Decision) -> JsonObject:
    patch = json.loads(msgspec.json.encode(decision.operations))
    return dict(jsonpatch.apply_patch(pod, patch))


def test_priority_value_and_preemption_policy_never_mix_old_and_new() -> None:
    pod = make_pod(priority=0, preemptionPolicy="PreemptLowerPriority", priorityClassName="")
    spec = after(pod, decide_on(pod, make_context(BATCH_PROFILE)))["spec"]
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == ("koord-batch", 5500, "Never")


def test_after_an_injection_only_the_new_sidecar_changes() -> None:
    context = make_context(BATCH_PROFILE)
    pod = make_pod()
    first = after(pod, decide_on(pod, context))
    first["spec"]["containers"].append(
        {"name": "proxy", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    )
    decision = decide_on(first, context)
    paths = [operation.path for operation in decision.operations if operation.path.startswith("/spec")]
    assert paths == ["/spec/containers/1/resources/requests"]
    second = after(first, decision)["spec"]["containers"]
    assert second[0] == first["spec"]["containers"][0]
    assert second[1]["resources"]["requests"] == {names.BATCH_CPU: "100", names.BATCH_MEMORY: "64Mi"}


def test_missing_maps_are_added_as_objects_and_existing_ones_never_replaced() -> None:
    context = make_context({"annotations": {"example.org/x~y": "z"}, "labels": {"q": "1"}})
    operations = decide_on(make_pod(), context).operations
    assert [(operation.op, operation.path, operation.value) for operation in operations] == [
        ("add", "/metadata/labels/q", "1"),
        ("add", "/metadata/annotations", {"example.org/x~y": "z"}),
    ]


def test_unknown_fields_and_pod_level_resources_stay_and_the_user_is_told() -> None:
    pod = make_pod(resources={"requests": {"cpu": "2"}}, futureField={"a": 1}, priority=5500)
    decision = decide_on(pod, make_context({"labels": {"x": "y"}}))
    result = after(pod, decision)["spec"]
    assert (result["futureField"], result["resources"]) == ({"a": 1}, {"requests": {"cpu": "2"}})
    assert any("spec.resources" in warning for warning in decision.warnings)


def test_references_to_replaced_limits_are_warned_of() -> None:
    env = [{"name": "GOMAXPROCS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]
    items = [{"path": "mem", "resourceFieldRef": {"resource": "limits.memory", "containerName": "main"}}]
    volumes = [{"name": "info", "downwardAPI": {"items": items}}, {"name": "e", "emptyDir": {}}]
    pod = make_pod({"name": "main", "resources": NATIVE, "env": env}, volumes=volumes)
    (warning,) = decide_on(pod, make_context(BATCH_PROFILE)).warnings
    assert "GOMAXPROCS (limits.cpu) of container main" in warning
    assert "mem (limits.memory) of volume info" in warning
    untranslated = decide_on(pod, make_context({"labels": {"x": "y"}}))
    assert untranslated.warnings == ()


def test_native_beside_batch_is_overwritten_with_a_warning() -> None:
    requests = {"cpu": "1", names.BATCH_CPU: "300"}
    pod = make_pod({"name": "main", "resources": {"requests": requests}})
    decision = decide_on(pod, make_context(BATCH_PROFILE))
    assert after(pod, decision)["spec"]["containers"][0]["resources"]["requests"] == {names.BATCH_CPU: "1k"}
    assert decision.warnings == (f'container "main" names both cpu and {names.BATCH_CPU}; the value of cpu is used',)


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": {names.ANNOTATION_MIRROR_POD: "abc"}},
        {"annotations": {names.ANNOTATION_CONFIG_SOURCE: "file"}},
        {"ownerReferences": [{"kind": "Node", "name": "n", "uid": "u"}]},
    ],
)
def test_static_pods_and_their_mirrors_get_no_patch(metadata: JsonObject) -> None:
    pod = make_pod()
    pod["metadata"] |= metadata
    decision = decide_on(pod, make_context({"labels": {"x": "y"}}))
    assert (decision.reason, decision.operations) == (Reason.STATIC_POD, ())


@pytest.mark.parametrize("namespace", ["kube-system", "koordinator-system"])
def test_protected_namespaces_get_no_patch_also_by_the_namespace_of_the_request(namespace: str) -> None:
    pod = make_pod()
    del pod["metadata"]["namespace"]
    decision = decide(submission_of(pod, namespace), make_context({"labels": {"x": "y"}}))
    assert decision.reason is Reason.EXCLUDED_NAMESPACE


def test_a_pod_without_a_name_is_known_by_its_prefix() -> None:
    pod = make_pod()
    del pod["metadata"]["namespace"]
    assert pod_reference(submission_of(pod, "batch")) == "batch/web-*"


def test_the_last_profile_wins_and_what_it_overrode_is_on_record() -> None:
    context = make_context({"labels": {names.LABEL_QOS: "LS"}}, {"labels": {names.LABEL_QOS: "BE"}})
    decision = decide_on(make_pod(), context)
    (change,) = decision.profiles[1].changes
    assert (change.key, change.before, change.after) == (names.LABEL_QOS, "LS", "BE")


def test_skip_wins_over_other_matching_profiles_and_is_named() -> None:
    raw = [
        {"metadata": {"name": "a"}, "spec": BATCH_PROFILE},
        {"metadata": {"name": "b", "annotations": {names.ANNOTATION_SKIP_UPDATE_RESOURCES: "true"}}, "spec": {}},
    ]
    context = make_context()
    profiles = msgspec.json.decode(msgspec.json.encode(raw), type=list[ClusterColocationProfile])
    context.replace_profiles(ProfileSet(profiles))
    decision = decide_on(make_pod(), context)
    assert decision.translation is not None
    assert (decision.translation.reason, decision.translation.detail) == (TranslationReason.SKIPPED_BY_PROFILE, "b")
    assert not any("resources" in operation.path for operation in decision.operations)


def test_a_patch_that_is_no_object_or_breaks_the_pod_refuses_it() -> None:
    for patch in ("text", [1], {"metadata": {"labels": {"a": 1}}}, {"metadata": None}):
        decision = decide_on(make_pod(), make_context({"patch": patch}))
        assert (decision.allowed, decision.reason, decision.code) == (False, Reason.PATCH_FAILED, 500)
        assert 'profile "p0"' in decision.message


def test_an_unknown_namespace_matches_no_selector_but_profiles_without_one_apply() -> None:
    context = make_context(
        {"namespaceSelector": {"matchLabels": {"env": "x"}}, "labels": {"a": "1"}}, {"labels": {"b": "1"}}
    )
    pod = make_pod()
    pod["metadata"]["namespace"] = "unseen"
    decision = decide_on(pod, context, explain=True)
    assert [outcome.verdict for outcome in decision.profiles] == [Verdict.NAMESPACE_UNKNOWN, Verdict.APPLIED]
    context.namespaces = {"unseen": {"env": "x"}}
    assert [outcome.verdict for outcome in decide_on(pod, context).profiles] == [Verdict.APPLIED, Verdict.APPLIED]


def test_a_changed_namespace_matches_anew_once_forgotten() -> None:
    labels = {"shop": {"env": "x"}}
    context = make_context({"namespaceSelector": {"matchLabels": {"env": "y"}}, "labels": {"a": "1"}})
    context.namespaces = labels
    assert decide_on(make_pod(), context).profiles == ()
    labels["shop"] = {"env": "y"}
    context.forget_namespace("shop")
    assert len(decide_on(make_pod(), context).profiles) == 1


def test_an_explanation_says_which_label_is_missing() -> None:
    spec = {"namespaceSelector": {"matchLabels": {"enable-colocation": "true"}}, "qosClass": "BE"}
    bad = {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}
    decision = decide_on(make_pod(), make_context(spec, bad), explain=True)
    assert "enable-colocation" in decision.profiles[0].detail
    assert (decision.profiles[1].verdict, "Near" in decision.profiles[1].detail) == (Verdict.INVALID, True)


@pytest.mark.parametrize("probability", [150, -1, "30", "half", "101%"])
def test_an_odd_probability_is_a_problem_of_its_profile(probability: int | str) -> None:
    (profile,) = make_context({"probability": probability}).profiles.profiles
    (problem,) = profile.problems
    assert "spec.probability" in str(problem)


def test_feature_gates_go_by_koordinators_names() -> None:
    gates = FeatureGates.parse("MultiQuotaTree=true, DisableDeviceResourceSpec=false")
    assert gates == FeatureGates(multi_quota_tree=True)
    assert FeatureGates.parse("") == FeatureGates()
    for text in ("Other=true", "MultiQuotaTree", "MultiQuotaTree=yes"):
        with pytest.raises(InvalidInput, match="--feature-gates"):
            FeatureGates.parse(text)


def make_tree(node_selector: JsonObject) -> Context:
    metadata = {"name": "q", "namespace": "shop", "labels": {names.LABEL_QUOTA_TREE_ID: "t"}}
    quotas = [msgspec.convert({"metadata": metadata}, ElasticQuota)]
    profiles = [msgspec.convert({"metadata": metadata, "spec": {"nodeSelector": node_selector}}, ElasticQuotaProfile)]
    trees = compile_quota_trees(quotas, profiles)
    return make_context(gates=FeatureGates(multi_quota_tree=True), quota_trees=trees)


def test_a_quota_tree_is_added_once_and_an_empty_selector_never() -> None:
    pod = make_pod()
    pod["metadata"]["labels"][names.LABEL_QUOTA_NAME] = "q"
    context = make_tree({"matchLabels": {"pool": "one"}})
    once = after(pod, decide_on(pod, context))
    assert once["spec"]["affinity"]["nodeAffinity"]
    assert decide_on(once, context).reason is Reason.UNCHANGED
    assert decide_on(pod, make_tree({})).reason is Reason.UNCHANGED
