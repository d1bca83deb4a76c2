"""Who may lead: one holder at a time, by a coordination.k8s.io/v1 Lease.

No clock but our own is trusted. A candidate waits until the lease has not changed for
its whole duration *as seen from here*; a holder counts from before it sent its last
successful renewal. So the holder always believes to have less time than others give
it, and stops leading before anybody else may begin.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeGuard

from koord.api.objects import JsonObject
from koord.api.timestamps import format_rfc3339_micro
from koord.kube.client import Client
from koord.kube.clock import local_time_s
from koord.kube.codec import Undecodable
from koord.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from koord.kube.metrics import LEADING
from koord.kube.resources import LEASES

logger = logging.getLogger("koord.kube.lease")

_JITTER: Final = random.Random()

Lead = Callable[[], Awaitable[None]]

RELEASE_TIMEOUT_S: Final = 3.0
"""For giving the lease back at the end; without it others wait for its expiry."""


class StillLeading(Exception):  # noqa: N818 - named by what it says
    """The lease is lost and the leading coroutine does not stop: the process must end."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What a Lease says. `holder` "" means that it was given back."""

    holder: str
    duration_s: float
    renew_time: str
    transitions: int


@dataclass(frozen=True, slots=True)
class Observation:
    """A record and the local time since which it has stood unchanged."""

    record: LeaseRecord
    since_s: float

    def may_be_taken(self, identity: str, now_s: float) -> bool:
        """Whether `identity` may hold the lease now: it is free, its own or has run out."""
        if self.record.holder in ("", identity):
            return True
        return now_s >= self.since_s + self.record.duration_s


def observe(before: Observation | None, record: LeaseRecord, now_s: float) -> Observation:
    """Note a record read at `now_s`; only a record that differs restarts the wait."""
    if before is not None and before.record == record:
        return before
    return Observation(record, now_s)


def read_record(lease: JsonObject, default_duration_s: float) -> LeaseRecord:
    """The record in a Lease; absent or malformed fields count as never set."""
    spec: dict[str, Any] = lease.get("spec") or {}
    duration = spec.get("leaseDurationSeconds")
    transitions = spec.get("leaseTransitions")
    return LeaseRecord(
        holder=str(spec.get("holderIdentity") or ""),
        duration_s=float(duration) if _is_int32(duration) and duration > 0 else default_duration_s,
        renew_time=str(spec.get("renewTime") or ""),
        transitions=transitions if _is_int32(transitions) else 0,
    )


