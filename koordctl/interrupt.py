"""Runs a command's work so that Ctrl-C and kill let it clean up."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import click

T = TypeVar("T")


def until_signal(work: Callable[[], Coroutine[Any, Any, T]], note: Callable[[str], None]) -> T:
    """Run to the end; the first SIGINT, SIGTERM or SIGHUP cancels (cleaning up), later ones do not hurry it.

    Raises click.exceptions.Exit(128 + the signal's number) when a signal ended it.
    """

    async def run() -> T:
        task = asyncio.ensure_future(work())
        signalled: list[int] = []

        def take(number: int) -> None:
            note("ending: removing everything that was started" if not signalled else "still ending")
            if not signalled:
                task.cancel()
            signalled.append(number)

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, take, number)
        try:
            return await task
        except asyncio.CancelledError:
            if signalled:
                raise click.exceptions.Exit(128 + signalled[0]) from None
            raise

    return asyncio.run(run())
