"""`koordctl sandbox` from the outside."""

import os
import re
import signal
import subprocess
import sys

from sandbox.demo.kubectl import find_kubectl


def test_the_sandbox_serves_kubectl_until_interrupted_and_leaves_nothing(machine_state, tmp_path):
    running = subprocess.Popen([sys.executable, "-m", "koordctl", "sandbox"], stdout=subprocess.PIPE, text=True)
    try:
        said = ""
        while "Ctrl-C" not in said:
            line = running.stdout.readline()
            assert line, said
            said += line
        kubeconfig = re.search(r"export KUBECONFIG=(\S+)", said).group(1)
        answer = subprocess.run(
            [find_kubectl(), "get", "nodes", "-o", "name"],
            env={"PATH": os.environ["PATH"], "KUBECONFIG": kubeconfig, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert answer.stdout.startswith("node/")
    finally:
        running.send_signal(signal.SIGINT)
        rest, _ = running.communicate(timeout=60)
    assert running.returncode == 0, rest
    machine_state.wait_unchanged()
