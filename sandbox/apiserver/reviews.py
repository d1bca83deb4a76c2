"""Reviews: objects that are answered, never stored. Whoever is known may do everything. Pure."""

from collections.abc import Callable
from typing import Any

from sandbox.apiserver import status
from sandbox.apiserver.calls import User

JsonObject = dict[str, Any]
TokenLookup = Callable[[str], User | None]

REVIEWS = frozenset(
    {
        "TokenReview",
        "SelfSubjectReview",
        "SelfSubjectAccessReview",
        "SelfSubjectRulesReview",
        "SubjectAccessReview",
        "LocalSubjectAccessReview",
    }
)
_WHY = "the sandbox grants every authenticated user every right"
_EVERYTHING = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}


def answer(document: JsonObject, user: User, lookup: TokenLookup) -> JsonObject:
    """The review with its status. Raises StatusError 422 when it asks about nothing."""
    kind = document["kind"]
    if kind == "SelfSubjectReview":
        return {**document, "status": {"userInfo": user.info()}}
    if kind == "SelfSubjectRulesReview":
        rules = {"resourceRules": [_EVERYTHING], "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}
        return {**document, "status": {**rules, "incomplete": False}}
    if kind == "TokenReview":
        return {**document, "status": _token_status((document.get("spec") or {}).get("token") or "", lookup)}
    spec = document.get("spec") or {}
    if not spec.get("resourceAttributes") and not spec.get("nonResourceAttributes"):
        text = "Invalid value: exactly one of nonResourceAttributes or resourceAttributes must be specified"
        cause = status.Cause("FieldValueInvalid", text, "spec.resourceAttributes")
        raise status.invalid("authorization.k8s.io", kind, "", [cause])
    return {**document, "status": {"allowed": True, "reason": _WHY}}


def _token_status(token: str, lookup: TokenLookup) -> JsonObject:
    user = lookup(token)
    if user is None:
        return {"authenticated": False, "user": {}, "error": "the token is not known"}
    return {"authenticated": True, "user": user.info()}
