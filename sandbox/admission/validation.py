"""Which checks each built-in kind gets, and what CRD schemas say of custom kinds. Pure."""

from collections.abc import Callable
from typing import Final

from sandbox.admission import configuration_validation as configurations
from sandbox.admission import workload_validation as workloads
from sandbox.admission.fields import FieldError
from sandbox.admission.metadata_validation import validate_metadata, validate_metadata_update
from sandbox.admission.pod_validation import validate_pod, validate_pod_update
from sandbox.admission.request import JsonObject

Check = Callable[[JsonObject], list[FieldError]]
UpdateCheck = Callable[[JsonObject, JsonObject], list[FieldError]]

_HOOKS: Final = "admissionregistration.k8s.io"
_EXTENSIONS: Final = "apiextensions.k8s.io"

# The first check runs on creations and updates, the second on updates only.
_CHECKS: dict[tuple[str, str], tuple[Check, UpdateCheck | None]] = {
    ("", "services"): (workloads.validate_service, None),
    ("", "configmaps"): (workloads.validate_data_keys, workloads.validate_data_update),
    ("", "secrets"): (workloads.validate_data_keys, workloads.validate_data_update),
    ("", "nodes"): (workloads.validate_node, None),
    ("apps", "deployments"): (workloads.validate_deployment, workloads.validate_replicated_update),
    ("apps", "replicasets"): (workloads.validate_replicated, workloads.validate_replicated_update),
    ("apps", "statefulsets"): (workloads.validate_stateful_set, workloads.validate_replicated_update),
    ("apps", "daemonsets"): (workloads.validate_daemon_set, workloads.validate_replicated_update),
    ("batch", "jobs"): (workloads.validate_job, workloads.validate_job_update),
    ("batch", "cronjobs"): (workloads.validate_cron_job, None),
    ("policy", "poddisruptionbudgets"): (workloads.validate_budget, None),
    ("scheduling.k8s.io", "priorityclasses"): (
        workloads.validate_priority_class,
        workloads.validate_priority_class_update,
    ),
    (_HOOKS, "mutatingwebhookconfigurations"): (configurations.validate_webhooks, None),
    (_HOOKS, "validatingwebhookconfigurations"): (configurations.validate_webhooks, None),
    (_EXTENSIONS, "customresourcedefinitions"): (
        configurations.validate_crd,
        configurations.validate_crd_update,
    ),
}


def validate_create(group: str, plural: str, obj: JsonObject) -> list[FieldError]:
    """Every field error of a new object of a built-in kind; custom kinds get the metadata checks."""
    errors = validate_metadata(group, plural, obj.get("metadata") or {})
    if (group, plural) == ("", "pods"):
        return errors + validate_pod(obj)
    check, _ = _CHECKS.get((group, plural), (None, None))
    return errors + (check(obj) if check else [])


def validate_update(group: str, plural: str, obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Every field error of a changed object, the forbidden changes included."""
    metadata, old_metadata = obj.get("metadata") or {}, old.get("metadata") or {}
    errors = validate_metadata(group, plural, metadata) + validate_metadata_update(metadata, old_metadata)
    if (group, plural) == ("", "pods"):
        # The spec was valid when it was made and stays as it is but for what the update check allows.
        return errors + validate_pod_update(obj, old)
    check, check_update = _CHECKS.get((group, plural), (None, None))
    if check:
        errors += check(obj)
    if check_update:
        errors += check_update(obj, old)
    return errors


def validate_status(group: str, plural: str, obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """A write through the status subresource: metadata, amounts of nodes, ends of jobs."""
    metadata, old_metadata = obj.get("metadata") or {}, old.get("metadata") or {}
    errors = validate_metadata(group, plural, metadata) + validate_metadata_update(metadata, old_metadata)
    if (group, plural) == ("", "nodes"):
        errors += workloads.validate_node(obj)
    if (group, plural) == ("batch", "jobs"):
        errors += workloads.validate_job_status(obj, old)
    return errors
