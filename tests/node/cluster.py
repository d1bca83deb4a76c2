"""The cluster around the node as its users see it: kubectl, Koord's installation, pods and their cgroups."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from string import Template
from typing import Any

import yaml

from koord.api import quantity
from koord.kube.connection import connect
from sandbox.bootstrap import install
from tests.kubernetes.control_plane import ControlPlane, free_port
from tests.kubernetes.rights import documents
from tests.node import archives, cgroups
from tests.node.machine import NODE_NAME, Machine

HERE = Path(__file__).parent
KUBECTL = Path(sys.executable).with_name("kubectl")
EXAMPLES = HERE.parents[1] / "examples"
KOORD_NAMESPACE = "koordinator-system"
ACCOUNTS = {"webhook": "koord-webhook", "manager": "koord-manager", "koordlet": "koordlet"}
JsonObject = dict[str, Any]


class Cluster:
    """A control plane and its one node."""

    def __init__(self, plane: ControlPlane, machine: Machine) -> None:
        self.plane = plane
        self.machine = machine
        koord = Template((HERE / "koord.yaml").read_text()).substitute(
            image=archives.KOORD_IMAGE,
            host="127.0.0.1",
            port=plane.port,
            manager_health_port=free_port(),
            webhook_port=free_port(),
            webhook_health_port=free_port(),
            koordlet_health_port=free_port(),
        )
        self._koord: list[JsonObject] = list(yaml.safe_load_all(koord))

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl as the administrator; its output. Raises AssertionError with what it said."""
        own = [f"--kubeconfig={self.plane.kubeconfig}", f"--cache-dir={self.plane.folder / 'cache'}"]
        done = subprocess.run(
            [str(KUBECTL), *own, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "HOME": str(self.plane.folder)},
            check=False,
        )
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}{done.stdout}"
        return str(done.stdout)

    def apply(self, *documents: JsonObject) -> None:
        """Apply objects."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))

    def apply_file(self, name: str, **values: str) -> None:
        """Apply a manifest beside this file, its $names filled in."""
        self.kubectl("apply", "-f", "-", stdin=Template((HERE / name).read_text()).substitute(values))

    def get(self, path: str) -> JsonObject | None:
        """An object by its API path; None when it is not there."""
        status, body = self.plane.api("GET", path)
        assert status in (200, 404), body
        return dict(body) if status == 200 else None

    def install_definitions(self) -> None:
        """CRDs, priority classes and namespaces."""

        async def create() -> None:
            async with await connect(str(self.plane.kubeconfig)) as client:
                await install(client)

        asyncio.run(create())
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")

    def install_control(self) -> None:
        """Webhook and manager, with all accounts and rights; returns when they are ready."""
        self._install("Deployment")

    def install_koordlet(self) -> None:
        """The node agent; returns when it is ready."""
        self._install("DaemonSet")

    def uninstall_koordlet(self) -> None:
        """Delete the agent; returns when its pod is gone."""
        self.kubectl("-n", KOORD_NAMESPACE, "delete", "daemonset/koordlet", "--cascade=foreground", "--wait")

    def koordlet_pod(self, name: str, *arguments: str) -> JsonObject:
        """The agent as a pod that is not started again when it ends, with more arguments."""
        (daemon_set,) = (one for one in self._koord if one["kind"] == "DaemonSet")
        spec = copy.deepcopy(daemon_set["spec"]["template"]["spec"]) | {"restartPolicy": "Never"}
        spec["containers"][0]["args"] += arguments
        metadata = {"name": name, "namespace": KOORD_NAMESPACE}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _install(self, kind: str) -> None:
        workloads = [one for one in self._koord if one["kind"] == kind]
        rights = [one for name, account in ACCOUNTS.items() for one in documents(name, account)]
        self.apply(*rights, *workloads)
        for one in workloads:
            self.wait_rollout(KOORD_NAMESPACE, kind.lower(), one["metadata"]["name"])

    def wait_rollout(self, namespace: str, kind: str, name: str) -> None:
        """Wait until the pods of a workload are ready; tells what its pods say when they do not become so."""
        self._wait(namespace, "rollout", "status", f"{kind}/{name}")

    def wait_pod(self, namespace: str, name: str, condition: str = "condition=Ready") -> None:
        """Wait until a pod is ready, or for another condition of `kubectl wait --for`."""
        self._wait(namespace, "wait", f"--for={condition}", f"pod/{name}")

    def _wait(self, namespace: str, *arguments: str) -> None:
        try:
            self.kubectl("-n", namespace, *arguments, "--timeout=90s")
        except AssertionError as error:
            told = self.kubectl("-n", namespace, "describe", "pods")
            logs = "\n".join(self.machine.log_of(namespace, pod["metadata"]["name"]) for pod in self.pods(namespace))
            raise AssertionError(f"{error}\n{told[-3000:]}\n{logs[-3000:]}") from None

    def pods(self, namespace: str, selector: str = "") -> list[JsonObject]:
        """The pods of a namespace that are not being deleted."""
        found = json.loads(self.kubectl("-n", namespace, "get", "pods", "-l", selector, "-o", "json"))["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def pod(self, namespace: str, name: str) -> JsonObject:
        """A pod. Raises AssertionError when it is not there."""
        pod = self.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        assert pod is not None, f"no pod {namespace}/{name}"
        return pod

    def offered(self, resource: str) -> int:
        """What the node offers of a batch resource, 0 when nothing."""
        node = self.get(f"/api/v1/nodes/{NODE_NAME}")
        return 0 if node is None else quantity.value(node["status"]["allocatable"].get(resource, "0"))


def group_of(pod: JsonObject) -> str:
    """A pod's cgroup below kubepods."""
    return cgroups.pod_group(pod["metadata"]["uid"], pod["status"]["qosClass"])


def container_group(pod: JsonObject) -> str:
    """The cgroup of a pod's only container."""
    return f"{group_of(pod)}/{container_id(pod)}"


def container_id(pod: JsonObject) -> str:
    """The id of a pod's only container as containerd knows it."""
    (status,) = pod["status"]["containerStatuses"]
    return str(status["containerID"]).rpartition("://")[2]
