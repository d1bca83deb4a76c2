"""The files that take containers' output, and reading them for `kubectl logs`.

A container's process writes to its file directly, so that output costs the sandbox nothing; the price is that
lines carry no time. The present and the previous run of a container are kept.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from koord.api.objects import JsonObject
from sandbox.apiserver import status

KEPT_RUNS = 2
CHUNK_BYTES = 65_536
FOLLOW_INTERVAL_S = 0.1
MAX_LOG_BYTES = 64 << 20
CHECK_INTERVAL_S = 30.0

log = logging.getLogger("koord.sandbox.node")

IsRunning = Callable[[str, str], bool]
"""Whether the container (pod uid, container name) has a living process."""


def pod_directory(root: Path, namespace: str, name: str, uid: str) -> Path:
    """Where a pod's containers log; laid out as /var/log/pods is."""
    return root / f"{namespace}_{name}_{uid}"


def open_run(directory: Path, container: str, restart_count: int) -> Path:
    """The file for a run of a container; files of runs long gone are removed. Raises OSError."""
    folder = directory / container
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.log"):
        if int(file.stem) <= restart_count - KEPT_RUNS:
            file.unlink(missing_ok=True)
    return folder / f"{restart_count}.log"


def cut_long_logs(root: Path, max_bytes: int = MAX_LOG_BYTES) -> list[Path]:
    """Empty the files that have grown too long, so that a talkative container cannot fill the disk.

    Processes append, so that they go on at the new beginning. Returns the files that were cut.
    """
    cut = []
    for file in root.glob("*/*/*.log"):
        try:
            if file.stat().st_size > max_bytes:
                os.truncate(file, 0)
                cut.append(file)
        except FileNotFoundError:
            continue
    return cut


async def keep_logs_short(root: Path) -> None:
    """Look at the files now and then, for ever."""
    while True:
        await asyncio.sleep(CHECK_INTERVAL_S)
        for file in cut_long_logs(root):
            log.warning("a container's log grew too long and was emptied", extra={"file": str(file)})


class ContainerLogs:
    """Serves pods/log for the pods of the real node."""

    def __init__(self, root: Path, is_running: IsRunning) -> None:
        self._root = root
        self._is_running = is_running

    def stream(
        self,
        pod: JsonObject,
        container: str,
        *,
        previous: bool,
        follow: bool,
        tail_lines: int | None,
        since_seconds: int | None,
        timestamps: bool,
        limit_bytes: int | None,
    ) -> AsyncIterator[bytes]:
        """Chunks of the log; with `follow` until the container ends.

        Raises StatusError (400) when there is no such run, or for what needs the time of a line.
        """
        if timestamps or since_seconds is not None:
            raise status.bad_request("sandbox nodes keep no time of a log line: use neither timestamps nor since")
        meta = pod["metadata"]
        folder = pod_directory(self._root, meta["namespace"], meta["name"], meta["uid"]) / container
        file = _run_file(folder, previous)
        if file is None:
            what = "previous terminated container" if previous else "container"
            message = f'{what} "{container}" in pod "{meta["name"]}" has no log on a sandbox node'
            raise status.bad_request(message)
        alive = (lambda: self._is_running(meta["uid"], container)) if follow and not previous else None
        return _read(file, tail_lines, limit_bytes, alive)


def _run_file(folder: Path, previous: bool) -> Path | None:
    runs = sorted(folder.glob("*.log"), key=lambda file: int(file.stem))
    if previous:
        return runs[-2] if len(runs) > 1 else None
    return runs[-1] if runs else None


async def _read(
    file: Path, tail_lines: int | None, limit_bytes: int | None, alive: Callable[[], bool] | None
) -> AsyncIterator[bytes]:
    left = limit_bytes if limit_bytes is not None else None
    with file.open("rb") as source:
        source.seek(0 if tail_lines is None else _tail_offset(source, tail_lines))
        while left is None or left > 0:
            goes_on = alive is not None and alive()  # asked before reading, so that the last words are not missed
            chunk = source.read(CHUNK_BYTES if left is None else min(CHUNK_BYTES, left))
            if chunk:
                left = None if left is None else left - len(chunk)
                yield chunk
            elif not goes_on:
                return
            else:
                await asyncio.sleep(FOLLOW_INTERVAL_S)


def _tail_offset(source: BinaryIO, lines: int) -> int:
    """Where the last `lines` lines begin, reading backwards in chunks."""
    position = source.seek(0, 2)
    if lines <= 0:
        return position
    last_byte_is_newline = True
    while position > 0:
        start = max(0, position - CHUNK_BYTES)
        source.seek(start)
        chunk = source.read(position - start)
        end = len(chunk) - 1 if last_byte_is_newline and chunk.endswith(b"\n") else len(chunk)
        last_byte_is_newline = False
        while (found := chunk.rfind(b"\n", 0, end)) >= 0:
            lines -= 1
            if lines == 0:
                return start + found + 1
            end = found
        position = start
    return 0


class LogsByNode:
    """Serves pods/log for the whole cluster: only real nodes have processes that write anything."""

    def __init__(self, nodes: Mapping[str, ContainerLogs]) -> None:
        self._nodes = dict(nodes)

    def stream(
        self,
        pod: JsonObject,
        container: str,
        *,
        previous: bool,
        follow: bool,
        tail_lines: int | None,
        since_seconds: int | None,
        timestamps: bool,
        limit_bytes: int | None,
    ) -> AsyncIterator[bytes]:
        """See ContainerLogs. Raises StatusError (400) also for a pod that is on no real node."""
        node = pod["spec"].get("nodeName", "")
        logs = self._nodes.get(node)
        if logs is None:
            where = f'runs on the simulated node "{node}"' if node else "is not scheduled"
            raise status.bad_request(f'pod "{pod["metadata"]["name"]}" {where}: it has no log')
        return logs.stream(
            pod,
            container,
            previous=previous,
            follow=follow,
            tail_lines=tail_lines,
            since_seconds=since_seconds,
            timestamps=timestamps,
            limit_bytes=limit_bytes,
        )
