"""Cluster addresses of services."""

import ipaddress
from typing import Any

from sandbox.apiserver.storage import GroupResource, Storage

JsonObject = dict[str, Any]

SERVICES = GroupResource("", "services")
SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/16")
_FIRST = 10  # lower ones are kept for well-known services


class AddressPool:
    """Hands out addresses that no stored service has."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._next = _FIRST

    def with_cluster_ip(self, service: JsonObject) -> JsonObject:
        """The service with an address, unless it is headless, external or brings one."""
        spec = service.get("spec") or {}
        if spec.get("type") == "ExternalName":
            return service
        address = spec.get("clusterIP") or self._free()
        return {**service, "spec": {**spec, "clusterIP": address, "clusterIPs": [address]}}

    def _free(self) -> str:
        taken = {entry.object.get("spec", {}).get("clusterIP") for entry in self._storage.entries(SERVICES)}
        while True:
            address = str(SERVICE_NETWORK[self._next])
            self._next = self._next + 1 if self._next + 2 < SERVICE_NETWORK.num_addresses else _FIRST
            if address not in taken:
                return address
