"""What the API server is told to call: our entries in webhook configurations. Pure.

A new object is created whole, with entries that cannot block the cluster: they fail open, are short, and those for
pods never see the namespaces that they need themselves. In an object that exists only `clientConfig` of our entries
is owned; failure policy, selectors and everything else stay as the chart or a person wrote them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from certs.bundle import merge_bundle
from koord.api import names
from koord.api.objects import JsonObject
from koord.kube.resources import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS, Resource
from webhook.context import FeatureGates

MUTATING_NAME: Final = "koordinator-mutating-webhook-configuration"
VALIDATING_NAME: Final = "koordinator-validating-webhook-configuration"
POD_WEBHOOK: Final = "mpod-create.koordinator.sh"
POD_PATH: Final = "/mutate-pod"
VALIDATE_POD_PATH: Final = "/validate-pod"
PROFILE_PATH: Final = "/validate-profile"
CONFIG_PATH: Final = "/validate-configmap"
NODE_STATUS_PATH: Final = "/mutate-node-status"
NODE_PATH: Final = "/validate-node"
TIMEOUT_S: Final = 5


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


@dataclass(frozen=True, slots=True)
class Entry:
    """One webhook of ours. `namespaces`: "unprotected" leaves out those the cluster and we need ourselves, any other
    text is the one namespace, "" is all. `again`: call once more after other webhooks changed the object."""

    name: str
    path: str
    group: str
    resources: str
    operations: tuple[str, ...]
    namespaces: str = ""
    again: bool = False

    @property
    def version(self) -> str:
        """Of the group's resources."""
        return "v1alpha1" if self.group else "v1"


@dataclass(frozen=True, slots=True)
class Configuration:
    """One webhook configuration object and our entries in it."""

    resource: Resource[Any]
    name: str
    entries: tuple[Entry, ...]


_WRITES = ("CREATE", "UPDATE")
_MUTATE_POD = Entry(POD_WEBHOOK, POD_PATH, "", "pods", ("CREATE",), "unprotected", again=True)
_MUTATE_NODE = Entry("mnode-status.koordinator.sh", NODE_STATUS_PATH, "", "nodes/status", ("UPDATE",))
_VALIDATE_POD = Entry("vpod.koordinator.sh", VALIDATE_POD_PATH, "", "pods", _WRITES, "unprotected")
_VALIDATE_PROFILE = Entry(
    "vprofile.koordinator.sh", PROFILE_PATH, names.GROUP_CONFIG, "clustercolocationprofiles", _WRITES
)
_VALIDATE_CONFIG = Entry("vconfigmap.koordinator.sh", CONFIG_PATH, "", "configmaps", _WRITES, names.CONFIG_NAMESPACE)
_VALIDATE_NODE = Entry("vnode.koordinator.sh", NODE_PATH, "", "nodes", ("UPDATE",))


def configurations(gates: FeatureGates) -> tuple[Configuration, ...]:
    """What is registered with these gates."""
    mutating = (_MUTATE_POD, *((_MUTATE_NODE,) if gates.node_mutating else ()))
    validating = (
        *((_VALIDATE_POD,) if gates.pod_validating else ()),
        _VALIDATE_PROFILE,
        *((_VALIDATE_CONFIG,) if gates.config_validating else ()),
        *((_VALIDATE_NODE,) if gates.node_validating else ()),
    )
    return (
        Configuration(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_NAME, mutating),
        Configuration(VALIDATING_WEBHOOK_CONFIGURATIONS, VALIDATING_NAME, validating),
    )


def build_entry(entry: Entry, target: Target, bundle: str) -> JsonObject:
    """An entry as it is created."""
    scope = "Namespaced" if entry.namespaces else "Cluster"
    rule = {"apiGroups": [entry.group], "apiVersions": [entry.version], "resources": [entry.resources]}
    built: JsonObject = {
        "name": entry.name,
        "admissionReviewVersions": ["v1", "v1beta1"],
        "clientConfig": {**target.client_config(entry.path), "caBundle": bundle},
        "rules": [{**rule, "operations": list(entry.operations), "scope": scope}],
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_S,
    }
    if entry.namespaces:
        excluded = sorted({names.NAMESPACE_KUBE_SYSTEM, names.CONFIG_NAMESPACE, target.namespace})
        operator, values = ("NotIn", excluded) if entry.namespaces == "unprotected" else ("In", [entry.namespaces])
        expression = {"key": names.LABEL_NAMESPACE_NAME, "operator": operator, "values": values}
        built["namespaceSelector"] = {"matchExpressions": [expression]}
    if entry.again:
        built["reinvocationPolicy"] = "IfNeeded"
    return built


def build_configuration(
    configuration: Configuration, target: Target, authority_pem: bytes, now: datetime
) -> JsonObject:
    """The whole object, for a cluster that has none."""
    bundle = merge_bundle("", authority_pem, now)
    return {
        "apiVersion": configuration.resource.api_version,
        "kind": configuration.resource.kind,
        "metadata": {"name": configuration.name, "labels": {"app.kubernetes.io/name": "koord"}},
        "webhooks": [build_entry(entry, target, bundle) for entry in configuration.entries],
    }


def registration_operations(
    found: JsonObject, configuration: Configuration, target: Target, authority_pem: bytes, now: datetime
) -> list[JsonObject]:
    """The JSON patch that makes an existing object call and trust us; empty when it does.

    Authorities that are trusted already stay trusted until they expire.
    """
    webhooks = found.get("webhooks") or []
    places = {webhook.get("name"): place for place, webhook in enumerate(webhooks)}
    operations: list[JsonObject] = []
    missing = []
    for entry in configuration.entries:
        if entry.name not in places:
            missing.append(build_entry(entry, target, merge_bundle("", authority_pem, now)))
            continue
        place = places[entry.name]
        current = webhooks[place].get("clientConfig") or {}
        bundle = merge_bundle(current.get("caBundle") or "", authority_pem, now)
        wanted = {**target.client_config(entry.path), "caBundle": bundle}
        if _without_defaults(current) != _without_defaults(wanted):
            operations.append({"op": "test", "path": f"/webhooks/{place}/name", "value": entry.name})
            operations.append({"op": "add", "path": f"/webhooks/{place}/clientConfig", "value": wanted})
    if missing and not webhooks:
        return [{"op": "add", "path": "/webhooks", "value": missing}]
    return operations + [{"op": "add", "path": "/webhooks/-", "value": entry} for entry in missing]


def _without_defaults(client_config: JsonObject) -> JsonObject:
    """The API server adds port 443 to a service that names none."""
    service = client_config.get("service")
    if not service:
        return client_config
    return {**client_config, "service": {"port": 443, **service}}
