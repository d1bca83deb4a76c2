"""Kubernetes Events about what was done and why, without ever being in the way.

`emit` only takes a note. Equal events become one with a count; a flood about one
object, or more notes than the queue holds, is cut off and counted in a metric.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, TypeVar

from koord.api.objects import JsonObject
from koord.api.timestamps import format_rfc3339
from koord.kube.backoff import Backoff
from koord.kube.client import Client
from koord.kube.codec import Undecodable
from koord.kube.errors import ApiError, Conflict, Forbidden, NotFound, TooManyRequests, Unavailable
from koord.kube.metrics import EVENTS as OUTCOMES
from koord.kube.resources import EVENTS, Resource
from koord.kube.tokens import TokenBucket

logger = logging.getLogger("koord.kube.events")

T = TypeVar("T")
EventType = Literal["Normal", "Warning"]

QUEUE_LIMIT: Final = 1_000
"""Different events that wait to be sent; more are dropped."""

REMEMBERED: Final = 2_000
"""Sent events whose count can still be raised."""

PATCH_INTERVAL_S: Final = 10.0
"""The count of one event is written at most this often."""

OBJECT_BURST: Final = 25
OBJECT_PER_S: Final = 1 / 60
"""What one object may cause: a burst, then one new event a minute."""

SEND_BURST: Final = 50
SEND_PER_S: Final = 10.0
"""What this process may send altogether."""

MESSAGE_LIMIT: Final = 1_024
"""Characters; the API server refuses longer messages."""


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """What an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


def reference(resource: Resource[T], obj: T) -> ObjectReference:
    """The reference to a decoded object."""
    (namespace, name), uid, version = resource.identify(obj)
    return ObjectReference(resource.api_version, resource.kind, name, namespace, uid, version)


class _EventKey(NamedTuple):
    ref: ObjectReference
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class _Waiting:
    count: int
    first_s: float
    last_s: float


@dataclass(slots=True)
class _Sent:
    name: str
    namespace: str
    count: int
    at_s: float
    """Local time of the last write."""


def build_event(
    key: tuple[ObjectReference, str, str, str],
    *,
    name: str,
    count: int,
    first_s: float,
    last_s: float,
    component: str,
    instance: str,
) -> JsonObject:
    """The Event object. Of cluster-wide objects they live in namespace default."""
    ref, event_type, reason, message = key
    involved = {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "name": ref.name,
        "namespace": ref.namespace,
        "uid": ref.uid,
        "resourceVersion": ref.resource_version,
        "fieldPath": ref.field_path,
    }
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": name, "namespace": ref.namespace or "default"},
        "involvedObject": {field: value for field, value in involved.items() if value},
        "type": event_type,
        "reason": reason,
        "message": message,
        "count": count,
        "firstTimestamp": format_rfc3339(first_s),
        "lastTimestamp": format_rfc3339(last_s),
        "source": {"component": component, "host": instance},
        "reportingComponent": component,
        "reportingInstance": instance,
    }


