"""`python -m koordlet`: puts the node agent together and runs it."""

import asyncio
import gc
import logging
import sys
import time

from koord.kube.client import Client
from koord.kube.connection import connect
from koord.logs import configure_logging
from koord.process import Process
from koordlet import metrics
from koordlet.agent import Agent
from koordlet.conditions import Conditions
from koordlet.node import KernelNode, open_executor, open_node, restore
from koordlet.observing import Observed
from koordlet.reporting import Reporter
from koordlet.settings import Settings, parse
from koordlet.sysfs.errors import Unsupported
from koordlet.sysfs.executor import Executor
from koordlet.sysfs.files import allow_many_files
from koordlet.sysfs.journal import JournalLocked
from koordlet.sysfs.mounts import find_mounts

logger = logging.getLogger("koord.koordlet")

_LOOK_AGAIN_S = 5.0
_HUNG_AFTER_CYCLES = 15


class Koordlet:
    """One run: waits for kubelet's cgroups, starts the loops, undoes everything at the end."""

    def __init__(self, settings: Settings, process: Process) -> None:
        self._settings = settings
        self._process = process
        self._conditions = Conditions()
        self._executor: Executor | None = None
        self._client: Client | None = None
        self._node: KernelNode | None = None
        self._agent: Agent | None = None
        self._observed: Observed | None = None
        process.on_startup(self.start)
        process.on_shutdown(self.stop)
        process.supervise("node", self.run)
        process.add_readiness("node", self._readiness)
        process.add_liveness("cycle", self._liveness)

    async def start(self) -> None:
        """Undo what a run that was killed has left, and connect."""
        allow_many_files()
        metrics.START_TIME.labels(self._settings.node_name).set(time.time())
        mounts = find_mounts(self._settings.proc_root, self._settings.sys_root)
        self._executor = open_executor(self._settings, mounts)
        left = len(self._executor.journal.entries)
        if left:
            undone = self._executor.restore_all()
            logger.warning(
                "the last run was not stopped in order; its control files were restored",
                extra={"found": left, "restored": len(undone.changed), "pending": undone.pending},
            )
        self._client = await connect(self._settings.kubeconfig, user_agent="koordlet")
        self._observed = Observed(self._client, self._settings.node_name, self._conditions)
        for name, loop in self._observed.loops():
            self._process.supervise(name, loop)

    async def run(self) -> None:
        """Wait for the cgroups, then run the loops for ever."""
        assert self._executor is not None and self._observed is not None and self._client is not None
        node = await self._wait_for_node(self._executor)
        self._node = node
        agent = Agent(self._settings, node, self._observed, self._conditions)
        self._agent = agent
        reporter = Reporter(
            self._client,
            self._settings.node_name,
            node,
            self._observed,
            agent,
            self._conditions,
            self._settings.min_report_interval_s,
        )
        # What start-up made stays; without it in the collector's sight its rare full passes are short.
        gc.collect()
        gc.freeze()
        if self._settings.fast_cycle_s:
            self._process.supervise("fast path", agent.run_fast)
        self._process.supervise("reports", reporter.run)
        await agent.run_cycles()

    async def _wait_for_node(self, executor: Executor) -> KernelNode:
        while True:
            try:
                node = open_node(self._settings, executor.control.mounts, executor)
            except Unsupported as error:
                self._conditions.ill("cgroups", str(error))
                await asyncio.sleep(_LOOK_AGAIN_S)
            else:
                self._conditions.well("cgroups")
                return node

    async def stop(self) -> None:
        """Give every control file its original back."""
        if self._executor is not None:
            undone = self._executor.restore_all()
            extra = {"restored": len(undone.changed), "pending": undone.pending}
            logger.info("control files restored", extra=extra)
            for failure in undone.failed:
                logger.error("not restored: %s", failure.error)
            self._executor.journal.close()
        if self._node is not None:
            self._node.close()
        if self._client is not None:
            await self._client.close()

    def _readiness(self) -> bool | str:
        if self._agent is None or self._observed is None:
            return self._conditions.reason("cgroups") or "starting"
        listed = self._observed.readiness()
        return listed if listed is not True else self._conditions.summary()

    def _liveness(self) -> bool | str:
        if self._agent is None:
            return True
        age = time.monotonic() - self._agent.cycled_at_s
        return True if age < _HUNG_AFTER_CYCLES * self._settings.cycle_s else f"no cycle for {age:.0f} s"


def _restore(settings: Settings) -> int:
    configure_logging("koordlet", settings.log_level)
    try:
        undone = restore(settings)
    except (Unsupported, JournalLocked, OSError) as error:
        logger.error("nothing was restored: %s", error)
        return 1
    for failure in undone.failed:
        logger.error("not restored: %s", failure.error)
    for foreign in undone.foreign:
        extra = {"group": foreign.group, "knob": str(foreign.knob), "found": foreign.found}
        logger.warning("left as somebody else set it", extra=extra)
    logger.info("control files restored", extra={"restored": len(undone.changed), "pending": undone.pending})
    return 1 if undone.pending else 0


def main() -> int:
    """Returns the exit code."""
    settings = parse()
    if settings.restore:
        return _restore(settings)
    process = Process("koordlet", settings.health_port, log_level=settings.log_level)
    Koordlet(settings, process)
    return process.run()


if __name__ == "__main__":
    sys.exit(main())
