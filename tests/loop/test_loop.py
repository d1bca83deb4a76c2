"""The whole loop as a person drives it with kubectl: profile, namespace, Deployment, load."""

import asyncio
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
import yaml

from koord.api import names
from sandbox.demo.cgroup_values import of_this_machine, why_not_writable
from sandbox.demo.cluster_process import ClusterProcess
from sandbox.demo.components import NODE_NAME
from sandbox.demo.kubectl import find_kubectl

WHY_NOT = why_not_writable(of_this_machine())
HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"


@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "cgroups can be written")
async def test_kubectl_drives_the_loop_and_the_nodes_batch_resources_follow_its_load(tmp_path):
    place = Path(tempfile.mkdtemp(prefix="koord-demo-"))
    cluster = ClusterProcess(place, lambda *_: None)
    try:
        await cluster.start(confined=True)
        environment = {
            "PATH": f"{Path(find_kubectl()).parent}:{os.environ['PATH']}",
            "KUBECONFIG": str(place / "kubeconfig"),
            "HOME": str(tmp_path),
            "EXAMPLES": str(EXAMPLES),
            "NODE": NODE_NAME,
            "OUT": str(tmp_path),
        }
        script = await asyncio.create_subprocess_exec(
            "sh",
            str(HERE / "loop.sh"),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        said, _ = await asyncio.wait_for(script.communicate(), 300)
        assert script.returncode == 0, said.decode()
    finally:
        await cluster.stop()
    pod = yaml.safe_load((tmp_path / "pod.yaml").read_text())
    assert pod["metadata"]["labels"] | {names.LABEL_QOS: "BE", "team": "data"} == pod["metadata"]["labels"]
    assert pod["spec"]["priorityClassName"] == "koord-batch"
    assert 5000 <= pod["spec"]["priority"] <= 5999
    assert pod["status"]["qosClass"] == "BestEffort"
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {names.BATCH_CPU: "200", names.BATCH_MEMORY: "64Mi"}
    assert resources["limits"] == {names.BATCH_CPU: "1k", names.BATCH_MEMORY: "128Mi"}
    described = (tmp_path / "node.txt").read_text()
    assert names.BATCH_CPU in described
