"""Decide what a pod becomes when it is created: the whole of the pod mutation, in order. Pure and total.

Profiles first (match all, then apply by ascending name), then the resources of the band, the annotation for the
node agent, the quota tree's nodes, the GPU shorthand. The decision names every profile that matched and what
each changed; `decide(..., explain=True)` also says why the others did not match.
"""

from __future__ import annotations

import msgspec

from koord.api import names
from koord.api.objects import JsonObject
from koord.api.priority import TRANSLATED_RESOURCES
from koord.api.quantity import InvalidQuantity
from koord.api.strategic_merge import StrategicMergeError, merge_schema, strategic_merge
from webhook.context import Context
from webhook.decision import (
    Change,
    Decision,
    ProfileOutcome,
    Reason,
    Refusal,
    Translation,
    TranslationReason,
    Verdict,
)
from webhook.downward import MARK, downward_warnings
from webhook.draft import Draft
from webhook.draws import Draw, stable_draw, workload_identity
from webhook.extended_spec import update_extended_spec
from webhook.fields import apply_fields
from webhook.gpu import expand_gpu
from webhook.json_patch import Operation, apply_operations, diff
from webhook.profiles import CompiledProfile, mismatch_verdict
from webhook.quota_tree import add_required_expressions
from webhook.review import CREATE, Submission
from webhook.translate import band_of, translate
from webhook.views import MetadataView, PodView, SpecView

_POD_SCHEMA = merge_schema("v1", "Pod")
_CONFIG_SOURCE_API = "api"


def decide(submission: Submission, context: Context, draw: Draw | None = None, *, explain: bool = False) -> Decision:
    """The decision about a review.

    draw: 0..99 for a profile with a probability, asked in order of name; None draws by the pod's workload.
    """
    request = submission.request
    if not request.is_pod:
        return Decision(True, Reason.NOT_A_POD)
    if request.operation != CREATE:
        return Decision(True, Reason.OTHER_OPERATION)
    if submission.decode_error:
        return Decision(
            True, Reason.UNDECODABLE, warnings=(f"koord did not look at the pod: {submission.decode_error}",)
        )
    pod = request.object
    if pod is None:
        return Decision(False, Reason.NO_OBJECT, code=400, message="there is no content to decode")
    return mutate_pod(pod, submission, context, draw, explain=explain)


def mutate_pod(
    pod: PodView, submission: Submission, context: Context, draw: Draw | None, *, explain: bool = False
) -> Decision:
    """The decision about creating `pod`, whose namespace is the request's when it names none."""
    if pod.metadata is None or pod.spec is None:
        return Decision(True, Reason.UNDECODABLE, warnings=("koord did not look at the pod: no metadata or no spec",))
    namespace = pod.metadata.namespace or submission.request.namespace
    if namespace in context.excluded_namespaces:
        return Decision(True, Reason.EXCLUDED_NAMESPACE)
    if is_static(pod.metadata):
        return Decision(True, Reason.STATIC_POD)
    if draw is None:
        draw = stable_draw(workload_identity(pod.metadata, namespace, submission.request.uid))
    mutation = _Mutation(pod.metadata, pod.spec, namespace, context, submission)
    operations: tuple[Operation, ...] = ()
    refusal: Refusal | None = None
    try:
        mutation.run(draw)
        operations = tuple(mutation.operations())
    except Refusal as error:
        refusal = error
    except InvalidQuantity as error:
        return Decision(True, Reason.INVALID_QUANTITY, warnings=(f"koord left the pod unchanged: {error}",))
    outcomes = tuple(mutation.outcomes)
    if explain:
        outcomes = _with_mismatches(outcomes, context, namespace, pod.metadata.labels or {})
    if refusal is not None:
        return Decision(False, refusal.reason, code=refusal.code, message=refusal.message, profiles=outcomes)
    return Decision(
        True,
        Reason.PATCHED if operations else Reason.UNCHANGED,
        operations,
        warnings=tuple(mutation.warnings),
        profiles=outcomes,
        translation=mutation.translation,
    )


def is_static(metadata: MetadataView) -> bool:
    """A static pod or its mirror: the kubelet runs it from a file, so the API object must stay as it is."""
    annotations = metadata.annotations
    if annotations and (
        names.ANNOTATION_MIRROR_POD in annotations
        or annotations.get(names.ANNOTATION_CONFIG_SOURCE, _CONFIG_SOURCE_API) != _CONFIG_SOURCE_API
    ):
        return True
    return any(owner.kind == "Node" for owner in metadata.owner_references or ())


