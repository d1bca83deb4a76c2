"""One control plane with this machine as its node for all tests of this folder; only where they are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.kubernetes.control_plane import BUILT, ControlPlane, find_assets
from tests.node import archives, cgroups
from tests.node.cluster import Cluster
from tests.node.colocation import configure
from tests.node.machine import NODE_USER, CannotBeNode, Machine
from tests.node.packages import find_programs

ASKED_FOR = "KOORD_TEST_NODE"
_FLAGS = ("--allow-privileged=true",)
_USERS = {"kubelet": (NODE_USER, "system:nodes")}


def _why_not() -> str:
    if not os.environ.get(ASKED_FOR):
        return f"makes this machine a Kubernetes node: `make test-node`, or set {ASKED_FOR}=1"
    if os.geteuid() != 0:
        return "only root can make this machine a node"
    assets, why = find_assets(BUILT)
    if assets is not None and not (assets / "kubelet").exists():
        why = f"no kubelet in {assets}; `make kubernetes` builds one"
    return why or find_programs()[1] or cgroups.why_not()


@pytest.fixture(scope="session")
def wanted() -> None:
    """Skips, saying why, where this machine shall not or cannot become a node."""
    if why := _why_not():
        pytest.skip(why)


@pytest.fixture(scope="session")
def cluster(wanted: None) -> Iterator[Cluster]:
    """The cluster with definitions, workloads, webhook and manager; the agent is not there yet."""
    (assets, _), (programs, _) = find_assets(BUILT), find_programs()
    assert assets is not None and programs is not None
    with ControlPlane(assets, apiserver_flags=_FLAGS, users=_USERS) as plane:
        try:
            machine = Machine(plane, programs)
        except CannotBeNode as taken:
            pytest.skip(str(taken))
        try:
            machine.start()
            made = Cluster(plane, machine)
            made.install_definitions()
            made.install_control()
            made.apply_file("workloads.yaml", image=archives.BUSYBOX_IMAGE)
            made.wait_pod("shop", "web")
            yield made
        finally:
            machine.stop()


@pytest.fixture(scope="module")
def koordlet(cluster: Cluster) -> Iterator[None]:
    """The agent runs, and with suppression by quota on."""
    configure(cluster, "cfsQuota")
    cluster.install_koordlet()
    yield
    cluster.uninstall_koordlet()
