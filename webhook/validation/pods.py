"""What a pod may say of its colocation: QoS class and priority that fit, resources that fit the class, and labels
that stay what they are.

On update only what changed is judged: a pod that was created before this webhook, or under other rules, can still be
labelled, patched and deleted; a pod that is being deleted always passes.
"""

from __future__ import annotations

from collections.abc import Callable

from koord.api import names, quantity
from koord.api.objects import Pod
from koord.api.pod_resources import requests_nano
from koord.api.priority import BANDS, PriorityBand, raw_class
from koord.api.qos import QoSClass, raw_qos
from koord.api.quantity import InvalidQuantity
from webhook.context import FeatureGates
from webhook.judgement import ALLOWED, FieldError, Judgement, Reason, forbidden, invalid, refusal, required
from webhook.validation.devices import device_errors
from webhook.validation.quotas import Quotas, parent_quota_error
from webhook.validation.required_labels import RequiredLabels

FIELD_QOS = f"labels.{names.LABEL_QOS}"
FIELD_CLASS = "spec.priority"
FIELD_SUB_PRIORITY = f"labels.{names.LABEL_PRIORITY}"
FIELD_REQUESTS = "pod.spec.containers[*].resources.requests"
_NANO_PER_CORE = 1_000_000_000
_IMMUTABLE = "field is immutable"

BANDS_OF = {
    QoSClass.BE: (PriorityBand.MID, PriorityBand.BATCH, PriorityBand.FREE),
    QoSClass.LSR: (PriorityBand.PROD,),
}
"""The bands that a QoS class goes with; the others go with any."""


class PodRules:
    """The rules and what they need to know of the cluster. Everything is replaced as a whole when it changes."""

    __slots__ = ("gates", "quotas", "required_labels")

    def __init__(
        self,
        gates: FeatureGates | None = None,
        quotas: Quotas | None = None,
        required_labels: RequiredLabels | None = None,
    ) -> None:
        self.gates = gates or FeatureGates()
        self.quotas = quotas or Quotas()
        self.required_labels = required_labels or RequiredLabels()

    def judge(self, new: Pod, old: Pod | None) -> Judgement:
        """Judge a creation (`old` None) or an update. Steps run in order; the first that fails answers."""
        if old is not None and new.metadata.deletion_timestamp is not None:
            return Judgement(True, Reason.BEING_DELETED)
        warnings = tuple(_warnings(new)) if old is None else ()
        if names.ANNOTATION_RESERVE_POD in new.metadata.annotations and not (
            old is not None and names.ANNOTATION_RESERVE_POD in old.metadata.annotations
        ):
            error = forbidden(f"annotations.{names.ANNOTATION_RESERVE_POD}", "cannot set in annotations")
            return refusal(Reason.RESERVED_ANNOTATION, [error], warnings)
        try:
            return self._judge_fields(new, old, warnings)
        except InvalidQuantity as error:
            # The API server judges quantities itself, and better placed.
            return Judgement(True, Reason.UNDECODABLE, warnings=(*warnings, f"koord did not judge the pod: {error}"))

    def _judge_fields(self, new: Pod, old: Pod | None, warnings: tuple[str, ...]) -> Judgement:
        if errors := self._colocation(new, old):
            return refusal(Reason.COLOCATION_RULES, errors, warnings)
        if text := self._quota(new, old):
            return refusal(Reason.QUOTA, text, warnings)
        if self.gates.validate_devices and (errors := _added(device_errors, new, old)):
            return refusal(Reason.DEVICE_RULES, errors, warnings)
        if self.gates.enhanced_validator and (text := self.required_labels.problem(new)):
            return refusal(Reason.REQUIRED_LABELS, text, warnings)
        return Judgement(True, Reason.VALID, warnings=warnings) if warnings else ALLOWED

    def _colocation(self, new: Pod, old: Pod | None) -> list[FieldError]:
        errors = [] if old is None else _immutability_errors(new, old, self.gates)
        return errors + _added(combination_errors, new, old)

    def _quota(self, new: Pod, old: Pod | None) -> str:
        label = names.LABEL_PREEMPTIBLE
        if old is not None and new.metadata.labels.get(label) != old.metadata.labels.get(label):
            return "Preemptible label is forbidden modify now."
        if self.gates.support_parent_quota:
            return ""
        problem = parent_quota_error(new, self.quotas, self.gates)
        return (
            ""
            if old is not None and problem and problem == parent_quota_error(old, self.quotas, self.gates)
            else problem
        )