def _is_int32(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and abs(value) < 2**31


def claim(lease: JsonObject, identity: str, duration_s: int, epoch_s: float) -> JsonObject:
    """The lease as `identity` takes or renews it; other fields are kept."""
    claimed = copy.deepcopy(lease)
    spec: dict[str, Any] = claimed.get("spec") or {}
    claimed["spec"] = spec
    now = format_rfc3339_micro(epoch_s)
    if spec.get("holderIdentity") != identity:
        spec["leaseTransitions"] = read_record(lease, 0).transitions + (1 if "renewTime" in spec else 0)
        spec["acquireTime"] = now
    spec |= {"holderIdentity": identity, "leaseDurationSeconds": duration_s, "renewTime": now}
    return claimed


def give_back(lease: JsonObject, epoch_s: float) -> JsonObject:
    """The lease as its holder leaves it: free at once."""
    freed = copy.deepcopy(lease)
    freed["spec"] |= {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "renewTime": format_rfc3339_micro(epoch_s),
    }
    return freed


def default_identity() -> str:
    """A name for this process that no other has, a restart of it included."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


@dataclass(slots=True)
class _Holding:
    """A lease that is held: the object as last written, and the time of that, sent time."""

    lease: JsonObject
    renewed_s: float


class LeaderElection:
    """Runs a coroutine on one process at a time."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        lease_duration_s: int = 15,
        renew_deadline_s: float = 10.0,
        retry_period_s: float = 2.0,
    ) -> None:
        """`lease_duration_s`: after so long without renewal others may take over.

        `renew_deadline_s`: after so long without a successful renewal leading stops
        here; the difference is the time it has for stopping. `retry_period_s`: between
        renewals and between attempts to acquire.
        """
        if not lease_duration_s > renew_deadline_s > retry_period_s > 0:
            raise ValueError(
                f"lease {namespace}/{name}: lease duration ({lease_duration_s} s) > renew deadline "
                f"({renew_deadline_s} s) > retry period ({retry_period_s} s) > 0 must hold"
            )
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._lease_duration_s = lease_duration_s
        self._renew_deadline_s = renew_deadline_s
        self._retry_period_s = retry_period_s
        self._observation: Observation | None = None
        self._holding: _Holding | None = None
        self._gauge = LEADING.labels(f"{namespace}/{name}")
        self._gauge.set(0)

    @property
    def is_leading(self) -> bool:
        """Whether this process may act as the leader at this very moment.

        True only within the renew deadline, so a write guarded by it is safe even
        when the event loop was held up and leading could not be cancelled yet.
        """
        return self._holding is not None and local_time_s() < self._holding.renewed_s + self._renew_deadline_s

    @property
    def holder(self) -> str:
        """Who held the lease when it was last looked at; "" for nobody or unknown."""
        return self._observation.record.holder if self._observation else ""

    async def run(self, lead: Lead) -> None:
        """Wait for the lease, run `lead()` while holding it; after a loss begin again.

        Returns when `lead()` returns, raises what it raises. Raises StillLeading when
        `lead()` does not end in time after the lease was lost. The lease is given back
        at the end, unless `lead()` could not be stopped.
        """
        while True:
            await self._acquire()
            logger.info("leading %s/%s as %s", self._namespace, self._name, self._identity)
            self._gauge.set(1)
            try:
                ended = await self._lead(lead)
            finally:
                self._gauge.set(0)
                self._holding = None
            if ended:
                return
            logger.warning("lost the lease %s/%s to %r", self._namespace, self._name, self.holder)

    async def _acquire(self) -> None:
        while True:
            self._holding = await self._try(self._attempt(), self._retry_period_s * 2)
            if self._holding is not None:
                return
            await asyncio.sleep(self._retry_period_s * _JITTER.uniform(1.0, 1.2))

    async def _lead(self, lead: Lead) -> bool:
        """Lead until it ends (True) or the lease is lost (False)."""
        leading = asyncio.ensure_future(lead())
        keeping = asyncio.ensure_future(self._keep())
        try:
            await asyncio.wait({leading, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if leading.done():
                leading.result()
                return True
            assert self._holding is not None
            left_s = self._holding.renewed_s + self._lease_duration_s - local_time_s()
            await self._stop(leading, left_s)
            return False
        except asyncio.CancelledError:
            # The lease is still being renewed while an orderly stop takes its time.
            await self._stop(leading, self._lease_duration_s)
            raise
        finally:
            lost = keeping.done()
            keeping.cancel()
            await asyncio.wait({keeping})
            if not keeping.cancelled() and (error := keeping.exception()) is not None:
                logger.error("renewing the lease failed unexpectedly", exc_info=error)
            if leading.done() and not lost:
                await self._release()

    async def _stop(self, leading: asyncio.Future[None], timeout_s: float) -> None:
        leading.cancel()
        await asyncio.wait({leading}, timeout=max(0.0, timeout_s))
        if not leading.done():
            raise StillLeading(f"{self._namespace}/{self._name}: the leading task ignores its cancellation")
        if not leading.cancelled() and (error := leading.exception()) is not None:
            logger.error("leading ended with an error while it was stopped", exc_info=error)

    async def _keep(self) -> None:
        """Renew; returns when the lease is lost or the renew deadline has passed."""
        while True:
            await asyncio.sleep(self._retry_period_s)
            if self._holding is None or not self.is_leading:
                return
            left_s = self._holding.renewed_s + self._renew_deadline_s - local_time_s()
            renewed = await self._try(self._renew(self._holding), left_s)
            if renewed is not None:
                self._holding = renewed
            elif self.holder != self._identity:
                return

    async def _try(self, attempt: Awaitable[_Holding | None], timeout_s: float) -> _Holding | None:
        """One attempt, bounded in time; None when it failed or was refused."""
        try:
            async with asyncio.timeout(timeout_s):
                return await attempt
        except (ApiError, Undecodable, TimeoutError) as error:
            logger.warning("lease %s/%s: %s", self._namespace, self._name, error or f"no answer in {timeout_s:.1f} s")
        return None

    async def _renew(self, holding: _Holding) -> _Holding | None:
        """Renew from what was written last; look again only when somebody else wrote."""
        try:
            return await self._write(holding.lease)
        except (Conflict, NotFound):
            return await self._attempt(only_own=True)

    async def _attempt(self, *, only_own: bool = False) -> _Holding | None:
        """Read the lease and take it if that is allowed; None when it is not.

        `only_own`: while leading, a lease that has another holder is lost, however old.
        """
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            return await self._create()
        record = read_record(lease, self._lease_duration_s)
        now_s = local_time_s()
        self._observation = observe(self._observation, record, now_s)
        allowed = (
            record.holder == self._identity if only_own else self._observation.may_be_taken(self._identity, now_s)
        )
        if not allowed:
            return None
        try:
            return await self._write(lease)
        except (Conflict, NotFound):
            return None

    async def _create(self) -> _Holding | None:
        lease = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
        }
        sent_s = local_time_s()
        body = claim(lease, self._identity, self._lease_duration_s, time.time())
        try:
            created = await self._client.create(LEASES, body)
        except AlreadyExists:
            return None
        return self._held(created, sent_s)

    async def _write(self, lease: JsonObject) -> _Holding:
        sent_s = local_time_s()
        body = claim(lease, self._identity, self._lease_duration_s, time.time())
        written = await self._client.update(LEASES, self._name, body, namespace=self._namespace)
        return self._held(written, sent_s)

    def _held(self, lease: JsonObject, sent_s: float) -> _Holding:
        self._observation = Observation(read_record(lease, self._lease_duration_s), sent_s)
        return _Holding(lease, sent_s)

    async def _release(self) -> None:
        if self._holding is None:
            return
        body = give_back(self._holding.lease, time.time())
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT_S):
                await self._client.update(LEASES, self._name, body, namespace=self._namespace)
        except (ApiError, Undecodable, TimeoutError) as error:
            logger.warning("lease %s/%s could not be given back: %s", self._namespace, self._name, error)
        else:
            assert self._observation is not None
            self._observation = replace(self._observation, record=replace(self._observation.record, holder=""))