class EventRecorder:
    """Takes notes with `emit`, sends them in `run`. One event loop only."""

    def __init__(self, client: Client, component: str, instance: str) -> None:
        """`component` and `instance` say who reports (`koord-manager`, the pod or node name)."""
        self._client = client
        self._component = component
        self._instance = instance
        self._waiting: OrderedDict[_EventKey, _Waiting] = OrderedDict()
        self._sent: OrderedDict[_EventKey, _Sent] = OrderedDict()
        self._per_object: OrderedDict[ObjectReference, TokenBucket] = OrderedDict()
        self._rate = TokenBucket(SEND_BURST, SEND_PER_S)
        self._backoff = Backoff(first_s=0.5)
        self._wake = asyncio.Event()
        self._numbers = itertools.count(time.time_ns())

    def emit(self, ref: ObjectReference, event_type: EventType, reason: str, message: str) -> None:
        """Note an event. Never blocks, never raises; what is too much is dropped and counted."""
        # The state of the object does not make a repeated event another one.
        about = replace(ref, resource_version="")
        key = _EventKey(about, event_type, reason, message[:MESSAGE_LIMIT])
        now_s = time.time()
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.count += 1
            waiting.last_s = now_s
            OUTCOMES.labels("folded").inc()
            return
        if len(self._waiting) >= QUEUE_LIMIT or not self._admits(key):
            OUTCOMES.labels("dropped").inc()
            return
        self._waiting[key] = _Waiting(1, now_s, now_s)
        self._wake.set()

    async def run(self) -> None:
        """Send what is noted, for ever."""
        while True:
            self._wake.clear()
            delay_s = await self._send_next()
            if delay_s is None:
                await self._wake.wait()
            elif delay_s > 0:
                await asyncio.sleep(delay_s)

    async def flush(self, timeout_s: float = 3.0) -> None:
        """Send what is left, as far as that goes within `timeout_s`. For the shutdown."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._waiting:
                    key, waiting = self._waiting.popitem(last=False)
                    await self._send(key, waiting)
        except (TimeoutError, ApiError) as error:
            logger.warning("%d events were not sent: %s", len(self._waiting), error or "no time left")

    def _admits(self, key: _EventKey) -> bool:
        if key in self._sent:
            return True
        bucket = self._per_object.get(key.ref)
        if bucket is None:
            bucket = self._per_object[key.ref] = TokenBucket(OBJECT_BURST, OBJECT_PER_S)
            if len(self._per_object) > REMEMBERED:
                self._per_object.popitem(last=False)
        return bucket.take(time.monotonic())

    async def _send_next(self) -> float | None:
        """Send one event; returns the seconds until the next may go, None when none waits."""
        now_s = time.monotonic()
        due = {key: self._due_s(key) for key in self._waiting}
        if not due:
            return None
        key = min(due, key=due.__getitem__)
        if due[key] > now_s:
            # A new event must not wait for one that is being held back.
            await _wait_at_most(self._wake, due[key] - now_s)
            return 0.0
        if not self._rate.take(now_s):
            return self._rate.seconds_until_next(now_s)
        waiting = self._waiting.pop(key)
        try:
            await self._send(key, waiting)
        except (Unavailable, TooManyRequests, Conflict) as error:
            self._put_back(key, waiting)
            return self._backoff.next_delay(error.retry_after_s)
        except ApiError as error:
            OUTCOMES.labels("failed").inc()
            level = logging.DEBUG if isinstance(error, Forbidden | NotFound) else logging.WARNING
            logger.log(level, "event %s of %s cannot be sent: %s", key.reason, key.ref.name, error)
        self._backoff.reset()
        return 0.0

    def _due_s(self, key: _EventKey) -> float:
        sent = self._sent.get(key)
        return sent.at_s + PATCH_INTERVAL_S if sent else 0.0

    def _put_back(self, key: _EventKey, waiting: _Waiting) -> None:
        newer = self._waiting.get(key)
        if newer is not None:
            newer.count += waiting.count
            newer.first_s = waiting.first_s
        else:
            self._waiting[key] = waiting
            self._waiting.move_to_end(key, last=False)

    async def _send(self, key: _EventKey, waiting: _Waiting) -> None:
        sent = self._sent.get(key)
        if sent is not None and await self._raise_count(sent, waiting):
            self._sent.move_to_end(key)
        else:
            self._sent[key] = await self._create(key, waiting)
            if len(self._sent) > REMEMBERED:
                self._sent.popitem(last=False)
        OUTCOMES.labels("sent").inc()

    async def _raise_count(self, sent: _Sent, waiting: _Waiting) -> bool:
        count = sent.count + waiting.count
        patch = {"count": count, "lastTimestamp": format_rfc3339(waiting.last_s)}
        try:
            await self._write(self._client.patch(EVENTS, sent.name, patch, namespace=sent.namespace))
        except NotFound:
            # Events expire after an hour or so.
            return False
        sent.count, sent.at_s = count, time.monotonic()
        return True

    async def _create(self, key: _EventKey, waiting: _Waiting) -> _Sent:
        event = build_event(
            key,
            name=f"{key.ref.name[:200]}.{next(self._numbers):x}",
            count=waiting.count,
            first_s=waiting.first_s,
            last_s=waiting.last_s,
            component=self._component,
            instance=self._instance,
        )
        await self._write(self._client.create(EVENTS, event))
        metadata = event["metadata"]
        return _Sent(metadata["name"], metadata["namespace"], waiting.count, time.monotonic())

    async def _write(self, call: Any) -> None:
        try:
            await call
        except Undecodable:
            logger.debug("the answer to an event was no JSON")


async def _wait_at_most(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
