"""Addresses for the pods of the real node: each its own loopback address, so that their ports do not clash.

The kernel answers on all of 127.0.0.0/8 without set-up. Pods share the machine's network otherwise: one that
listens on 0.0.0.0 takes its port from all.
"""

from ipaddress import IPv4Address

HOST_ADDRESS = "127.0.0.1"
_NETWORK = int(IPv4Address("127.64.0.0"))
_SLICE_BITS = 14
_SLICES = 1 << 8
"""Each sandbox hands out one of 256 slices of 127.64.0.0/10, chosen by its seed."""


class PodAddresses:
    """Hands out addresses, the one given back longest ago last."""

    def __init__(self, seed: int) -> None:
        """seed: different for sandboxes that run side by side, such as the process id."""
        self._base = _NETWORK + ((seed % _SLICES) << _SLICE_BITS)
        self._taken: set[int] = set()
        self._next = 1

    def take(self) -> str:
        """A free address. Raises RuntimeError when all 16,382 are taken."""
        size = (1 << _SLICE_BITS) - 2
        if len(self._taken) >= size:
            raise RuntimeError("all pod addresses of the node are taken")
        while self._next in self._taken:
            self._next = self._next % size + 1
        number = self._next
        self._taken.add(number)
        self._next = number % size + 1
        return str(IPv4Address(self._base + number))

    def give_back(self, address: str) -> None:
        """The pod that had the address is over."""
        self._taken.discard(int(IPv4Address(address)) - self._base)
