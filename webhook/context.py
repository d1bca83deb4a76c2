"""The state of the cluster that a mutation is decided on: profiles, namespaces, priority classes, gates. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from koord.api import names
from koord.api.errors import InvalidInput
from koord.api.objects import PriorityClass
from webhook.profiles import Candidates, ProfileSet
from webhook.quota_tree import QuotaTrees

_GATES = {
    "ColocationProfileSkipMutatingResources": "skip_mutating_resources",
    "DisableExtendedResourceSpec": "disable_extended_resource_spec",
    "DisableDeviceResourceSpec": "disable_device_resource_spec",
    "MultiQuotaTree": "multi_quota_tree",
    "ColocationProfileSkipValidatingPriority": "skip_validating_priority",
    "SupportParentQuotaSubmitPod": "support_parent_quota",
    "DisableDefaultQuota": "disable_default_quota",
    "ValidatePodDeviceResource": "validate_devices",
    "EnablePodEnhancedValidator": "enhanced_validator",
    "PodValidatingWebhook": "pod_validating",
    "ConfigMapValidatingWebhook": "config_validating",
    "NodeMutatingWebhook": "node_mutating",
    "NodeValidatingWebhook": "node_validating",
}
ALWAYS_EXCLUDED = frozenset({names.NAMESPACE_KUBE_SYSTEM, names.CONFIG_NAMESPACE})


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Koordinator's feature gates of what is built here, with its defaults but for the configuration's validation,
    which is on: a typo in it reaches every node."""

    skip_mutating_resources: bool = False
    disable_extended_resource_spec: bool = False
    disable_device_resource_spec: bool = False
    multi_quota_tree: bool = False
    skip_validating_priority: bool = False
    support_parent_quota: bool = False
    disable_default_quota: bool = False
    validate_devices: bool = False
    enhanced_validator: bool = False
    pod_validating: bool = True
    config_validating: bool = True
    node_mutating: bool = False
    node_validating: bool = False

    @classmethod
    def from_names(cls, gates: Mapping[str, bool]) -> FeatureGates:
        """By Koordinator's names. Raises InvalidInput for one this webhook does not have."""
        for gate in gates:
            if gate not in _GATES:
                raise InvalidInput("webhook", "--feature-gates", gate, ", ".join(sorted(_GATES)))
        return cls(**{_GATES[gate]: enabled for gate, enabled in gates.items()})

    @classmethod
    def parse(cls, text: str) -> FeatureGates:
        """From `A=true,B=false`. Raises InvalidInput."""
        gates: dict[str, bool] = {}
        for item in filter(None, (item.strip() for item in text.split(","))):
            gate, _, enabled = item.partition("=")
            if enabled not in ("true", "false"):
                raise InvalidInput("webhook", "--feature-gates", item, "Name=true or Name=false")
            gates[gate] = enabled == "true"
        return cls.from_names(gates)


@dataclass(slots=True)
class Context:
    """One consistent view; the shell replaces or amends it between two decisions, never during one.

    namespaces: labels of every known Namespace, by name. A pod of an unknown one matches no profile that has
    a namespace selector. Forget a namespace's candidates when its labels change.
    """

    profiles: ProfileSet = field(default_factory=ProfileSet)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    gates: FeatureGates = FeatureGates()
    excluded_namespaces: frozenset[str] = ALWAYS_EXCLUDED
    quota_trees: QuotaTrees = field(default_factory=QuotaTrees)
    _candidates: dict[str, Candidates] = field(default_factory=dict)

    def candidates(self, namespace: str) -> Candidates:
        """The profiles that may match a pod of the namespace, from memory when asked before."""
        found = self._candidates.get(namespace)
        if found is None:
            labels = self.namespaces.get(namespace)
            found = self.profiles.candidates(labels)
            if labels is not None:
                self._candidates[namespace] = found
        return found

    def forget_namespace(self, namespace: str) -> None:
        """The namespace's labels changed."""
        self._candidates.pop(namespace, None)

    def replace_profiles(self, profiles: ProfileSet) -> None:
        """The profiles changed."""
        self.profiles = profiles
        self._candidates.clear()
