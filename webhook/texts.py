"""Quantity texts as the webhook writes them, remembered: the same few amounts come with every pod. Pure."""

from functools import lru_cache

from koord.api import quantity
from koord.api.quantity import QuantityText


@lru_cache(maxsize=4096)
def milli_count_text(amount: QuantityText) -> str:
    """An amount of cpu as a count of milli-cores, rounded up: "1.5" becomes "1500". Raises InvalidQuantity."""
    return quantity.format_value(quantity.milli(amount))


@lru_cache(maxsize=4096)
def canonical_text(amount: QuantityText) -> str:
    """An amount as the API server stores it: "4096Mi" becomes "4Gi". Raises InvalidQuantity."""
    return quantity.canonical(amount)
