"""Where webhook services listen. The sandbox has no pod network, so whoever runs one registers it."""


class ServiceDirectory:
    """From "namespace/name" of a Service to the (host, port) on which its backend really listens."""

    def __init__(self) -> None:
        self._addresses: dict[str, tuple[str, int]] = {}

    def register(self, namespace: str, name: str, host: str, port: int) -> None:
        """Announce or move a service; any port of the Service leads to this one."""
        self._addresses[f"{namespace}/{name}"] = (host, port)

    def withdraw(self, namespace: str, name: str) -> None:
        """Forget a service; unknown ones are ignored."""
        self._addresses.pop(f"{namespace}/{name}", None)

    def find(self, namespace: str, name: str) -> tuple[str, int] | None:
        """The address, or None when nothing was registered."""
        return self._addresses.get(f"{namespace}/{name}")
