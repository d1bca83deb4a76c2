"""Which ElasticQuota a pod belongs to, and that it is not one that only holds other quotas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from koord.api import names
from koord.api.objects import Pod
from webhook.context import FeatureGates
from webhook.quota_tree import ElasticQuota, bound_namespaces

DEFAULT_QUOTA = "koordinator-default-quota"


@dataclass(frozen=True, slots=True)
class Quotas:
    """The ElasticQuotas by what pods are resolved with. The first by namespace and name wins."""

    parents: frozenset[str] = frozenset()
    own_of_namespace: frozenset[str] = frozenset()
    """Namespaces that hold a quota of their own name."""
    by_namespace: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, quotas: Iterable[ElasticQuota]) -> Quotas:
        """Index them."""
        listed = sorted(quotas, key=lambda quota: (quota.metadata.namespace, quota.metadata.name))
        by_namespace: dict[str, str] = {}
        for quota in listed:
            for namespace in bound_namespaces(quota):
                by_namespace.setdefault(namespace, quota.metadata.name)
        return cls(
            frozenset(
                quota.metadata.name
                for quota in listed
                if quota.metadata.labels.get(names.LABEL_QUOTA_IS_PARENT) == "true"
            ),
            frozenset(quota.metadata.name for quota in listed if quota.metadata.name == quota.metadata.namespace),
            by_namespace,
        )

    def resolve(self, pod: Pod, gates: FeatureGates) -> str:
        """The name of the pod's quota; "" when it has none."""
        if label := pod.metadata.labels.get(names.LABEL_QUOTA_NAME, ""):
            return label
        if gates.disable_default_quota:
            return ""
        namespace = pod.metadata.namespace
        if namespace in self.own_of_namespace:
            return namespace
        return self.by_namespace.get(namespace, DEFAULT_QUOTA)


def parent_quota_error(pod: Pod, quotas: Quotas, gates: FeatureGates) -> str:
    """Why the pod's quota cannot hold pods, or ""."""
    quota = quotas.resolve(pod, gates)
    if quota in quotas.parents:
        return f"pod can not be linked to a parentQuotaGroup,quota:{quota}, pod:{pod.metadata.name}"
    return ""
