"""What an API server gives to services: cluster addresses, node ports, address families; one stack, IPv4.

A service keeps what it was given for as long as its type needs it, also when an update leaves it out.
"""

import ipaddress
from collections.abc import Iterator
from typing import Any

from sandbox.apiserver import status
from sandbox.apiserver.storage import GroupResource, Storage

JsonObject = dict[str, Any]

SERVICES = GroupResource("", "services")
SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)
_FIRST = 10  # lower ones are kept for well-known services
_HEADLESS = "None"
_ADDRESSED = ("ClusterIP", "NodePort", "LoadBalancer")
_EXPOSED = ("NodePort", "LoadBalancer")
_OF_ADDRESSED = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")


class ServiceAllocator:
    """Hands out what no stored service has."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._next_address = _FIRST
        self._next_port = NODE_PORTS.start

    def on_create(self, service: JsonObject) -> JsonObject:
        """The service with all that its type needs. Raises StatusError 422 for what cannot be had."""
        return self._allocated(service, {})

    def on_update(self, service: JsonObject, old: JsonObject) -> JsonObject:
        """The service with what it has had and still needs, and with what its type needs now.

        Raises StatusError 422 for another address than before.
        """
        spec, before = _dropped(service["spec"], old["spec"]), old["spec"]
        spec = _kept(spec, before)
        had, wants = before.get("clusterIP"), spec.get("clusterIP")
        if had and wants and had != wants:
            raise _invalid(service, "spec.clusterIPs[0]", [wants], "may not change once set")
        return self._allocated({**service, "spec": spec}, before)

    def _allocated(self, service: JsonObject, before: JsonObject) -> JsonObject:
        spec = dict(service.get("spec") or {})
        kind = spec.get("type")
        if kind in _ADDRESSED:
            if spec.get("clusterIPs") and not spec.get("clusterIP"):
                why = "must be empty when `clusterIP` is not specified"
                raise _invalid(service, "spec.clusterIPs", spec["clusterIPs"], why)
            spec |= _families(service, spec)
            if not before.get("clusterIP"):
                spec["clusterIP"] = self._address(service, spec.get("clusterIP") or "")
            spec["clusterIPs"] = [spec["clusterIP"]]
        if kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)):
            spec["ports"] = self._with_node_ports(service, spec.get("ports") or [], before)
        return {**service, "spec": spec}

    def _address(self, service: JsonObject, wanted: str) -> str:
        if wanted == _HEADLESS:
            return wanted
        taken = {entry.get("clusterIP") for entry in self._specs()}
        if not wanted:
            while (address := self._step_address()) in taken:
                pass
            return address
        why = ""
        if ipaddress.ip_address(wanted) not in SERVICE_NETWORK:
            why = "the provided network does not match the current range"
        elif wanted in taken:
            why = "provided IP is already allocated"
        if why:
            raise _invalid(service, "spec.clusterIPs", [wanted], f"failed to allocate IP {wanted}: {why}")
        return wanted

    def _with_node_ports(self, service: JsonObject, ports: list[JsonObject], before: JsonObject) -> list[JsonObject]:
        own = {port.get("nodePort") for port in before.get("ports") or ()}
        taken = {port.get("nodePort") for spec in self._specs() for port in spec.get("ports") or ()} - own
        result = []
        for index, port in enumerate(ports):
            number = port.get("nodePort") or 0
            why = ""
            if not number:
                while (number := self._step_port()) in taken:
                    pass
            elif number not in NODE_PORTS:
                why = f"provided port is not in the valid range. The range of valid ports is {_told(NODE_PORTS)}"
            elif number in taken:
                why = "provided port is already allocated"
            if why:
                raise _invalid(service, f"spec.ports[{index}].nodePort", number, why)
            result.append({**port, "nodePort": number})
        return result

    def _specs(self) -> Iterator[JsonObject]:
        for entry in self._storage.entries(SERVICES):
            yield entry.object.get("spec") or {}

    def _step_address(self) -> str:
        address = str(SERVICE_NETWORK[self._next_address])
        self._next_address = (
            self._next_address + 1 if self._next_address + 2 < SERVICE_NETWORK.num_addresses else _FIRST
        )
        return address

    def _step_port(self) -> int:
        port = self._next_port
        self._next_port = port + 1 if port + 1 in NODE_PORTS else NODE_PORTS.start
        return port


def _families(service: JsonObject, spec: JsonObject) -> JsonObject:
    """Families and policy of a single-stack cluster; whoever looks up a headless service may find both."""
    if spec.get("clusterIP") == _HEADLESS and not spec.get("selector"):
        policy = spec.get("ipFamilyPolicy") or "RequireDualStack"
        families = ["IPv4"] if policy == "SingleStack" else ["IPv4", "IPv6"]
    else:
        policy, families = spec.get("ipFamilyPolicy") or "SingleStack", ["IPv4"]
        if policy == "RequireDualStack":
            why = "this cluster is not configured for dual-stack services"
            raise _invalid(service, "spec.ipFamilyPolicy", policy, why)
    return {"ipFamilyPolicy": policy, "ipFamilies": spec.get("ipFamilies") or families}


def _dropped(spec: JsonObject, before: JsonObject) -> JsonObject:
    """The spec without what the old type needed and the new one does not, unless the update has changed it."""
    spec = dict(spec)
    kind, was = spec.get("type"), before.get("type")
    gone: list[str] = []
    if was in _ADDRESSED and kind not in _ADDRESSED:
        gone += _OF_ADDRESSED
    if was in _EXPOSED and kind not in _EXPOSED:
        gone.append("externalTrafficPolicy")
        known = {port.get("nodePort") for port in before.get("ports") or ()}
        spec["ports"] = [_without_known_port(port, known) for port in spec.get("ports") or ()]
    if was == "LoadBalancer" != kind:
        gone.append("allocateLoadBalancerNodePorts")
    for name in gone:
        if spec.get(name) in (None, "", [], before.get(name)):
            spec.pop(name, None)
    return spec


def _without_known_port(port: JsonObject, known: set[Any]) -> JsonObject:
    return {key: value for key, value in port.items() if key != "nodePort" or value not in known}


def _kept(spec: JsonObject, before: JsonObject) -> JsonObject:
    """The spec with addresses and node ports that it has had, where it names none."""
    spec = dict(spec)
    if spec.get("type") in _ADDRESSED and before.get("type") in _ADDRESSED:
        for name in ("clusterIP", "ipFamilies", "ipFamilyPolicy"):
            if not spec.get(name) and before.get(name):
                spec[name] = before[name]
    if spec.get("type") in _EXPOSED and before.get("type") in _EXPOSED:
        known = {_address_of(port): port.get("nodePort") for port in before.get("ports") or ()}
        spec["ports"] = [
            port if port.get("nodePort") or not known.get(_address_of(port))
            else {**port, "nodePort": known[_address_of(port)]}
            for port in spec.get("ports") or ()
        ]  # fmt: skip
    return spec


def _address_of(port: JsonObject) -> tuple[Any, Any]:
    return port.get("port"), port.get("protocol") or "TCP"


def _told(ports: range) -> str:
    return f"{ports.start}-{ports.stop - 1}"


def _invalid(service: JsonObject, field: str, value: object, why: str) -> status.StatusError:
    shown = f'"{value}"' if isinstance(value, str) else str(value).replace("'", '"')
    cause = status.Cause("FieldValueInvalid", f"Invalid value: {shown}: {why}", field)
    return status.invalid("", "Service", service["metadata"].get("name", ""), [cause])
