"""Telling Python's cycle collector what this process is like: millions of long-lived objects, hardly a cycle.

Left alone, the collector walks the whole cluster again and again while it is being taken in (measured: 80 % of the
time of a report at 150,000 pods). Nearly everything here is freed by reference counting anyway.
"""

import gc
from typing import Final

_NEW_OBJECTS: Final = 100_000
_YOUNG_COLLECTIONS: Final = 20


def collect_rarely() -> None:
    """For the whole life of the process: let many objects appear before cycles are looked for."""
    gc.set_threshold(_NEW_OBJECTS, _YOUNG_COLLECTIONS, _YOUNG_COLLECTIONS)


def spare_what_exists() -> None:
    """Once the cluster is taken in: never walk what is here now (it is still freed when unreferenced)."""
    gc.collect()
    gc.freeze()
