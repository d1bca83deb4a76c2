"""Expand the shorthand koordinator.sh/gpu into the resources that devices are allocated by. Pure.

`gpu: 50` is half of one card: gpu-core 50, gpu-memory-ratio 50, gpu.shared 1. Requests missing beside limits
are taken from the limits first, as the API server does for extended resources.
"""

from __future__ import annotations

from koord.api import names, quantity
from webhook.draft import Block, Draft
from webhook.views import Resources

_NAMES = (names.GPU, names.GPU_CORE, names.GPU_MEMORY, names.GPU_MEMORY_RATIO, names.GPU_SHARED)
_NAME_SET = frozenset(_NAMES)
_PERCENT_OF_CARD = 100


def expand_gpu(draft: Draft) -> bool:
    """Expand in every app container that mentions a GPU; True when something changed. Raises InvalidQuantity."""
    changed = False
    for block in draft.blocks:
        if not block.is_init and (_mentions_gpu(block.requests) or _mentions_gpu(block.limits)):
            changed = _expand(block) or changed
    return changed


def _mentions_gpu(resources: Resources | None) -> bool:
    return resources is not None and not _NAME_SET.isdisjoint(resources)


def _expand(block: Block) -> bool:
    requests, limits = dict(block.requests or {}), dict(block.limits or {})
    for name in _NAMES:
        if name in limits and name not in requests:
            requests[name] = limits[name]
    has_shared = names.GPU_SHARED in requests
    if names.GPU in requests:
        percent = quantity.format_value(quantity.value(requests[names.GPU]))
        for resources in (requests, limits):
            resources.pop(names.GPU, None)
            resources[names.GPU_CORE] = percent
            resources[names.GPU_MEMORY_RATIO] = percent
    if not has_shared:
        cards = quantity.format_value(_cards(requests))
        requests[names.GPU_SHARED] = limits[names.GPU_SHARED] = cards
    if requests == (block.requests or {}) and limits == (block.limits or {}):
        return False
    block.requests, block.limits = requests, limits
    return True


def _cards(requests: Resources) -> int:
    """How many cards: a whole multiple of 100 percent is that many, everything else shares one."""
    percent_text = requests.get(names.GPU_MEMORY_RATIO, requests.get(names.GPU_CORE, _PERCENT_OF_CARD))
    percent = quantity.value(percent_text)
    if percent > _PERCENT_OF_CARD and percent % _PERCENT_OF_CARD == 0:
        return percent // _PERCENT_OF_CARD
    return 1
