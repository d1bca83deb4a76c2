"""A component's service account with exactly the rights that every installation gives it."""

from __future__ import annotations

from typing import Any

import yaml

from tests.kubernetes.control_plane import ROOT

RULES = ROOT / "helm" / "rules"
NAMESPACE = "koordinator-system"
_GROUP = "rbac.authorization.k8s.io"

JsonObject = dict[str, Any]


def documents(component: str, account: str) -> list[JsonObject]:
    """ServiceAccount, roles and bindings; `component` names the file of rules."""
    rules = yaml.safe_load((RULES / f"{component}.yaml").read_text())
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    found = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": NAMESPACE}},
        *_granting("ClusterRole", {"name": f"koord-{component}"}, rules["clusterRules"], subject),
    ]
    if rules["namespaceRules"]:
        metadata = {"name": f"koord-{component}", "namespace": NAMESPACE}
        found += _granting("Role", metadata, rules["namespaceRules"], subject)
    return found


def _granting(
    kind: str, metadata: JsonObject, rules: list[JsonObject], subject: JsonObject
) -> tuple[JsonObject, JsonObject]:
    head = {"apiVersion": f"{_GROUP}/v1", "metadata": metadata}
    reference = {"apiGroup": _GROUP, "kind": kind, "name": metadata["name"]}
    return (
        {**head, "kind": kind, "rules": rules},
        {**head, "kind": f"{kind}Binding", "roleRef": reference, "subjects": [subject]},
    )
