"""A real control plane for each module of these tests, and Koord's processes beside it."""

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from tests.kubernetes.control_plane import ControlPlane, find_assets
from tests.kubernetes.harness import Cluster

_NUMBERS = count(1)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    assets, why = find_assets()
    if assets is None:
        pytest.skip(f"no real control plane: {why}")
    with ControlPlane(assets) as started:
        yield started


@pytest.fixture(scope="module")
def installed(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    cluster = Cluster(plane, tmp_path_factory.mktemp("cluster"))
    cluster.install()
    return cluster


@pytest.fixture
def cluster(installed: Cluster) -> Iterator[Cluster]:
    """The module's cluster; what a test started ends with it."""
    yield installed
    installed.end_components()


@pytest.fixture
def make_namespace(cluster: Cluster) -> Callable[..., str]:
    """Makes a namespace of a name that no other test has, with labels."""

    def make(**labels: str) -> str:
        name = f"team-{next(_NUMBERS)}"
        answer = cluster.api.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        assert answer.status == 201, answer.body
        cluster.api.post(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})
        return name

    return make
