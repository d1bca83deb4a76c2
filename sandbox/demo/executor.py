"""A batch executor of the demo: hashes fixed blocks as fast as it may, and counts them.

The count of finished blocks lives in the first eight bytes of a file (little-endian, through mmap: no
system call per block), so that the work of an executor can be read at any moment and survives it. The
block is always the same, hence one unit always costs the same number of instructions and the counts of
different phases compare. Standard library only, started by path.
"""

import argparse
import hashlib
import mmap
import signal
import struct
import sys
from pathlib import Path

BLOCK = bytes(range(256)) * 512
COUNTER = struct.Struct("<Q")


def open_counter(path: Path) -> mmap.mmap:
    """Map the counter file, creating it at zero; an existing count goes on (a restarted executor)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        if file.seek(0, 2) < COUNTER.size:
            file.truncate(COUNTER.size)
        return mmap.mmap(file.fileno(), COUNTER.size)


def read_counter(path: Path) -> int:
    """The blocks finished so far; 0 when the executor has not started yet."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return 0
    return int(COUNTER.unpack(content)[0]) if len(content) == COUNTER.size else 0


def crunch(counter: mmap.mmap, blocks: int = -1) -> None:
    """Hash `blocks` blocks (-1: for ever), counting each as it is finished."""
    blake2b = hashlib.blake2b
    done = COUNTER.unpack(counter[:])[0]
    while blocks != 0:
        blake2b(BLOCK).digest()
        done += 1
        blocks -= 1
        COUNTER.pack_into(counter, 0, done)


def main() -> None:
    """Parse the command line and crunch until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counter", type=Path, required=True, help="file that holds the number of blocks done")
    parser.add_argument("--blocks", type=int, default=-1, help="stop after so many; -1: never")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    crunch(open_counter(options.counter), options.blocks)


if __name__ == "__main__":
    main()
