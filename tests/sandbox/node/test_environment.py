"""Variables and command lines of containers."""

from typing import Any

import msgspec
import pytest

from koord.api.errors import InvalidInput
from sandbox.node import environment
from sandbox.node.environment import Surroundings
from sandbox.node.model import Pod

AROUND = Surroundings("node-1", "127.0.0.1", "127.64.0.9", {"cpu": "2"}, {"PATH": "/bin"})


def pod(**container: Any) -> Pod:
    document = {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", **container}], "serviceAccountName": "default"},
    }
    return msgspec.convert(document, Pod)


def variables(subject: Pod) -> dict[str, str]:
    return environment.container_environment(subject, subject.spec.containers[0], AROUND)


def from_field(path: str) -> dict[str, Any]:
    return {"name": "V", "valueFrom": {"fieldRef": {"fieldPath": path}}}


def test_a_container_has_the_base_variables_its_name_and_its_own() -> None:
    subject = pod(env=[{"name": "A", "value": "1"}, {"name": "PATH", "value": "/opt"}])
    assert variables(subject) == {"PATH": "/opt", "HOSTNAME": "web", "A": "1"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "web"),
        ("metadata.namespace", "shop"),
        ("metadata.uid", "u"),
        ("metadata.labels['app']", "web"),
        ("metadata.annotations['none']", ""),
        ("spec.nodeName", "node-1"),
        ("spec.serviceAccountName", "default"),
        ("status.podIP", "127.64.0.9"),
        ("status.hostIP", "127.0.0.1"),
    ],
)
def test_fields_of_the_pod(path: str, value: str) -> None:
    assert variables(pod(env=[from_field(path)]))["V"] == value


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.cpu", "1m", "1500"),
        ("limits.cpu", "1", "2"),
        ("requests.memory", "1Mi", "64"),
        ("requests.cpu", "1m", "0"),
        ("limits.memory", "1", "0"),
    ],
)
def test_resources_of_the_container(resource: str, divisor: str, value: str) -> None:
    reference = {"name": "V", "valueFrom": {"resourceFieldRef": {"resource": resource, "divisor": divisor}}}
    resources = {"limits": {"cpu": "1500m"}, "requests": {"memory": "64Mi"}}
    assert variables(pod(env=[reference], resources=resources))["V"] == value


def test_a_missing_cpu_limit_means_the_whole_node() -> None:
    reference = {"name": "V", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}
    assert variables(pod(env=[reference]))["V"] == "2"


@pytest.mark.parametrize(
    "variable",
    [
        from_field("status.phase"),
        {"name": "V", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "V", "valueFrom": {"resourceFieldRef": {"resource": "cpu"}}},
    ],
)
def test_what_a_sandbox_node_cannot_give_is_named(variable: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"Pod/shop/web: containers\[main\]\.env\[V\]\.valueFrom"):
        variables(pod(env=[variable]))


def test_references_are_expanded_once_and_in_order() -> None:
    subject = pod(
        command=["sh", "-c", "echo $(A) $(NONE) $$(A)"],
        args=["$(B)"],
        env=[{"name": "A", "value": "x$(B)"}, {"name": "B", "value": "<$(A)>"}],
    )
    found = variables(subject)
    assert (found["A"], found["B"]) == ("x$(B)", "<x$(B)>")
    line = environment.command_line(subject, subject.spec.containers[0], found)
    assert line == ["sh", "-c", "echo x$(B) $(NONE) $(A)", "<x$(B)>"]


def test_without_command_and_args_there_is_nothing_to_run() -> None:
    with pytest.raises(InvalidInput, match="images are not pulled"):
        environment.command_line(pod(), pod().spec.containers[0], {})
