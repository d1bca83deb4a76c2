"""Reading the output of containers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.apiserver.status import StatusError
from sandbox.node import container_logs
from sandbox.node.container_logs import ContainerLogs

POD = {"metadata": {"name": "web", "namespace": "shop", "uid": "u"}}
DEFAULTS: dict[str, Any] = {
    "previous": False,
    "follow": False,
    "tail_lines": None,
    "since_seconds": None,
    "timestamps": False,
    "limit_bytes": None,
}


def write(root: Path, run: int, text: str) -> Path:
    file = container_logs.open_run(container_logs.pod_directory(root, "shop", "web", "u"), "main", run)
    file.write_text(text)
    return file


async def read(logs: ContainerLogs, **options: Any) -> str:
    return b"".join([chunk async for chunk in logs.stream(POD, "main", **{**DEFAULTS, **options})]).decode()


@pytest.fixture
def logs(tmp_path: Path) -> ContainerLogs:
    return ContainerLogs(tmp_path, lambda uid, container: False)


async def test_the_present_and_the_previous_run_can_be_read(logs: ContainerLogs, tmp_path: Path) -> None:
    files = [write(tmp_path, run, f"run {run}\n") for run in range(4)]
    assert [file.exists() for file in files] == [False, False, True, True]
    assert await read(logs) == "run 3\n"
    assert await read(logs, previous=True) == "run 2\n"


async def test_a_run_that_is_not_there_is_refused(logs: ContainerLogs, tmp_path: Path) -> None:
    with pytest.raises(StatusError, match='container "main" in pod "web" has no log'):
        await read(logs)
    write(tmp_path, 0, "")
    with pytest.raises(StatusError, match="previous terminated container"):
        await read(logs, previous=True)


async def test_what_needs_the_time_of_a_line_is_refused(logs: ContainerLogs, tmp_path: Path) -> None:
    write(tmp_path, 0, "x\n")
    for option in ({"timestamps": True}, {"since_seconds": 5}):
        with pytest.raises(StatusError, match="keep no time of a log line"):
            await read(logs, **option)


@given(text=st.text("a\n", max_size=60), lines=st.integers(0, 9), chunk=st.integers(1, 7))
def test_the_tail_is_the_last_lines(
    tmp_path_factory: pytest.TempPathFactory, text: str, lines: int, chunk: int
) -> None:
    file = tmp_path_factory.getbasetemp() / "tail"
    file.write_text(text)
    with pytest.MonkeyPatch.context() as patch, file.open("rb") as source:
        patch.setattr(container_logs, "CHUNK_BYTES", chunk)
        offset = container_logs._tail_offset(source, lines)
    expected = "".join(text.splitlines(keepends=True)[-lines:]) if lines else ""
    assert text[offset:] == expected


async def test_limit_and_tail_together(logs: ContainerLogs, tmp_path: Path) -> None:
    write(tmp_path, 0, "one\ntwo\nthree\n")
    assert await read(logs, tail_lines=2, limit_bytes=5) == "two\nt"
    assert await read(logs, limit_bytes=0) == ""


async def test_following_ends_with_the_container_and_misses_nothing(tmp_path: Path) -> None:
    running = True
    file = write(tmp_path, 0, "first\n")
    following = ContainerLogs(tmp_path, lambda uid, container: running)
    task = asyncio.create_task(read(following, follow=True))
    await asyncio.sleep(0)
    with file.open("a") as log:
        log.write("second\n")
    running = False
    async with asyncio.timeout(5):
        assert await task == "first\nsecond\n"


def test_a_log_that_grew_too_long_is_emptied_and_goes_on(tmp_path: Path) -> None:
    talkative, brief = write(tmp_path, 0, ""), write(tmp_path, 1, "brief\n")
    with talkative.open("ab", buffering=0) as output:
        output.write(b"x" * 100)
        assert container_logs.cut_long_logs(tmp_path, 50) == [talkative]
        output.write(b"more\n")
    assert talkative.read_text() == "more\n"
    assert brief.read_text() == "brief\n"
