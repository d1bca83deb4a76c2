"""Following the ConfigMap: every change becomes the configuration in force, faults are told."""

import logging
from collections.abc import Callable, Mapping

from koord.api import names
from koord.api.objects import ConfigMap
from koord.kube.changes import Change
from koord.kube.client import Client
from koord.kube.resources import CONFIGMAPS
from koord.kube.store import Store
from koord.slo_config.loading import Configuration, load
from koord.slo_config.slo import BLOCKS
from manager import metrics
from manager.control.announcing import Announcer

logger = logging.getLogger("koord.koord.slo_config")


class ConfigurationWatch:
    """The configuration in force. `on_change()` is called after each change of it."""

    def __init__(
        self, client: Client, namespace: str, name: str, announcer: Announcer, on_change: Callable[[], None]
    ) -> None:
        self._object_ref = f"ConfigMap/{namespace}/{name}"
        self.store = Store(client, CONFIGMAPS, namespace=namespace, field_selector=f"metadata.name={name}")
        self._announcer = announcer
        self._on_change = on_change
        self._loaded: Configuration | None = None
        self._data: Mapping[str, str] | None = None
        self.store.subscribe(self._changed)

    def current(self) -> Configuration:
        """What is in force; the built-in defaults when the ConfigMap did not exist at the start."""
        if self._loaded is None:
            self._loaded = load(None, {}, self._object_ref)
        return self._loaded

    def _changed(self, change: Change[ConfigMap]) -> None:
        if change.new is None:
            logger.warning("%s is deleted; the last configuration stays in force until a new one", self._object_ref)
            return
        if change.new.data == self._data:
            return
        self._data = change.new.data
        self._loaded = load(self._loaded, change.new.data, self._object_ref)
        self._tell(change.new)
        self._on_change()

    def _tell(self, config_map: ConfigMap) -> None:
        loaded = self.current()
        broken = {fault.key for fault in loaded.faults}
        for key in (names.KEY_COLOCATION, names.KEY_HOST_APPLICATION, *(block.key for block in BLOCKS)):
            metrics.CONFIG_FAULT.labels(key).set(key in broken)
        for fault in loaded.faults:
            logger.error("%s; %s stays in force", fault.message, fault.kept)
            self._announcer.config_fault(config_map, fault)
        for warning in loaded.warnings:
            logger.warning("%s: %s", self._object_ref, warning)
        logger.info("configuration taken in", extra={"broken_keys": sorted(broken)})
