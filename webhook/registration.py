"""What the API server is told to call: our entry in a MutatingWebhookConfiguration. Pure.

A new object is created whole, with an entry that cannot block the cluster: it fails open, is short, and never
sees the namespaces that it needs itself. In an object that exists only `clientConfig` of our entry is owned;
failure policy, selectors and everything else stay as the chart or a person wrote them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from certs.bundle import merge_bundle
from koord.api import names
from koord.api.objects import JsonObject
from koord.kube.resources import MUTATING_WEBHOOK_CONFIGURATIONS

CONFIGURATION_NAME = "koordinator-mutating-webhook-configuration"
POD_WEBHOOK = "mpod-create.koordinator.sh"
POD_PATH = "/mutate-pod"
TIMEOUT_S = 5


@dataclass(frozen=True, slots=True)
class Target:
    """Where the API server reaches the webhook: a base `url` when it is outside the cluster, else a Service."""

    namespace: str
    service: str = ""
    service_port: int = 443
    url: str = ""

    def client_config(self, path: str) -> JsonObject:
        """clientConfig without its caBundle."""
        if self.url:
            return {"url": self.url.rstrip("/") + path}
        service = {"namespace": self.namespace, "name": self.service, "path": path, "port": self.service_port}
        return {"service": service}


def build_entry(target: Target, bundle: str) -> JsonObject:
    """Our entry as it is created."""
    excluded = sorted({names.NAMESPACE_KUBE_SYSTEM, names.CONFIG_NAMESPACE, target.namespace})
    not_ours = {"key": names.LABEL_NAMESPACE_NAME, "operator": "NotIn", "values": excluded}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    return {
        "name": POD_WEBHOOK,
        "admissionReviewVersions": ["v1", "v1beta1"],
        "clientConfig": {**target.client_config(POD_PATH), "caBundle": bundle},
        "rules": [{**rule, "scope": "Namespaced"}],
        "namespaceSelector": {"matchExpressions": [not_ours]},
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "IfNeeded",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_S,
    }


def build_configuration(target: Target, authority_pem: bytes, now: datetime) -> JsonObject:
    """The whole object, for a cluster that has none."""
    return {
        "apiVersion": MUTATING_WEBHOOK_CONFIGURATIONS.api_version,
        "kind": MUTATING_WEBHOOK_CONFIGURATIONS.kind,
        "metadata": {"name": CONFIGURATION_NAME, "labels": {"app.kubernetes.io/name": "koord"}},
        "webhooks": [build_entry(target, merge_bundle("", authority_pem, now))],
    }


def registration_operations(
    configuration: JsonObject, target: Target, authority_pem: bytes, now: datetime
) -> list[JsonObject]:
    """The JSON patch that makes an existing object call and trust us; empty when it does.

    Authorities that are trusted already stay trusted until they expire.
    """
    webhooks = configuration.get("webhooks") or []
    for place, webhook in enumerate(webhooks):
        if webhook.get("name") == POD_WEBHOOK:
            current = webhook.get("clientConfig") or {}
            bundle = merge_bundle(current.get("caBundle") or "", authority_pem, now)
            wanted = {**target.client_config(POD_PATH), "caBundle": bundle}
            if _without_defaults(current) == _without_defaults(wanted):
                return []
            return [
                {"op": "test", "path": f"/webhooks/{place}/name", "value": POD_WEBHOOK},
                {"op": "add", "path": f"/webhooks/{place}/clientConfig", "value": wanted},
            ]
    entry = build_entry(target, merge_bundle("", authority_pem, now))
    if not webhooks:
        return [{"op": "add", "path": "/webhooks", "value": [entry]}]
    return [{"op": "add", "path": "/webhooks/-", "value": entry}]


def _without_defaults(client_config: JsonObject) -> JsonObject:
    """The API server adds port 443 to a service that names none."""
    service = client_config.get("service")
    if not service:
        return client_config
    return {**client_config, "service": {"port": 443, **service}}
