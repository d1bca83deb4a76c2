"""A real Kubernetes control plane on loopback: etcd, API server (RBAC on), scheduler, controllers.

The binaries come from a folder in envtest's form (`KUBEBUILDER_ASSETS`, or what `make kubernetes` built). By hand:
`python tests/kubernetes/control_plane.py` starts one, prints its kubeconfig and ends on Ctrl-C.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from certs.authority import KeyPair, issue_authority, issue_serving

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / ".kubernetes" / "bin"
PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager")
START_DEADLINE_S = 60.0
PR_SET_PDEATHSIG = 1
ADMIN_GROUP = "system:masters"


def find_assets(default: Path | None = None) -> tuple[Path | None, str]:
    """The folder of binaries that $KUBEBUILDER_ASSETS names, else `default`; or None and why there is none."""
    named = os.environ.get("KUBEBUILDER_ASSETS")
    folder = Path(named) if named else default
    if folder is None:
        return None, "KUBEBUILDER_ASSETS is not set (make test-kubernetes builds what it names, and runs this)"
    missing = [program for program in PROGRAMS[:2] if not (folder / program).exists()]
    if missing:
        return None, f"no {' and '.join(missing)} in {folder}; `make kubernetes` builds them where Go is present"
    return folder, ""


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], what: str, deadline_s: float = START_DEADLINE_S) -> None:
    """Poll until the condition holds. Raises TimeoutError naming what did not come true."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {deadline_s:.0f} s")
        time.sleep(0.05)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class ControlPlane:
    """Starts, breaks and stops the programs; everything it makes lives in one folder that `stop` removes."""

    def __init__(
        self,
        assets: Path,
        *,
        programs: tuple[str, ...] = PROGRAMS,
        apiserver_flags: tuple[str, ...] = (),
        users: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        """`users`: more kubeconfigs to write, by file name without suffix: (user, group) of each."""
        self.assets = assets
        self.programs = tuple(program for program in programs if (assets / program).exists())
        self.folder = Path(tempfile.mkdtemp(prefix="koord-kubernetes-"))
        self.port = free_port()
        self.etcd_port = free_port()
        self.server = f"https://127.0.0.1:{self.port}"
        self.kubeconfig = self.folder / "admin.kubeconfig"
        self._apiserver_flags = apiserver_flags
        self._users = dict(users or {})
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._tokens: dict[str, str] = {}
        self._authority = issue_authority(datetime.now(UTC), name="koord test cluster")
        self._service_hosts = ["127.0.0.1", "localhost", "kubernetes.default.svc", "10.0.0.1"]

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything and wait until the API server is ready and the default namespace exists."""
        self._write_credentials()
        for program in self.programs:
            self.launch(program)
            if program == "kube-apiserver":
                wait_until(self.is_ready, "API server ready" + self.tail_of("kube-apiserver"))
        wait_until(lambda: self.api("GET", "/api/v1/namespaces/default")[0] == 200, "namespace default")

    def stop(self) -> None:
        """End all programs, last started first, and remove the folder."""
        for program in reversed(list(self._processes)):
            self.end(program, signal.SIGTERM)
        shutil.rmtree(self.folder, ignore_errors=True)

    def launch(self, program: str) -> None:
        """Start one program with its log in the folder."""
        with open(self.folder / f"{program}.log", "ab") as log:
            self._processes[program] = subprocess.Popen(
                [self.assets / program, *getattr(self, "_flags_of_" + program.replace("-", "_"))()],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    def end(self, program: str, how: signal.Signals = signal.SIGKILL, grace_s: float = 10.0) -> None:
        """Signal one program and wait for its end; SIGKILL when the grace is over."""
        process = self._processes.pop(program)
        process.send_signal(signal.SIGCONT)
        process.send_signal(how)
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def restart(self, program: str) -> None:
        """Kill one program and start it again on the same ports and data."""
        self.end(program)
        self.launch(program)

    def pause(self, program: str) -> None:
        """Stop one program without ending it; its connections stay open and silent."""
        self._processes[program].send_signal(signal.SIGSTOP)

    def resume(self, program: str) -> None:
        """Let a paused program go on."""
        self._processes[program].send_signal(signal.SIGCONT)

    def compact(self) -> None:
        """Drop etcd's history, so that watches from before get 410."""
        status, body = self.etcd("/v3/kv/range", {"key": base64.b64encode(b"compact_rev_key").decode()})
        assert status == 200, body
        revision = body["header"]["revision"]
        status, body = self.etcd("/v3/kv/compaction", {"revision": revision, "physical": True})
        assert status == 200, body

    def etcd(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """One call of etcd's JSON gateway: status and decoded body."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.etcd_port}{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        return _send(request, None)

    def api(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """One call as the administrator: status (0 when refused) and decoded body."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._tokens['admin']}", "Content-Type": "application/json"}
        context = ssl.create_default_context(cadata=self._authority.certificate_pem.decode())
        return _send(urllib.request.Request(self.server + path, data, headers, method=method), context)

    def is_ready(self) -> bool:
        """Whether the API server says so; raises when it has ended."""
        process = self._processes["kube-apiserver"]
        if process.poll() is not None:
            raise RuntimeError(f"kube-apiserver ended with {process.returncode}:{self.tail_of('kube-apiserver')}")
        return self.api("GET", "/readyz")[0] == 200

    def tail_of(self, program: str, lines: int = 20) -> str:
        """The end of a program's log."""
        log = self.folder / f"{program}.log"
        return "\n" + "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""

    def kubeconfig_for(self, name: str, token: str) -> Path:
        """Write a kubeconfig that uses a bearer token; service account tokens come from the TokenRequest API."""
        path = self.folder / f"{name}.kubeconfig"
        cluster = {
            "server": self.server,
            "certificate-authority-data": base64.b64encode(self._authority.certificate_pem).decode(),
        }
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "current-context": "test",
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(document))
        return path

    def token_of_service_account(self, namespace: str, name: str, lifetime_s: int = 3600) -> str:
        """A bound token of a service account (the API's minimum lifetime is 600 s)."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": lifetime_s},
        }
        status, answer = self.api("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", body)
        assert status == 201, answer
        return str(answer["status"]["token"])

    def _write_credentials(self) -> None:
        serving = issue_serving(self._authority, self._service_hosts, datetime.now(UTC))
        self._write_pair("serving", serving)
        (self.folder / "ca.crt").write_bytes(self._authority.certificate_pem)
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        (self.folder / "service-account.key").write_bytes(pem)
        users = {
            "admin": ("kubernetes-admin", ADMIN_GROUP),
            "kube-scheduler": ("system:kube-scheduler", ""),
            "kube-controller-manager": ("system:kube-controller-manager", ""),
            **self._users,
        }
        self._tokens = {name: secrets.token_hex(16) for name in users}
        rows = [f'{self._tokens[name]},{user},{user},"{group}"' for name, (user, group) in users.items()]
        (self.folder / "tokens.csv").write_text("\n".join(rows) + "\n")
        for name, token in self._tokens.items():
            self.kubeconfig_for(name, token)

    def _write_pair(self, name: str, pair: KeyPair) -> None:
        (self.folder / f"{name}.crt").write_bytes(pair.certificate_pem)
        (self.folder / f"{name}.key").write_bytes(pair.key_pem)

    def _flags_of_etcd(self) -> list[str]:
        peer = f"http://127.0.0.1:{free_port()}"
        client = f"http://127.0.0.1:{self.etcd_port}"
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync=true",
        ]

    def _flags_of_kube_apiserver(self) -> list[str]:
        return [
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            "--tls-cert-file=serving.crt",
            "--tls-private-key-file=serving.key",
            f"--cert-dir={self.folder}",
            "--client-ca-file=ca.crt",
            "--token-auth-file=tokens.csv",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=service-account.key",
            "--service-account-signing-key-file=service-account.key",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--enable-priority-and-fairness=false",
            "--endpoint-reconciler-type=none",
            *self._apiserver_flags,
        ]

    def _flags_of_kube_scheduler(self) -> list[str]:
        return ["--kubeconfig=kube-scheduler.kubeconfig", "--leader-elect=false", f"--secure-port={free_port()}"]

    def _flags_of_kube_controller_manager(self) -> list[str]:
        return [
            "--kubeconfig=kube-controller-manager.kubeconfig",
            "--leader-elect=false",
            f"--secure-port={free_port()}",
            "--use-service-account-credentials=true",
            "--service-account-private-key-file=service-account.key",
            "--root-ca-file=ca.crt",
            "--cluster-cidr=10.1.0.0/16",
            "--allocate-node-cidrs=false",
        ]


def _send(request: urllib.request.Request, context: ssl.SSLContext | None) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as response:
            text = response.read()
            status = response.status
    except urllib.error.HTTPError as error:
        with error:
            text = error.read()
            status = error.code
    except OSError as error:
        return 0, str(error)
    try:
        return status, json.loads(text)
    except ValueError:
        return status, text.decode(errors="replace")


def main() -> int:
    """Hold a control plane up until interrupted."""
    assets, reason = find_assets(default=BUILT)
    if assets is None:
        print(reason, file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    with contextlib.suppress(KeyboardInterrupt), ControlPlane(assets) as plane:
        print(
            json.dumps(
                {"kubeconfig": str(plane.kubeconfig), "server": plane.server, "up_s": time.monotonic() - began}
            )
        )
        sys.stdout.flush()
        signal.pause()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
