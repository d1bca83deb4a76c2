"""The chain that every write passes, in the API server's order.

defaulting → built-in plugins (namespace, service account, tolerations, Priority) → mutating
webhooks, the built-in plugins again after a change → identity and initial status of a new object →
schema and field validation → overhead rule → validating webhooks. Nothing here writes to the store,
so a refused request leaves no trace.
"""

import copy
from dataclasses import replace
from typing import Final

import msgspec

from koord.api.objects import Pod
from koord.api.qos import computed_kube_qos
from sandbox.admission.calls import HookRecord, WebhookCaller
from sandbox.admission.defaulting import apply_defaults
from sandbox.admission.dispatch import Findings, WebhookDispatcher
from sandbox.admission.fields import refuse_invalid
from sandbox.admission.namespace_rules import admit_namespace
from sandbox.admission.pod_defaults import admit_eviction_tolerations, admit_service_account
from sandbox.admission.priority import admit_priority
from sandbox.admission.request import (
    CONNECT,
    CREATE,
    DELETE,
    UPDATE,
    AdmissionRequest,
    Admitted,
    Complete,
    JsonObject,
    Reader,
)
from sandbox.admission.runtime_class import admit_overhead
from sandbox.admission.schema import StructuralSchema, compile_schema
from sandbox.admission.services import ServiceDirectory
from sandbox.admission.validation import validate_create, validate_status, validate_update
from sandbox.apiserver.fields import builtin, decode
from sandbox.apiserver.kinds import Kind
from sandbox.apiserver.status import internal_error

_OWN_DOCUMENTS: Final = ("binding", "eviction", "scale", "token")
"""Subresources that carry a document of another kind; webhooks see it, the checks here do not."""


class AdmissionChain:
    """Admits or refuses writes. `services` tells where webhooks' services listen."""

    def __init__(self, reader: Reader, services: ServiceDirectory | None = None) -> None:
        self._reader = reader
        self.services = services or ServiceDirectory()
        self._caller = WebhookCaller(self.services)
        self._webhooks = WebhookDispatcher(reader, self._caller)
        self._schemas: dict[tuple[str, str, str], tuple[JsonObject, StructuralSchema]] = {}

    @property
    def webhook_calls(self) -> dict[tuple[str, str], HookRecord]:
        """Outcomes and latencies so far, by (configuration, webhook name)."""
        return self._caller.records

    async def close(self) -> None:
        """Close the connections to webhooks."""
        await self._caller.close()

    async def admit(self, request: AdmissionRequest, complete: Complete | None = None) -> Admitted:
        """Decide on one write. The request's objects stay untouched. Raises StatusError to refuse.

        complete: what storing adds to a new object, after mutation and before validation.
        """
        admit_namespace(request, self._reader)
        if request.object is not None:
            request = replace(request, object=self._prepare(request, copy.deepcopy(request.object)))
        findings = Findings()
        request = await self._webhooks.mutate(
            request,
            findings,
            settle=lambda obj: self._settle(request, obj),
            again=lambda obj: self._run_plugins(request, copy.deepcopy(obj)),
        )
        if request.object is not None:
            final = complete(request.object) if complete is not None else request.object
            name = request.name or (final.get("metadata") or {}).get("name") or ""
            request = replace(request, object=final, name=name)
            self._finish(request, final)
        await self._webhooks.validate(request, findings)
        return Admitted(request.object, tuple(dict.fromkeys(findings.warnings)), findings.audit_annotations)

    def _prepare(self, request: AdmissionRequest, obj: JsonObject) -> JsonObject:
        """What happens to an object before any webhook sees it."""
        return self._run_plugins(request, self._fill(request, obj))

    def _settle(self, request: AdmissionRequest, obj: JsonObject) -> JsonObject:
        """Read a webhook's result as if a client had sent it."""
        kind = request.kind
        if request.subresource in _OWN_DOCUMENTS or kind.custom:
            return self._fill(request, obj)
        described = builtin.type_of(kind)
        if described is not None:
            try:
                obj = decode.decode(obj, described).document
            except decode.WrongType as error:
                raise internal_error(str(error)) from error
        return self._fill(request, obj)

    def _fill(self, request: AdmissionRequest, obj: JsonObject) -> JsonObject:
        """Defaults; for custom kinds, unknown fields go first."""
        if request.subresource in _OWN_DOCUMENTS:
            return obj
        schema = self._schema(request.kind)
        if schema is not None:
            schema.prune(obj)
            schema.apply_defaults(obj)
        elif not request.kind.custom:
            apply_defaults(request.kind.group, request.kind.plural, obj)
        return obj

    def _run_plugins(self, request: AdmissionRequest, obj: JsonObject) -> JsonObject:
        is_pod = (request.kind.group, request.kind.plural) == ("", "pods")
        if is_pod and request.operation == CREATE and not request.subresource:
            admit_service_account(obj)
            admit_eviction_tolerations(obj)
        admit_priority(request, obj, self._reader)
        return obj

    def _finish(self, request: AdmissionRequest, obj: JsonObject) -> None:
        """Check the object that all mutations have left, and set what only the server may say."""
        kind = request.kind
        if request.subresource in _OWN_DOCUMENTS or request.operation in (CONNECT, DELETE):
            return
        schema = self._schema(kind)
        errors = schema.validate(obj) if schema is not None else []
        old = request.old_object
        if request.operation == CREATE or old is None:
            errors = errors + validate_create(kind.group, kind.plural, obj)
        elif request.subresource == "status":
            errors = errors + validate_status(kind.group, kind.plural, obj, old)
        elif request.operation == UPDATE:
            errors = errors + validate_update(kind.group, kind.plural, obj, old)
        name = request.name or (obj.get("metadata") or {}).get("name") or ""
        refuse_invalid(kind.group, kind.kind, name, errors)
        if (kind.group, kind.plural) == ("", "pods") and request.operation == CREATE and not request.subresource:
            admit_overhead(obj, self._reader)
            _set_quality(obj)

    def _schema(self, kind: Kind) -> StructuralSchema | None:
        """The compiled schema of a custom kind; compiled again when its definition changes."""
        if kind.schema is None:
            return None
        key = (kind.group, kind.version, kind.plural)
        known = self._schemas.get(key)
        if known is None or known[0] is not kind.schema:
            known = self._schemas[key] = (kind.schema, compile_schema(kind.schema))
        return known[1]


def _set_quality(pod: JsonObject) -> None:
    """Compute status.qosClass, which webhooks' changes of resources may have moved."""
    quality = computed_kube_qos(msgspec.convert(pod, Pod).spec)
    pod["status"] = {**(pod.get("status") or {}), "qosClass": str(quality)}