class _Mutation:
    """One run over one pod."""

    __slots__ = (
        "_context",
        "_document",
        "_draft",
        "_namespace",
        "_original_labels",
        "_submission",
        "outcomes",
        "translation",
        "warnings",
    )

    def __init__(
        self,
        metadata: MetadataView,
        spec: SpecView,
        namespace: str,
        context: Context,
        submission: Submission,
    ) -> None:
        self._namespace = namespace
        self._context = context
        self._submission = submission
        self._draft = Draft(metadata, spec)
        self._original_labels = metadata.labels or {}
        # The pod as a whole, from the first change on that the draft cannot express.
        self._document: JsonObject | None = None
        self.outcomes: list[ProfileOutcome] = []
        self.warnings: list[str] = []
        self.translation: Translation | None = None

    def run(self, draw: Draw) -> None:
        """All steps. Raises Refusal, InvalidQuantity."""
        gates = self._context.gates
        matched = self._context.candidates(self._namespace).matching(self._original_labels)
        for profile in matched:
            self.outcomes.append(self._process(profile, draw))
        self.translation = self._translate(matched)
        if not gates.disable_extended_resource_spec:
            update_extended_spec(self._draft)
        if gates.multi_quota_tree:
            self._keep_on_tree()
        if not gates.disable_device_resource_spec:
            expand_gpu(self._draft)

    def operations(self) -> list[Operation]:
        """The patch from the pod as submitted to what it became."""
        operations = self._draft.operations()
        if self._document is None:
            return operations
        return diff(self._submission.document, apply_operations(self._document, operations))

    def _process(self, profile: CompiledProfile, draw: Draw) -> ProfileOutcome:
        if profile.probability_error:
            raise Refusal(Reason.INVALID_PROBABILITY, f'profile "{profile.name}": {profile.probability_error}')
        percent, drawn = profile.percent, None
        if percent == 0:
            return ProfileOutcome(profile.name, Verdict.LOST_DRAW, "its probability is 0", percent)
        if percent != 100:
            drawn = draw(profile.name)
            if drawn >= percent:
                detail = f"drew {drawn}, applies below {percent}"
                return ProfileOutcome(profile.name, Verdict.LOST_DRAW, detail, percent, drawn)
        changes = apply_fields(self._draft, profile, self._context.priority_classes)
        if profile.patch_error:
            raise Refusal(Reason.PATCH_FAILED, f'profile "{profile.name}": {profile.patch_error}')
        if profile.patch is not None:
            self._apply_patch(profile.name, profile.patch)
            changes.append(Change("patch", "", None, None))
        return ProfileOutcome(profile.name, Verdict.APPLIED, "", percent, drawn, tuple(changes))

    def _apply_patch(self, profile_name: str, patch: JsonObject) -> None:
        assert _POD_SCHEMA is not None
        try:
            merged = strategic_merge(self._whole(), patch, _POD_SCHEMA)
            self._restart(merged)
        except (StrategicMergeError, msgspec.ValidationError) as error:
            message = f'profile "{profile_name}": its patch cannot be applied: {error}'
            raise Refusal(Reason.PATCH_FAILED, message) from error

    def _whole(self) -> JsonObject:
        document = self._submission.document if self._document is None else self._document
        return apply_operations(document, self._draft.operations())

    def _restart(self, document: JsonObject) -> None:
        """Go on from a document that was changed as a whole. Raises msgspec.ValidationError, StrategicMergeError."""
        view = msgspec.convert(document, PodView)
        if view.metadata is None or view.spec is None:
            raise StrategicMergeError("it would remove metadata or spec")
        self._draft = Draft(view.metadata, view.spec)
        self._document = document

    def _translate(self, matched: list[CompiledProfile]) -> Translation:
        if self._context.gates.skip_mutating_resources:
            return Translation(TranslationReason.SKIPPED_BY_GATE)
        if not any(outcome.verdict is Verdict.APPLIED for outcome in self.outcomes):
            return Translation(TranslationReason.NO_PROFILE_APPLIED)
        for profile in matched:
            if profile.skips_resources:
                return Translation(TranslationReason.SKIPPED_BY_PROFILE, detail=profile.name)
        band, origin = band_of(self._draft)
        if band not in TRANSLATED_RESOURCES:
            return Translation(TranslationReason.BAND_WITHOUT_RESOURCES, band, origin)
        changed, warnings = translate(self._draft, band)
        self.warnings += warnings
        if not changed:
            return Translation(TranslationReason.NOTHING_TO_TRANSLATE, band, origin)
        if self._submission.mentions(MARK):
            self.warnings += downward_warnings(self._submission.document)
        return Translation(TranslationReason.TRANSLATED, band, origin)

    def _keep_on_tree(self) -> None:
        quota_name = self._draft.labels.get(names.LABEL_QUOTA_NAME, "")
        expressions = self._context.quota_trees.expressions(quota_name, self._namespace)
        if expressions:
            self._restart(add_required_expressions(self._whole(), expressions))


def _with_mismatches(
    outcomes: tuple[ProfileOutcome, ...], context: Context, namespace: str, labels: dict[str, str]
) -> tuple[ProfileOutcome, ...]:
    by_name = {outcome.name: outcome for outcome in outcomes}
    namespace_labels = context.namespaces.get(namespace)
    for profile in context.profiles.profiles:
        verdict = mismatch_verdict(profile, namespace_labels, labels)
        if verdict is not None:
            by_name[profile.name] = ProfileOutcome(profile.name, verdict[0], verdict[1], profile.percent)
    return tuple(sorted(by_name.values(), key=lambda outcome: outcome.name))
