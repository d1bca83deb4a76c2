"""Keeping the texts in force in a ConfigMap of our own, so that a restart beside a broken key goes on with them."""

import logging
import time
from functools import partial
from typing import Final

from koord.api.timestamps import format_rfc3339
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists
from koord.kube.resources import CONFIGMAPS
from koord.slo_config.loading import KEYS
from manager import metrics
from manager.control.configuration_watch import ConfigurationWatch
from manager.control.work_queue import NOTHING, Step
from manager.control.write_budget import WriteBudget

logger = logging.getLogger("koord.manager.config")

ANNOTATION_RECORDED_AT: Final = "node.koordinator.sh/recorded-at"


class LastGood:
    """Writes the ConfigMap when what is in force has changed."""

    def __init__(self, client: Client, config: ConfigurationWatch, namespace: str, budget: WriteBudget) -> None:
        self._client = client
        self._config = config
        self._namespace = namespace
        self._budget = budget

    def decide(self, name: str) -> Step:
        """Store the texts in force if they differ from what is stored; `name` is that of the ConfigMap."""
        current = self._config.current()
        if not current.known or self._config.is_missing:
            return NOTHING  # nothing was seen that deserves to be kept
        stored = self._config.stored_config_map
        wanted = dict(current.texts)
        if stored is None:
            return Step(partial(self._create, name, wanted)) if wanted else NOTHING
        changes: dict[str, str | None] = {
            key: wanted.get(key) for key in KEYS if key in current.known and stored.data.get(key) != wanted.get(key)
        }
        if not changes:
            return NOTHING
        return Step(partial(self._patch, name, changes, stored.metadata.resource_version))

    async def _create(self, name: str, texts: dict[str, str]) -> None:
        await self._budget.take()
        body = {
            "apiVersion": CONFIGMAPS.api_version,
            "kind": CONFIGMAPS.kind,
            "metadata": {"name": name, "namespace": self._namespace, "annotations": _stamp()},
            "data": texts,
        }
        try:
            await self._client.create(CONFIGMAPS, body, self._namespace)
        except AlreadyExists:
            return  # the watch will tell
        self._tell("create", name, sorted(texts))

    async def _patch(self, name: str, changes: dict[str, str | None], version: str) -> None:
        await self._budget.take()
        body = {"metadata": {"resourceVersion": version, "annotations": _stamp()}, "data": changes}
        await self._client.patch(CONFIGMAPS, name, body, namespace=self._namespace)
        self._tell("patch", name, sorted(changes))

    def _tell(self, operation: str, name: str, keys: list[str]) -> None:
        metrics.WRITES.labels(CONFIGMAPS.kind, operation).inc()
        logger.info("last good configuration stored in ConfigMap/%s/%s", self._namespace, name, extra={"keys": keys})


def _stamp() -> dict[str, str]:
    return {ANNOTATION_RECORDED_AT: format_rfc3339(time.time())}
