"""Which HTTP proxy the environment names for the API server, by Go's rules.

Unlike Python's, these know CIDR blocks in NO_PROXY, which is how clusters exempt
their service network. Pure: the environment is an argument.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping


def proxy_for(scheme: str, host: str, port: int | None, environ: Mapping[str, str]) -> str | None:
    """The proxy's URL, or None to connect directly."""
    proxy = _lookup(f"{scheme}_proxy", environ)
    if not proxy or _is_local(host):
        return None
    excluded = (entry.strip().lower() for entry in _lookup("no_proxy", environ).split(","))
    if any(_excludes(entry, host.lower(), port) for entry in excluded if entry):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _lookup(name: str, environ: Mapping[str, str]) -> str:
    return environ.get(name.upper()) or environ.get(name, "")


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _excludes(entry: str, host: str, port: int | None) -> bool:
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        pass
    name, _, entry_port = entry.partition(":")
    if entry_port and entry_port != str(port):
        return False
    name = name.removeprefix("*")
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")
