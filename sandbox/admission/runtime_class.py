"""RuntimeClass admission: a pod's overhead comes from its RuntimeClass and from nowhere else."""

from koord.api import quantity
from sandbox.admission.request import JsonObject, Reader
from sandbox.apiserver.status import forbidden


def admit_overhead(pod: JsonObject, reader: Reader) -> None:
    """Refuse (403) an unknown RuntimeClass, and an overhead that is not the class's own."""
    spec = pod["spec"]
    metadata = pod.get("metadata") or {}
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    class_name = spec.get("runtimeClassName") or ""
    runtime_class = reader.read("node.k8s.io", "runtimeclasses", "", class_name) if class_name else None
    if class_name and runtime_class is None:
        raise forbidden("", "pods", name, f'pod rejected: RuntimeClass "{class_name}" not found')
    wanted = ((runtime_class or {}).get("overhead") or {}).get("podFixed")
    given = spec.get("overhead") or {}
    if wanted is None:
        if given:
            why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            raise forbidden("", "pods", name, why)
        return
    if {key: quantity.nano(amount) for key, amount in given.items()} != {
        key: quantity.nano(amount) for key, amount in wanted.items()
    }:
        why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        raise forbidden("", "pods", name, why)
