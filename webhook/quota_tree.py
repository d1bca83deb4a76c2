"""Keep the pods of a quota tree on that tree's nodes, by required node affinity. Pure.

The pod's quota is named by its label, else by its namespace; the quota's tree names an ElasticQuotaProfile,
whose node selector becomes part of every required node-selector term.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from koord.api import names
from koord.api.objects import JsonObject, ObjectMeta, Struct
from koord.api.selectors import LabelSelector

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NAMESPACES = msgspec.json.Decoder(tuple[str, ...])


class ElasticQuota(Struct, frozen=True):
    """scheduling.sigs.k8s.io/v1alpha1 ElasticQuota, as far as trees need it."""

    metadata: ObjectMeta = ObjectMeta()


class ElasticQuotaProfileSpec(Struct, frozen=True):
    """The nodes of a tree."""

    quota_name: str = ""
    node_selector: LabelSelector | None = None


class ElasticQuotaProfile(Struct, frozen=True):
    """quota.koordinator.sh/v1alpha1 ElasticQuotaProfile."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ElasticQuotaProfileSpec = ElasticQuotaProfileSpec()


@dataclass(frozen=True, slots=True)
class QuotaTrees:
    """Which tree a quota belongs to, which quota a namespace has, which nodes a tree has."""

    tree_by_quota: Mapping[str, str] = field(default_factory=dict)
    tree_by_namespace: Mapping[str, str] = field(default_factory=dict)
    expressions_by_tree: Mapping[str, list[JsonObject]] = field(default_factory=dict)

    def expressions(self, quota_name: str, namespace: str) -> list[JsonObject]:
        """The node-selector requirements of a pod; none when it has no quota, tree or nodes of its own."""
        name = quota_name or namespace
        tree = self.tree_by_quota.get(name)
        if tree is None:
            tree = self.tree_by_namespace.get(namespace, "")
        return self.expressions_by_tree.get(tree, []) if tree else []


def compile_quota_trees(quotas: Iterable[ElasticQuota], profiles: Iterable[ElasticQuotaProfile]) -> QuotaTrees:
    """Index quotas and profiles. Where several claim the same name or tree, the first by namespace/name wins."""
    tree_by_quota: dict[str, str] = {}
    tree_by_namespace: dict[str, str] = {}
    for quota in sorted(quotas, key=lambda quota: _place(quota.metadata)):
        tree = quota.metadata.labels.get(names.LABEL_QUOTA_TREE_ID, "")
        tree_by_quota.setdefault(quota.metadata.name, tree)
        for namespace in bound_namespaces(quota):
            tree_by_namespace.setdefault(namespace, tree)
    expressions_by_tree: dict[str, list[JsonObject]] = {}
    for profile in sorted(profiles, key=lambda profile: _place(profile.metadata)):
        tree = profile.metadata.labels.get(names.LABEL_QUOTA_TREE_ID, "")
        expressions = _expressions(profile.spec.node_selector)
        # An empty selector would become a term that matches no node; the tree then has no nodes of its own.
        if tree and expressions:
            expressions_by_tree.setdefault(tree, expressions)
    return QuotaTrees(tree_by_quota, tree_by_namespace, expressions_by_tree)


def add_required_expressions(document: JsonObject, expressions: list[JsonObject]) -> JsonObject:
    """The pod with the expressions in every required node-selector term; those present are not repeated."""
    spec: dict[str, Any] = dict(document.get("spec") or {})
    affinity = dict(spec.get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    required = dict(node_affinity.get(_REQUIRED) or {})
    terms = []
    for term in required.get("nodeSelectorTerms") or [{}]:
        present = term.get("matchExpressions") or []
        missing = [expression for expression in expressions if expression not in present]
        terms.append({**term, "matchExpressions": [*present, *missing]} if missing else term)
    required["nodeSelectorTerms"] = terms
    node_affinity[_REQUIRED] = required
    affinity["nodeAffinity"] = node_affinity
    spec["affinity"] = affinity
    return {**document, "spec": spec}


def _place(metadata: ObjectMeta) -> tuple[str, str]:
    return metadata.namespace, metadata.name


def bound_namespaces(quota: ElasticQuota) -> tuple[str, ...]:
    """The namespaces that the quota's annotation binds to it; none when it does not read."""
    text = quota.metadata.annotations.get(names.ANNOTATION_QUOTA_NAMESPACES, "")
    try:
        return _NAMESPACES.decode(text) if text else ()
    except msgspec.MsgspecError:
        return ()


def _expressions(selector: LabelSelector | None) -> list[JsonObject]:
    if selector is None:
        return []
    expressions: list[JsonObject] = [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in sorted((selector.match_labels or {}).items())
    ]
    for requirement in selector.match_expressions or ():
        expression: JsonObject = {"key": requirement.key, "operator": requirement.operator}
        if requirement.values:
            expression["values"] = list(requirement.values)
        expressions.append(expression)
    return expressions