def _added(rule: Callable[[Pod], list[FieldError]], new: Pod, old: Pod | None) -> list[FieldError]:
    """The errors that the old pod does not have already."""
    errors = rule(new)
    if not errors or old is None:
        return errors
    before = rule(old)
    return [error for error in errors if error not in before]


def _immutability_errors(new: Pod, old: Pod, gates: FeatureGates) -> list[FieldError]:
    errors = []
    qos, before = raw_qos(new.metadata.labels), raw_qos(old.metadata.labels)
    if qos is not before:
        errors.append(invalid(FIELD_QOS, qos or "", _IMMUTABLE))
    band, band_before = _band(new), _band(old)
    if band is not band_before:
        errors.append(invalid(FIELD_CLASS, band, _IMMUTABLE))
    text = new.metadata.labels.get(names.LABEL_PRIORITY, "")
    if text != old.metadata.labels.get(names.LABEL_PRIORITY, "") and not gates.skip_validating_priority:
        errors.append(invalid(FIELD_SUB_PRIORITY, text, _IMMUTABLE))
    return errors


def combination_errors(pod: Pod) -> list[FieldError]:
    """Class, priority and resources that do not fit together. Raises InvalidQuantity."""
    errors = []
    qos, band = raw_qos(pod.metadata.labels), _band(pod)
    requests = requests_nano(pod.spec)
    if qos is not QoSClass.BE and any(requests.get(name) for name in (names.BATCH_CPU, names.BATCH_MEMORY)):
        errors.append(required(FIELD_QOS, "must specify koordinator QoS BE with koordinator colocation resources"))
    if qos in BANDS_OF and band not in BANDS_OF[qos]:
        text = f"{names.LABEL_QOS}={qos} and priorityClass={band} cannot be used in combination"
        errors.append(forbidden("Pod", f"{text} ({_advice(pod, qos)})"))
    if qos in (QoSClass.LSR, QoSClass.LSE):
        cpu = requests.get(names.CPU, 0)
        if not cpu:
            errors.append(required(FIELD_REQUESTS, "LSR Pod must declare the requested CPUs"))
        elif cpu % _NANO_PER_CORE:
            shown = quantity.format_nano(cpu)
            errors.append(invalid(FIELD_REQUESTS, shown, "the requested CPUs of LSR Pod must be integer"))
    return errors


def _advice(pod: Pod, qos: QoSClass) -> str:
    """What would be allowed, and where the pod's own class comes from."""
    wanted = " or ".join(BANDS_OF[qos])
    values = " or ".join(f"{BANDS[band].lowest}-{BANDS[band].highest}" for band in BANDS_OF[qos])
    label = pod.metadata.labels.get(names.LABEL_PRIORITY_CLASS)
    if label is not None:
        source = f'label {names.LABEL_PRIORITY_CLASS} is "{label}"'
    else:
        source = f"spec.priority is {pod.spec.priority if pod.spec.priority is not None else 'absent'}"
    return f"{qos} goes with {wanted}, priority {values}; here {source}"


def _band(pod: Pod) -> PriorityBand:
    return raw_class(pod.metadata.labels, pod.spec.priority)


def _warnings(pod: Pod) -> list[str]:
    labels = pod.metadata.labels
    found = []
    qos = labels.get(names.LABEL_QOS)
    if qos and raw_qos(labels) is None:
        found.append(f'label {names.LABEL_QOS}: "{qos}" is ignored: allowed: {", ".join(QoSClass)}')
    band = labels.get(names.LABEL_PRIORITY_CLASS)
    if band and band not in tuple(BANDS):
        found.append(f'label {names.LABEL_PRIORITY_CLASS}: "{band}" reads as no class: allowed: {", ".join(BANDS)}')
    return found
