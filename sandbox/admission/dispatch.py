"""Running the webhooks that a request concerns: mutating ones in turn, validating ones together."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sandbox.admission import hooks
from sandbox.admission.calls import CallFailed, WebhookCaller
from sandbox.admission.hooks import Hook
from sandbox.admission.request import AdmissionRequest, JsonObject, Reader
from sandbox.admission.review import Verdict, apply_patch, denial
from sandbox.apiserver.status import bad_request, internal_error

log = logging.getLogger("koord.sandbox.admission")


@dataclass
class Findings:
    """What webhooks left beside the object."""

    warnings: list[str] = field(default_factory=list)
    audit_annotations: dict[str, str] = field(default_factory=dict)

    def note(self, hook: Hook, verdict: Verdict) -> None:
        """Keep a verdict's warnings and annotations."""
        self.warnings.extend(verdict.warnings)
        for key, text in verdict.audit_annotations.items():
            self.audit_annotations[f"{hook.name}/{key}"] = text


class WebhookDispatcher:
    """Knows the stored configurations and calls their hooks."""

    def __init__(self, reader: Reader, caller: WebhookCaller) -> None:
        self._reader = reader
        self._caller = caller
        self._compiled: dict[tuple[str, str], tuple[JsonObject, list[Hook]]] = {}

    async def mutate(
        self, request: AdmissionRequest, findings: Findings, settle: Callable[[JsonObject], JsonObject],
        again: Callable[[JsonObject], JsonObject],
    ) -> AdmissionRequest:  # fmt: skip
        """Call mutating hooks in order; return the request with the resulting object.

        settle: decode and default an object after each patch. again: run the built-in plugins once
        more when a hook changed the object; hooks with reinvocationPolicy IfNeeded that ran before
        the last change then run once more, too. Raises StatusError.
        """
        to_repeat: list[Hook] = []
        seen: list[Hook] = []
        changed = False
        for hook in self._hooks(hooks.MUTATING):
            if not self._concerns(hook, request):
                continue
            after = await self._mutate_once(hook, request, findings, settle)
            if after.object != request.object:
                changed = True
                to_repeat.extend(earlier for earlier in seen if earlier not in to_repeat)
                request = after
            if hook.reinvoked:
                seen.append(hook)
        if not changed or request.object is None:
            return request
        replayed = again(request.object)
        if replayed != request.object:
            request = replace(request, object=replayed)
            to_repeat = seen
        for hook in (hook for hook in seen if hook in to_repeat):
            if self._concerns(hook, request):
                request = await self._mutate_once(hook, request, findings, settle)
        return request

    async def validate(self, request: AdmissionRequest, findings: Findings) -> None:
        """Call validating hooks at the same time. Raises the first refusal in their order."""
        concerned = [hook for hook in self._hooks(hooks.VALIDATING) if self._concerns(hook, request)]
        if not concerned:
            return
        answers = await asyncio.gather(
            *(self._verdict(hook, request, mutating=False) for hook in concerned), return_exceptions=True
        )
        for hook, answer in zip(concerned, answers, strict=True):
            if isinstance(answer, BaseException):
                raise answer
            if answer is not None:
                findings.note(hook, answer)
                if not answer.allowed:
                    raise denial(hook.name, answer.status)

    async def _mutate_once(
        self, hook: Hook, request: AdmissionRequest, findings: Findings, settle: Callable[[JsonObject], JsonObject]
    ) -> AdmissionRequest:
        verdict = await self._verdict(hook, request, mutating=True)
        if verdict is None:
            return request
        findings.note(hook, verdict)
        if not verdict.allowed:
            raise denial(hook.name, verdict.status)
        if not verdict.patch:
            return request
        if request.object is None:
            raise internal_error(f"admission webhook {hook.name!r} attempted to modify the object of a deletion")
        return replace(request, object=settle(apply_patch(request.object, verdict.patch, hook.name)))

    async def _verdict(self, hook: Hook, request: AdmissionRequest, *, mutating: bool) -> Verdict | None:
        """The hook's answer; None when it failed and its failurePolicy says to go on."""
        if request.dry_run and hook.side_effects not in hooks.SAFE_SIDE_EFFECTS:
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        try:
            return await self._caller.call(hook, request, mutating=mutating)
        except CallFailed as failure:
            if not hook.fails_open:
                raise internal_error(f'failed calling webhook "{hook.name}": {failure}') from failure
            log.warning("failed calling webhook %s, failing open: %s", hook.name, failure)
            return None

    def _concerns(self, hook: Hook, request: AdmissionRequest) -> bool:
        namespace = None
        if request.kind.namespaced and request.namespace:
            namespace = self._reader.read("", "namespaces", "", request.namespace)
        return hooks.concerns(hook, request, namespace)

    def _hooks(self, plural: str) -> list[Hook]:
        """Hooks of the stored configurations; each configuration is compiled once per version."""
        found: list[Hook] = []
        current: dict[tuple[str, str], tuple[JsonObject, list[Hook]]] = {}
        for configuration in self._reader.read_all(hooks.GROUP, plural):
            key = (plural, configuration["metadata"]["name"])
            known = self._compiled.get(key)
            if known is None or known[0] is not configuration:
                known = (configuration, hooks.hooks_of([configuration]))
            current[key] = known
        self._compiled = {key: kept for key, kept in self._compiled.items() if key[0] != plural} | current
        for key in sorted(current):
            found.extend(current[key][1])
        return found
