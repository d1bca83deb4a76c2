"""Objects grouped by something they say of themselves (their node, their owner)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from koord.kube.resources import Key

logger = logging.getLogger("koord.kube.index")

T = TypeVar("T")


class Index(Generic[T]):
    """Kept up to date by the store that owns it."""

    def __init__(self, key_fn: Callable[[T], Hashable | None]) -> None:
        self._key_fn = key_fn
        self._groups: dict[Hashable, dict[Key, T]] = {}

    def lookup(self, group: Hashable) -> list[T]:
        """The group's objects, in no order."""
        return list(self._groups.get(group, {}).values())

    def insert(self, key: Key, value: T) -> None:
        """Add an object that was not here."""
        self.replace(key, None, value)

    def replace(self, key: Key, old: T | None, new: T | None) -> None:
        """Follow one change of the object under `key`."""
        before = self._group_of(key, old)
        after = self._group_of(key, new)
        if before is not None and before != after:
            group = self._groups.get(before, {})
            group.pop(key, None)
            if not group:
                self._groups.pop(before, None)
        if after is not None and new is not None:
            self._groups.setdefault(after, {})[key] = new

    def _group_of(self, key: Key, value: T | None) -> Hashable | None:
        if value is None:
            return None
        try:
            group = self._key_fn(value)
            hash(group)
        except Exception:
            logger.exception("%s: left out of an index, whose function failed", key)
            return None
        return group
