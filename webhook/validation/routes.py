"""Which judge looks at which review, and what is allowed unseen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from koord.api import names
from koord.api.objects import ConfigMap, JsonObject, Node, Pod, PriorityClass
from koord.api.profiles import ClusterColocationProfile
from webhook.judgement import Judgement, Reason, refusal
from webhook.object_review import ObjectReview
from webhook.validation.amplification import amplify
from webhook.validation.config import NodeLabels, judge_config, judge_node_labels
from webhook.validation.pods import PodRules
from webhook.validation.profiles import judge_profile

CREATE, UPDATE = "CREATE", "UPDATE"
T = TypeVar("T")
NOT_JUDGED = Judgement(True, Reason.NOT_JUDGED)


@dataclass(frozen=True, slots=True)
class ConfigPlace:
    """Which ConfigMap configures the nodes, and whether its entries must be named."""

    namespace: str = names.CONFIG_NAMESPACE
    name: str = names.CONFIG_NAME
    need_names: bool = False


def judge_pod(review: ObjectReview[Pod], rules: PodRules) -> Judgement:
    """POST /validate-pod: creations and updates of pods themselves; deleting is always allowed."""
    if review.resource != "pods" or review.sub_resource or review.operation not in (CREATE, UPDATE):
        return NOT_JUDGED
    if review.new is None:
        return no_object(review)
    return rules.judge(review.new, review.old if review.operation == UPDATE else None)


def judge_profile_review(
    review: ObjectReview[ClusterColocationProfile], classes: Mapping[str, PriorityClass]
) -> Judgement:
    """POST /validate-profile."""
    if not review.resource.startswith("clustercolocationprofiles.") or not _is_write(review):
        return NOT_JUDGED
    if review.new is None:
        return no_object(review)
    return judge_profile(review.new, review.old if review.operation == UPDATE else None, classes)


def judge_config_review(review: ObjectReview[ConfigMap], place: ConfigPlace, nodes: NodeLabels) -> Judgement:
    """POST /validate-configmap: only the one ConfigMap that nodes are configured by."""
    if review.resource != "configmaps" or not _is_write(review):
        return NOT_JUDGED
    if review.new is None:
        return no_object(review)
    metadata = review.new.metadata
    if (metadata.namespace or review.namespace, metadata.name) != (place.namespace, place.name):
        return NOT_JUDGED
    old = review.old if review.operation == UPDATE else None
    return judge_config(review.new, old, nodes, need_names=place.need_names)


def amplify_review(review: ObjectReview[JsonObject]) -> Judgement:
    """POST /mutate-node-status: updates of a node's status."""
    if (review.resource, review.sub_resource, review.operation) != ("nodes", "status", UPDATE):
        return NOT_JUDGED
    if review.new is None:
        return no_object(review)
    return amplify(review.new, review.old)


def judge_node_review(review: ObjectReview[Node], config: ConfigMap | None) -> Judgement:
    """POST /validate-node: a change of labels."""
    if review.resource != "nodes" or review.sub_resource or review.operation != UPDATE:
        return NOT_JUDGED
    if review.new is None:
        return no_object(review)
    before = review.old.metadata.labels if review.old is not None else {}
    return judge_node_labels(review.new.metadata.labels, before, review.new.metadata.name, config)


def _is_write(review: ObjectReview[T]) -> bool:
    return not review.sub_resource and review.operation in (CREATE, UPDATE)


def no_object(review: ObjectReview[T]) -> Judgement:
    """The answer to a review without an object: a refusal when there is none, a warning when it does not decode."""
    if review.problem:
        return Judgement(True, Reason.UNDECODABLE, warnings=(f"koord did not judge it: {review.problem}",))
    return refusal(Reason.NO_OBJECT, "there is no content to decode")
