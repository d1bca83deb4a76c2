"""Webhook configurations as values, and which of them a request concerns. Pure.

`hooks_of` turns stored Mutating- or ValidatingWebhookConfigurations into an ordered list of Hooks;
`concerns` says whether one must be called. matchPolicy Equivalent is treated as Exact: each of the
sandbox's kinds is served in one version.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from koord.api.selectors import LabelSelector, Selector, compile_selector
from sandbox.admission.request import AdmissionRequest, JsonObject
from sandbox.apiserver.kinds import Kind

GROUP: Final = "admissionregistration.k8s.io"
MUTATING: Final = "mutatingwebhookconfigurations"
VALIDATING: Final = "validatingwebhookconfigurations"
DEFAULT_TIMEOUT_S: Final = 10
SAFE_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")


@dataclass(frozen=True)
class Rule:
    """One entry of a webhook's `rules`."""

    operations: tuple[str, ...]
    api_groups: tuple[str, ...]
    api_versions: tuple[str, ...]
    resources: tuple[str, ...]
    scope: str

    def covers(self, request: AdmissionRequest) -> bool:
        """Whether operation, group, version, resource with subresource, and scope all match."""
        kind = request.kind
        return (
            _listed(request.operation, self.operations)
            and _listed(kind.group, self.api_groups)
            and _listed(kind.version, self.api_versions)
            and any(_names_resource(entry, kind.plural, request.subresource) for entry in self.resources)
            and self.scope in ("*", _scope(kind))
        )


@dataclass(frozen=True)
class ServiceReference:
    """clientConfig.service."""

    namespace: str
    name: str
    path: str
    port: int

    @property
    def host(self) -> str:
        """The name that the serving certificate must carry."""
        return f"{self.name}.{self.namespace}.svc"


@dataclass(frozen=True)
class Hook:
    """One webhook of one configuration. Exactly one of `url` and `service` is set."""

    configuration: str
    name: str
    url: str
    service: ServiceReference | None
    ca_bundle: str
    rules: tuple[Rule, ...]
    namespace_selector: Selector
    object_selector: Selector
    fails_open: bool
    timeout_s: int
    side_effects: str
    review_versions: tuple[str, ...]
    reinvoked: bool

    @property
    def identity(self) -> tuple[str, str]:
        """What tells this hook from all others."""
        return self.configuration, self.name


def hooks_of(configurations: Iterable[JsonObject]) -> list[Hook]:
    """Hooks in the order they are called: configurations by name, then as listed in each."""
    ordered = sorted(configurations, key=lambda configuration: str(configuration["metadata"]["name"]))
    return [
        _hook(configuration["metadata"]["name"], webhook)
        for configuration in ordered
        for webhook in configuration.get("webhooks") or ()
    ]


def concerns(hook: Hook, request: AdmissionRequest, namespace: JsonObject | None) -> bool:
    """Whether the hook must be called. `namespace` is the Namespace that the object is in, if any.

    Requests for webhook configurations concern no hook, lest a broken hook lock its own repair out.
    """
    if request.kind.group == GROUP and request.kind.plural in (MUTATING, VALIDATING):
        return False
    return (
        any(rule.covers(request) for rule in hook.rules)
        and _namespace_matches(hook, request, namespace)
        and _object_matches(hook, request)
    )


def _hook(configuration: str, webhook: JsonObject) -> Hook:
    client = webhook.get("clientConfig") or {}
    service = client.get("service")
    return Hook(
        configuration=configuration,
        name=webhook["name"],
        url=client.get("url") or "",
        service=_service(service) if service else None,
        ca_bundle=client.get("caBundle") or "",
        rules=tuple(_rule(rule) for rule in webhook.get("rules") or ()),
        namespace_selector=_selector(webhook.get("namespaceSelector")),
        object_selector=_selector(webhook.get("objectSelector")),
        fails_open=webhook.get("failurePolicy", "Fail") == "Ignore",
        timeout_s=int(webhook.get("timeoutSeconds") or DEFAULT_TIMEOUT_S),
        side_effects=webhook.get("sideEffects") or "Unknown",
        review_versions=tuple(webhook.get("admissionReviewVersions") or ()),
        reinvoked=webhook.get("reinvocationPolicy", "Never") == "IfNeeded",
    )


def _service(service: JsonObject) -> ServiceReference:
    path = service.get("path") or "/"
    path = path if path.startswith("/") else f"/{path}"
    return ServiceReference(service["namespace"], service["name"], path, int(service.get("port") or 443))


def _rule(rule: JsonObject) -> Rule:
    return Rule(
        operations=tuple(rule.get("operations") or ()),
        api_groups=tuple(rule.get("apiGroups") or ()),
        api_versions=tuple(rule.get("apiVersions") or ()),
        resources=tuple(rule.get("resources") or ()),
        scope=rule.get("scope") or "*",
    )


def _selector(selector: JsonObject | None) -> Selector:
    return compile_selector(msgspec.convert(selector or {}, LabelSelector))


def _listed(value: str, entries: tuple[str, ...]) -> bool:
    return "*" in entries or value in entries


def _names_resource(entry: str, plural: str, subresource: str) -> bool:
    resource, _, sub = entry.partition("/")
    return resource in ("*", plural) and sub in ("*", subresource)


def _scope(kind: Kind) -> str:
    return "Namespaced" if kind.namespaced else "Cluster"


def _namespace_matches(hook: Hook, request: AdmissionRequest, namespace: JsonObject | None) -> bool:
    kind = request.kind
    if (kind.group, kind.plural) == ("", "namespaces"):
        subject = request.object if request.object is not None else request.old_object
        return hook.namespace_selector.matches(_labels(subject))
    if not kind.namespaced:
        return True
    return hook.namespace_selector.matches(_labels(namespace))


def _object_matches(hook: Hook, request: AdmissionRequest) -> bool:
    subjects = [obj for obj in (request.object, request.old_object) if obj is not None]
    if not subjects:
        return hook.object_selector.matches({})
    return any(hook.object_selector.matches(_labels(obj)) for obj in subjects)


def _labels(obj: JsonObject | None) -> Mapping[str, str]:
    labels: Mapping[str, str] = ((obj or {}).get("metadata") or {}).get("labels") or {}
    return labels
