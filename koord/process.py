"""One component as one process: logs, health, metrics, signals, and loops that may not die.

A supervised loop that ends, for whatever reason, ends the process with exit code 1 and
the reason in the log, so that the kubelet restarts it: better than a process that looks
alive and does half its work. A signal ends it in order and in bounded time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from koord.health import Check, HealthServer
from koord.logs import configure_logging

logger = logging.getLogger("koord.process")

AsyncFunction = Callable[[], Awaitable[None]]

GRACE_S: Final = 20.0
"""For an orderly stop; kubelets kill after 30 s."""

WATCHDOG_MARGIN_S: Final = 5.0


class Process:
    """Compose a component with this, then `run` it."""

    def __init__(
        self,
        component: str,
        health_port: int,
        *,
        health_address: str | None = None,
        log_level: str = "info",
        grace_s: float = GRACE_S,
        drain_s: float = 0.0,
    ) -> None:
        """`health_port` 0 takes any free port, -1 serves none; `health_address` None is every address.

        `drain_s`: how long to go on serving after a signal, not ready any more, so that
        nobody sends new requests when the loops are stopped.
        """
        self.component = component
        self.failure = ""
        """Why the process ends by itself; "" while it does not."""
        self._log_level = log_level
        self._grace_s = grace_s
        self._drain_s = drain_s
        self._startup: list[AsyncFunction] = []
        self._shutdown: list[AsyncFunction] = []
        self._loops: list[tuple[str, AsyncFunction]] = []
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._stopping = asyncio.Event()
        self._started = False
        self._stuck = False
        self._watchdog: threading.Timer | None = None
        self._health = HealthServer(component, health_address, health_port)
        self._health.add_readiness("process", self._check_phase)

    @property
    def health_port(self) -> int:
        """The port that is served; the one asked for until then."""
        return self._health.port

    @property
    def stopping(self) -> asyncio.Event:
        """Set once the process is to end, by a signal or a failure."""
        return self._stopping

    def on_startup(self, function: AsyncFunction) -> None:
        """Run `function` in order, before any supervised loop; if it raises the process ends with 1."""
        self._startup.append(function)

    def on_shutdown(self, function: AsyncFunction) -> None:
        """Run `function` after all loops were stopped, last registered first."""
        self._shutdown.append(function)

    def supervise(self, name: str, function: AsyncFunction) -> None:
        """Keep `function()` running; its end ends the process with exit code 1.

        At shutdown it is cancelled and may take its part of the grace period to finish.
        May be called while running.
        """
        self._loops.append((name, function))
        if self._started:
            self._start(name, function)

    def add_readiness(self, name: str, check: Check) -> None:
        """Be ready only while `check()` is True; otherwise it is False or says why not."""
        self._health.add_readiness(name, check)

    def add_liveness(self, name: str, check: Check) -> None:
        """Be restarted by the kubelet when `check()` stays False or a reason."""
        self._health.add_liveness(name, check)

    def stop(self, failure: str = "") -> None:
        """Begin to end the process, with exit code 1 when there is a failure to name."""
        if failure and not self.failure:
            self.failure = failure
            logger.error("%s ends: %s", self.component, failure)
        self._stopping.set()

    def run(self) -> int:
        """Run until a signal (0) or a failure (1); returns the exit code."""
        configure_logging(self.component, self._log_level)
        self._watchdog = threading.Timer(
            self._drain_s + self._grace_s + WATCHDOG_MARGIN_S, _end_hard, args=[self.component]
        )
        self._watchdog.daemon = True
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                code = runner.run(self.main())
                if self._stuck:
                    # Closing the loop would wait for them for ever.
                    _exit_now(code)
                return code
        finally:
            self._watchdog.cancel()

    async def main(self) -> int:
        """What `run` runs, for a loop that exists already. Only in the main thread."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_log_unhandled)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            await self._health.start()
            await self._work()
        except OSError as error:
            self.stop(f"health server on port {self.health_port}: {error}")
        finally:
            await self._end()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
        return 1 if self.failure else 0

    async def _work(self) -> None:
        startup = asyncio.ensure_future(self._run_startup())
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({startup, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if startup.done() and not self._stopping.is_set():
                self._started = True
                for name, function in tuple(self._loops):
                    self._start(name, function)
            await stopping
        finally:
            stopping.cancel()
            startup.cancel()
            await asyncio.wait({startup, stopping}, timeout=self._grace_s)

    async def _run_startup(self) -> None:
        for function in self._startup:
            try:
                await function()
            except Exception as error:
                logger.exception("start-up failed")
                self.stop(f"start-up failed: {_describe(error)}")
                return

    def _start(self, name: str, function: AsyncFunction) -> None:
        task = asyncio.get_running_loop().create_task(self._guard(name, function), name=name)
        self._tasks[task] = name
        task.add_done_callback(self._tasks.pop)

    async def _guard(self, name: str, function: AsyncFunction) -> None:
        try:
            await function()
        except asyncio.CancelledError:
            if not self._stopping.is_set():
                self.stop(f"{name}: was cancelled")
            raise
        except Exception as error:
            logger.exception("%s failed", name)
            self.stop(f"{name}: {_describe(error)}")
        else:
            if not self._stopping.is_set():
                self.stop(f"{name}: ended")

    async def _end(self) -> None:
        """Drain, stop the loops, run the shutdown functions, in that order and in bounded time."""
        if self._watchdog is not None:
            self._watchdog.start()
        if self._drain_s and not self.failure and self._started:
            await asyncio.sleep(self._drain_s)
        tasks = dict(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            # The shutdown functions keep a third of the grace period for themselves.
            _, stuck = await asyncio.wait(tasks, timeout=self._grace_s * 2 / 3)
            self._stuck = bool(stuck)
            for task in stuck:
                self.stop(f"{tasks[task]}: did not stop")
        for function in reversed(self._shutdown):
            try:
                async with asyncio.timeout(self._grace_s / 3):
                    await function()
            except Exception as error:
                logger.exception("a shutdown function failed")
                self.stop(f"shutdown: {_describe(error)}")
        await self._health.stop()

    def _check_phase(self) -> bool | str:
        if self._stopping.is_set():
            return "stopping"
        return True if self._started else "starting"

    def _on_signal(self, number: int) -> None:
        if self._stopping.is_set():
            logger.warning("second signal, ending at once")
            _exit_now(128 + number)
        logger.info("%s stops on %s", self.component, signal.Signals(number).name)
        self.stop()


def _describe(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _end_hard(component: str) -> None:
    """A thread or a coroutine does not let go: the grace period is over all the same."""
    sys.stderr.write(f"{component}: shutdown took too long, ending at once\n")
    _exit_now(1)


def _exit_now(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _log_unhandled(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    error = context.get("exception")
    logger.error("%s", context.get("message"), exc_info=error if isinstance(error, BaseException) else None)
