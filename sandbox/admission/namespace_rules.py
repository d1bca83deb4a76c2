"""NamespaceLifecycle admission: nothing is made in a namespace that is absent or going away."""

from typing import Final

from sandbox.admission.request import CREATE, DELETE, AdmissionRequest, Reader
from sandbox.apiserver.status import Cause, forbidden, not_found

_IMMORTAL: Final = ("default", "kube-system", "kube-public")


def admit_namespace(request: AdmissionRequest, reader: Reader) -> None:
    """Refuse (404, 403) a creation in a missing or terminating namespace, and a forbidden deletion."""
    kind = request.kind
    if (kind.group, kind.plural) == ("", "namespaces"):
        if request.operation == DELETE and request.name in _IMMORTAL and not request.subresource:
            raise forbidden("", "namespaces", request.name, "this namespace may not be deleted")
        return
    if request.operation != CREATE or not kind.namespaced or not request.namespace or request.subresource:
        return
    namespace = reader.read("", "namespaces", "", request.namespace)
    if namespace is None:
        raise not_found("", "namespaces", request.namespace)
    if namespace["metadata"].get("deletionTimestamp"):
        name = request.name or (request.object or {}).get("metadata", {}).get("generateName", "")
        why = f"unable to create new content in namespace {request.namespace} because it is being terminated"
        terminating = f"namespace {request.namespace} is being terminated"
        cause = Cause("NamespaceTerminating", terminating, "metadata.namespace")
        raise forbidden(kind.group, kind.plural, name, why, [cause])
