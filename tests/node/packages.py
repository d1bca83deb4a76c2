"""Debian's containerd, runc, CNI plugins and busybox: the machine's own, or fetched by apt into an ignored folder.

Nothing is installed: a package's service would start, and it could displace another container runtime.
By hand: `python -m tests.node.packages` fetches and says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FETCHED = ROOT / ".kubernetes" / "packages"
PACKAGES = ("containerd", "runc", "containernetworking-plugins", "busybox-static")
_FOLDERS = ("usr/bin", "usr/sbin", "bin", "sbin")
_CNI_FOLDERS = ("usr/lib/cni", "opt/cni/bin", "usr/libexec/cni")
_WANTED = ("containerd", "containerd-shim-runc-v2", "ctr", "runc")


@dataclass(frozen=True)
class Programs:
    """Where the programs are: folders to search in order, and the folder of CNI plugins."""

    folders: tuple[Path, ...]
    cni: Path

    @property
    def search_path(self) -> str:
        """The folders as $PATH has them."""
        return ":".join(map(str, self.folders))

    def path(self, name: str) -> Path:
        """A program. Raises FileNotFoundError."""
        found = shutil.which(name, path=self.search_path)
        if found is None:
            raise FileNotFoundError(f"no {name} in {self.search_path}")
        return Path(found)


def find_programs() -> tuple[Programs | None, str]:
    """The programs, or None and what is missing. The fetched ones come first: they belong together."""
    tops = (FETCHED, Path("/"))
    folders = tuple(top / folder for top in tops for folder in (*_FOLDERS, "usr/local/bin"))
    cni = next(
        (top / folder for top in tops for folder in _CNI_FOLDERS if (top / folder / "loopback").exists()), None
    )
    path = ":".join(map(str, folders))
    missing = [name for name in _WANTED if shutil.which(name, path=path) is None]
    missing += [] if cni is not None else ["CNI plugins"]
    missing += [] if _is_static(shutil.which("busybox", path=path)) else ["static busybox"]
    if missing or cni is None:
        return None, f"missing: {', '.join(missing)}; `make test-node` fetches them where apt works"
    return Programs(folders, cni), ""


def _is_static(program: str | None) -> bool:
    if program is None:
        return False
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    return said.returncode != 0 or "statically linked" in said.stdout


def fetch() -> str:
    """Fetch and unpack the packages; why it failed, or "" when the programs are there."""
    if os.geteuid() != 0:
        return "only root can make this machine a node"
    apt = shutil.which("apt-get")
    if apt is None or shutil.which("dpkg-deb") is None:
        return "no apt here to fetch containerd, runc, containernetworking-plugins and busybox-static"
    downloads = FETCHED.with_suffix(".part")
    shutil.rmtree(downloads, ignore_errors=True)
    downloads.mkdir(parents=True)
    print(f"fetching {', '.join(PACKAGES)} with apt into {FETCHED.relative_to(ROOT)}; nothing is installed")
    sandbox = ["-o", "APT::Sandbox::User=root"]
    commands = [[apt, *sandbox, "-qq", "download", *PACKAGES]]
    if subprocess.run(commands[0], cwd=downloads, capture_output=True, check=False).returncode:
        commands.insert(0, [apt, *sandbox, "-qq", "update"])  # no lists yet, or old ones
        for command in commands:
            done = subprocess.run(command, cwd=downloads, capture_output=True, text=True, check=False)
            if done.returncode:
                return f"{' '.join(command)}: {done.stderr.strip()}"
    for package in sorted(downloads.glob("*.deb")):
        done = subprocess.run(["dpkg-deb", "-x", package, downloads], capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{package.name} cannot be unpacked: {done.stderr.strip()}"
        package.unlink()
    shutil.rmtree(FETCHED, ignore_errors=True)
    downloads.rename(FETCHED)
    return find_programs()[1]


def main() -> int:
    """Make sure that the programs are there; 0 also when they cannot be had: the tests skip then, aloud."""
    if find_programs()[0] is None and (why := fetch()):
        print(f"the tests on a real node will be skipped: {why}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
