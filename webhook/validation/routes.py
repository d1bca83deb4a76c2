"""Which judge looks at which review, and what is allowed unseen."""

from __future__ import annotations

from typing import TypeVar

from koord.api.objects import Pod
from webhook.judgement import Judgement, Reason, refusal
from webhook.object_review import ObjectReview
from webhook.validation.pods import PodRules

CREATE, UPDATE = "CREATE", "UPDATE"
T = TypeVar("T")
NOT_JUDGED = Judgement(True, Reason.NOT_JUDGED)


def judge_pod(review: ObjectReview[Pod], rules: PodRules) -> Judgement:
    """POST /validate-pod: creations and updates of pods themselves; deleting is always allowed."""
    if review.resource != "pods" or review.sub_resource or review.operation not in (CREATE, UPDATE):
        return NOT_JUDGED
    if review.new is None:
        return no_object(review)
    return rules.judge(review.new, review.old if review.operation == UPDATE else None)


def no_object(review: ObjectReview[T]) -> Judgement:
    """The answer to a review without an object: a refusal when there is none, a warning when it does not decode."""
    if review.problem:
        return Judgement(True, Reason.UNDECODABLE, warnings=(f"koord did not judge it: {review.problem}",))
    return refusal(Reason.NO_OBJECT, "there is no content to decode")
