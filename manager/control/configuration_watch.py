"""Following the ConfigMap: every change becomes the configuration in force, faults are told.

A second ConfigMap holds the last good text of each key. It is read for a key that is broken before this process has
seen a good value of it, and when the first one is missing altogether.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from koord.api import names
from koord.api.objects import ConfigMap
from koord.kube.changes import Change
from koord.kube.client import Client
from koord.kube.resources import CONFIGMAPS
from koord.kube.store import Store
from koord.slo_config.loading import KEYS, Configuration, load
from manager import metrics
from manager.control.announcing import Announcer

logger = logging.getLogger("koord.manager.config")

_NOTHING: Final[Mapping[str, str]] = {}


class ConfigurationWatch:
    """The configuration in force. `on_change()` is called after each change of it."""

    def __init__(
        self, client: Client, namespace: str, name: str, announcer: Announcer, on_change: Callable[[], None]
    ) -> None:
        self._namespace = namespace
        self._name = name
        self.stored_name = f"{name}{names.LAST_GOOD_SUFFIX}"
        self._object_ref = f"ConfigMap/{namespace}/{name}"
        self.store = Store(client, CONFIGMAPS, namespace=namespace, field_selector=f"metadata.name={name}")
        self.stored = Store(
            client, CONFIGMAPS, namespace=namespace, field_selector=f"metadata.name={self.stored_name}"
        )
        self._announcer = announcer
        self._on_change = on_change
        self._loaded: Configuration | None = None
        self._data: Mapping[str, str] | None = None
        self._leading = False
        self._told: frozenset[tuple[str, str]] = frozenset()
        self.store.subscribe(self._changed)
        self.stored.subscribe(self._stored_changed)

    def current(self) -> Configuration:
        """What is in force. Without a ConfigMap: the last good texts if there are any, else the built-in defaults."""
        if self._loaded is None:
            self._loaded = load(None, self._stored_texts(), f"{self._object_ref} (stored)")
            if self._loaded.texts:
                logger.warning("%s is missing; the last good configuration is in force", self._object_ref)
        return self._loaded

    @contextmanager
    def leading(self) -> Iterator[None]:
        """While this is entered, Events tell of what is wrong: once, by the leader alone."""
        self._leading = True
        self._told = frozenset()
        self._announce()
        try:
            yield
        finally:
            self._leading = False

    @property
    def is_missing(self) -> bool:
        """Whether there is no ConfigMap now."""
        return self.store.get(self._name, self._namespace) is None

    @property
    def stored_config_map(self) -> ConfigMap | None:
        """The ConfigMap of the last good texts."""
        return self.stored.get(self.stored_name, self._namespace)

    def _stored_texts(self) -> Mapping[str, str]:
        found = self.stored_config_map
        return _NOTHING if found is None else {key: found.data[key] for key in KEYS if key in found.data}

    def _changed(self, change: Change[ConfigMap]) -> None:
        metrics.CONFIG_MISSING.set(change.new is None)
        if change.new is None:
            logger.warning("%s is deleted; the last configuration stays in force until a new one", self._object_ref)
            if self._leading:
                self._announcer.config_deleted(self._namespace, self._name)
            return
        if change.new.data == self._data:
            return
        self._data = change.new.data
        self._take(change.new)

    def _stored_changed(self, change: Change[ConfigMap]) -> None:
        if change.new is None:
            return
        config_map = self.store.get(self._name, self._namespace)
        if config_map is not None and self._loaded is not None and self._loaded.faults:
            self._take(config_map)

    def _take(self, config_map: ConfigMap) -> None:
        before = self._loaded
        self._loaded = load(before, config_map.data, self._object_ref, self._stored_texts())
        self._tell(self._loaded)
        self._announce()
        self._on_change()

    def _announce(self) -> None:
        config_map = self.store.get(self._name, self._namespace)
        if not self._leading or config_map is None:
            return
        faults = self.current().faults
        for fault in faults:
            if (fault.key, fault.message) not in self._told:
                self._announcer.config_fault(config_map, fault)
        self._told = frozenset((fault.key, fault.message) for fault in faults)

    def _tell(self, loaded: Configuration) -> None:
        broken = {fault.key for fault in loaded.faults}
        for key in KEYS:
            metrics.CONFIG_FAULT.labels(key).set(key in broken)
        for fault in loaded.faults:
            logger.error("%s; %s stays in force", fault.message, fault.kept)
        for warning in loaded.warnings:
            logger.warning("%s: %s", self._object_ref, warning)
        logger.info("configuration taken in", extra={"broken_keys": sorted(broken)})
