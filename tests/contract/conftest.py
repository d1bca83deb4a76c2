"""Every test of the contract runs against each target: the sandbox, a real control plane, a named cluster."""

import itertools
import os
import secrets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract import api as plain
from tests.contract import targets

KUBECTL = Path(__file__).resolve().parents[2] / ".venv/bin/kubectl"
_COUNTER = itertools.count(1)


@pytest.fixture(scope="session", params=[name for name in targets.TARGETS if not targets.why_not(name)])
def kubeconfig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of the target; test_targets.py tells of those that are not here."""
    with targets.running(request.param, tmp_path_factory.mktemp(request.param)) as path:
        yield path


@pytest.fixture(scope="session")
def api(kubeconfig: Path) -> plain.Api:
    """The administrator's client."""
    return plain.of_kubeconfig(kubeconfig)


@pytest.fixture(scope="session")
def stranger(kubeconfig: Path) -> plain.Api:
    """A client without credentials."""
    return plain.of_kubeconfig(kubeconfig, anonymous=True)


@pytest.fixture
def unique() -> str:
    """A name that no other test and no earlier run has used."""
    return f"c{next(_COUNTER)}-{secrets.token_hex(3)}"


@pytest.fixture
def namespace(api: plain.Api, unique: str) -> Iterator[str]:
    """A fresh namespace with its default service account; it is deleted without waiting for its end."""
    made = api.post("/api/v1/namespaces", {"metadata": {"name": unique}})
    assert made.status == 201, made.body
    account = api.post(f"/api/v1/namespaces/{unique}/serviceaccounts", {"metadata": {"name": "default"}})
    assert account.status in (201, 409), account.body
    yield unique
    api.delete(f"/api/v1/namespaces/{unique}")


@pytest.fixture
def node(api: plain.Api, unique: str) -> Iterator[str]:
    """A node that nobody runs: pods bound to it stay as they are. Without a node they would be cleaned up."""
    name = f"node-{unique}"
    assert api.post("/api/v1/nodes", {"metadata": {"name": name}}).status == 201
    yield name
    api.delete(f"/api/v1/nodes/{name}")


Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kubectl(kubeconfig: Path, namespace: str, tmp_path: Path) -> Kubectl:
    """Runs kubectl in the test's namespace; `check=False` lets it fail, `stdin` is what it reads."""
    if not KUBECTL.exists():
        pytest.skip(f"no kubectl at {KUBECTL}")

    def run(
        *arguments: str, check: bool = True, stdin: str = "", timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        command = [str(KUBECTL), f"--kubeconfig={kubeconfig}", f"--namespace={namespace}", *arguments]
        environment = {**os.environ, "HOME": str(tmp_path), "KUBECACHEDIR": str(tmp_path / "cache")}
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=timeout, env=environment, check=False
        )
        if check:
            assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}{done.stdout}"
        return done

    return run
