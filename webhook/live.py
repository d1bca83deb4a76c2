"""The cluster as the webhook sees it: stores that watch, and the Context that decisions are made on.

Profiles are compiled when they change, not when a pod comes. A faulty one is reported once for each version of
it, by log, Event and metric.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from koord.api.errors import InvalidInput
from koord.api.names import CONFIG_NAMESPACE
from koord.api.objects import ConfigMap, Namespace, PriorityClass
from koord.api.profiles import ClusterColocationProfile
from koord.kube.changes import Change
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.kube.events import EventRecorder, reference
from koord.kube.resources import CLUSTER_COLOCATION_PROFILES, CONFIGMAPS, NAMESPACES, PRIORITY_CLASSES, Resource
from koord.kube.store import Store
from webhook import metrics
from webhook.context import ALWAYS_EXCLUDED, Context, FeatureGates
from webhook.profiles import ProfileSet
from webhook.quota_tree import ElasticQuota, ElasticQuotaProfile, compile_quota_trees
from webhook.validation import required_labels
from webhook.validation.pods import PodRules
from webhook.validation.quotas import Quotas

logger = logging.getLogger("koord.webhook.profiles")

NAMESPACE_WAIT_S = 0.5
ELASTIC_QUOTAS = Resource("scheduling.sigs.k8s.io", "v1alpha1", "elasticquotas", "ElasticQuota", True, ElasticQuota)
ELASTIC_QUOTA_PROFILES = Resource(
    "quota.koordinator.sh", "v1alpha1", "elasticquotaprofiles", "ElasticQuotaProfile", True, ElasticQuotaProfile
)


class Live:
    """Watches and keeps `context` true. Use from one event loop only."""

    def __init__(self, client: Client, recorder: EventRecorder, namespace: str, gates: FeatureGates) -> None:
        self._client = client
        self._recorder = recorder
        self._profiles = Store(client, CLUSTER_COLOCATION_PROFILES)
        self._namespaces = Store(client, NAMESPACES)
        self._priority_classes = Store(client, PRIORITY_CLASSES)
        self._namespace_labels: dict[str, dict[str, str]] = {}
        self._classes: dict[str, PriorityClass] = {}
        self._stale_profiles = self._stale_trees = self._stale_quotas = False
        self._reported: dict[str, str] = {}
        self.context = Context(
            namespaces=self._namespace_labels,
            priority_classes=self._classes,
            gates=gates,
            excluded_namespaces=ALWAYS_EXCLUDED | {namespace},
        )
        self.stores: list[Store[Any]] = [self._profiles, self._namespaces, self._priority_classes]
        self._profiles.subscribe(self._on_profile)
        self._namespaces.subscribe(self._on_namespace)
        self._priority_classes.subscribe(self._on_priority_class)
        self.pod_rules = PodRules(gates)
        self.optional_stores: list[Store[Any]] = []
        """What may be missing in a cluster; nothing waits for these."""
        self._quotas = Store(client, ELASTIC_QUOTAS)
        self._quota_profiles = Store(client, ELASTIC_QUOTA_PROFILES)
        if gates.multi_quota_tree:
            self.stores += [self._quotas, self._quota_profiles]
            self._quotas.subscribe(self._on_tree)
            self._quota_profiles.subscribe(self._on_tree)
        elif gates.pod_validating:
            self.optional_stores.append(self._quotas)
        if gates.pod_validating:
            self._quotas.subscribe(self._on_quota)
        if gates.enhanced_validator:
            selector = f"metadata.name={required_labels.CONFIG_NAME}"
            rules = Store(client, CONFIGMAPS, namespace=CONFIG_NAMESPACE, field_selector=selector)
            rules.subscribe(self._on_required_labels)
            self.optional_stores.append(rules)

    def check_synced(self) -> bool | str:
        """Ready when every store has seen its collection once."""
        missing = [str(store.resource) for store in self.stores if not store.statistics.synced]
        return f"not synced: {', '.join(missing)}" if missing else True

    async def learn_namespace(self, name: str) -> None:
        """Read a namespace that the watch has not brought yet, so that its first pods match their profiles."""
        if not name or name in self._namespace_labels:
            return
        try:
            async with asyncio.timeout(NAMESPACE_WAIT_S):
                found = await self._client.get(NAMESPACES, name)
        except (ApiError, TimeoutError) as error:
            metrics.FAILURES.labels("namespace").inc()
            logger.warning("namespace is not known", extra={"namespace": name, "error": str(error)})
            return
        self._namespace_labels.setdefault(name, found.metadata.labels)

    def _on_namespace(self, change: Change[Namespace]) -> None:
        name = change.object.metadata.name
        if change.new is None:
            self._namespace_labels.pop(name, None)
        else:
            self._namespace_labels[name] = change.new.metadata.labels
        self.context.forget_namespace(name)

    def _on_priority_class(self, change: Change[PriorityClass]) -> None:
        name = change.object.metadata.name
        if change.new is None:
            self._classes.pop(name, None)
        else:
            self._classes[name] = change.new

    def _on_profile(self, _change: Change[ClusterColocationProfile]) -> None:
        # A listing brings many at once; compile after the last of them.
        if not self._stale_profiles:
            self._stale_profiles = True
            asyncio.get_running_loop().call_soon(self._compile_profiles)

    def _compile_profiles(self) -> None:
        self._stale_profiles = False
        known = self._profiles.values()
        profiles = ProfileSet(known)
        self.context.replace_profiles(profiles)
        faulty = sum(1 for profile in profiles.profiles if profile.problems)
        metrics.PROFILES.labels("faulty").set(faulty)
        metrics.PROFILES.labels("sound").set(len(known) - faulty)
        self._report(known, profiles)

    def _report(self, known: Iterable[ClusterColocationProfile], profiles: ProfileSet) -> None:
        by_name = {profile.metadata.name: profile for profile in known}
        self._reported = {name: version for name, version in self._reported.items() if name in by_name}
        for compiled in profiles.profiles:
            source = by_name[compiled.name]
            version = f"{source.metadata.uid}/{source.metadata.resource_version}"
            if not compiled.problems or self._reported.get(compiled.name) == version:
                continue
            self._reported[compiled.name] = version
            effect = "the profile is ignored" if compiled.ignored_because else "pods that match it may be refused"
            for problem in compiled.problems:
                logger.warning("faulty profile", extra={"profile": compiled.name, "problem": str(problem)})
                self._recorder.emit(
                    reference(CLUSTER_COLOCATION_PROFILES, source),
                    "Warning",
                    "InvalidProfile",
                    f"{problem}; {effect}",
                )

    def _on_quota(self, _change: Change[ElasticQuota]) -> None:
        if not self._stale_quotas:
            self._stale_quotas = True
            asyncio.get_running_loop().call_soon(self._index_quotas)

    def _index_quotas(self) -> None:
        self._stale_quotas = False
        self.pod_rules.quotas = Quotas.of(self._quotas.values())

    def _on_required_labels(self, change: Change[ConfigMap]) -> None:
        """New rules, or the last good ones when these do not read."""
        try:
            self.pod_rules.required_labels = required_labels.parse(change.new.data if change.new else None)
        except InvalidInput as error:
            logger.warning("required labels stay as they were", extra={"problem": str(error)})
            self._recorder.emit(reference(CONFIGMAPS, change.object), "Warning", "InvalidRules", str(error))

    def _on_tree(self, _change: Change[Any]) -> None:
        if not self._stale_trees:
            self._stale_trees = True
            asyncio.get_running_loop().call_soon(self._compile_trees)

    def _compile_trees(self) -> None:
        self._stale_trees = False
        self.context.quota_trees = compile_quota_trees(self._quotas.values(), self._quota_profiles.values())
