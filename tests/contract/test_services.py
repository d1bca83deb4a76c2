"""What a service is given, and what it keeps: addresses, node ports, families."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.api import Answer, Api, JsonObject

PORTS = [{"port": 80}]


@pytest.fixture
def services(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/services"


def create(api: Api, services: str, name: str = "s", **spec: Any) -> Answer:
    return api.post(services, {"metadata": {"name": name}, "spec": spec})


def spec_of(answer: Answer) -> JsonObject:
    assert answer.status in (200, 201), answer.body
    spec: JsonObject = answer.body["spec"]
    return spec


def test_a_service_gets_an_address_of_one_family(api: Api, services: str) -> None:
    spec = spec_of(create(api, services, ports=PORTS))
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    assert (spec["type"], spec["internalTrafficPolicy"], spec["sessionAffinity"]) == ("ClusterIP", "Cluster", "None")
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
def test_an_exposed_service_gets_a_port_on_every_node(api: Api, services: str, kind: str) -> None:
    spec = spec_of(create(api, services, type=kind, ports=PORTS))
    assert 30000 <= spec["ports"][0]["nodePort"] <= 32767
    assert spec["externalTrafficPolicy"] == "Cluster"
    assert spec.get("allocateLoadBalancerNodePorts") == (True if kind == "LoadBalancer" else None)
    other = spec_of(create(api, services, "other", type=kind, ports=PORTS))
    assert other["ports"][0]["nodePort"] != spec["ports"][0]["nodePort"]
    taken = create(api, services, "third", type=kind, ports=spec["ports"])
    assert taken.status == 422
    assert "spec.ports[0].nodePort: Invalid value: " in taken.message
    assert "provided port is already allocated" in taken.message
    outside = create(api, services, "third", type=kind, ports=[{"port": 80, "nodePort": 80}])
    assert "provided port is not in the valid range. The range of valid ports is 30000-32767" in outside.message


def test_a_load_balancer_can_do_without_node_ports(api: Api, services: str) -> None:
    spec = spec_of(create(api, services, type="LoadBalancer", allocateLoadBalancerNodePorts=False, ports=PORTS))
    assert "nodePort" not in spec["ports"][0]


def test_a_headless_service_without_selector_may_have_both_families(api: Api, services: str) -> None:
    spec = spec_of(create(api, services, clusterIP="None", ports=PORTS))
    assert (spec["clusterIPs"], spec["ipFamilies"]) == (["None"], ["IPv4", "IPv6"])
    assert spec["ipFamilyPolicy"] == "RequireDualStack"
    spec = spec_of(create(api, services, "other", clusterIP="None", selector={"a": "b"}, ports=PORTS))
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")


def test_an_external_service_gets_nothing(api: Api, services: str) -> None:
    spec = spec_of(create(api, services, type="ExternalName", externalName="x.example.com"))
    assert spec == {"type": "ExternalName", "externalName": "x.example.com", "sessionAffinity": "None"}


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"ipFamilyPolicy": "RequireDualStack"}, "this cluster is not configured for dual-stack services"),
        ({"clusterIP": "1.2.3.4"}, "failed to allocate IP 1.2.3.4: the provided network does not match the current"),
        ({"clusterIPs": ["10.0.0.98"]}, "must be empty when `clusterIP` is not specified"),
    ],
    ids=["two families", "foreign address", "addresses alone"],
)
def test_what_cannot_be_given_is_refused(api: Api, services: str, spec: JsonObject, complaint: str) -> None:
    refused = create(api, services, ports=PORTS, **spec)
    assert (refused.status, refused.reason) == (422, "Invalid")
    assert complaint in refused.message


def test_an_address_is_given_once(api: Api, services: str) -> None:
    address = spec_of(create(api, services, ports=PORTS))["clusterIP"]
    refused = create(api, services, "other", ports=PORTS, clusterIP=address)
    assert refused.status == 422
    assert f"failed to allocate IP {address}: provided IP is already allocated" in refused.message


def test_an_update_that_names_no_address_keeps_it(api: Api, services: str) -> None:
    before = spec_of(create(api, services, type="NodePort", ports=PORTS))
    bare = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": PORTS}}
    assert spec_of(api.put(f"{services}/s", bare)) == before
    bare["spec"] = {"type": "ClusterIP", "ports": PORTS}
    inside = spec_of(api.put(f"{services}/s", bare))
    assert inside["clusterIP"] == before["clusterIP"]
    assert "nodePort" not in inside["ports"][0]
    assert "externalTrafficPolicy" not in inside


def test_an_address_does_not_change(api: Api, services: str) -> None:
    create(api, services, clusterIP="None", selector={"a": "b"}, ports=PORTS)
    refused = api.patch(f"{services}/s", {"spec": {"clusterIP": "10.0.0.77"}})
    assert refused.status == 422
    assert 'spec.clusterIPs[0]: Invalid value: ["10.0.0.77"]: may not change once set' in refused.message


def test_a_service_that_becomes_external_gives_its_address_back(api: Api, services: str) -> None:
    create(api, services, ports=PORTS)
    external = {"type": "ExternalName", "externalName": "x.example.com", "ports": None, "clusterIP": ""}
    spec = spec_of(api.patch(f"{services}/s", {"spec": external}))
    assert spec == {"type": "ExternalName", "externalName": "x.example.com", "sessionAffinity": "None"}
    back = spec_of(api.patch(f"{services}/s", {"spec": {"type": "ClusterIP", "externalName": None, "ports": PORTS}}))
    assert back["clusterIPs"] == [back["clusterIP"]]
    assert back["ipFamilies"] == ["IPv4"]
