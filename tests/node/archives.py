"""Container images as docker archives, made on this machine without a registry.

`busybox` holds Debian's static busybox and serves as the sandbox (pause) image too. `koord` holds this machine's
Python at its own paths, the distributions that the project depends on, and the project: what `pip install` would
give, without tests and compilers.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import platform
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
SITE = "opt/koord"
PACKAGES = ("koord", "certs", "webhook", "manager", "koordlet")
BUSYBOX_IMAGE = "localhost/busybox:test"
PAUSE_IMAGE = "localhost/pause:test"
KOORD_IMAGE = "localhost/koord:test"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_APPLETS = ("sh", "sleep", "cat", "tail")
_NOT_NEEDED = {"test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "site-packages"}
_GENERATED = {"api", "models"}
"""Folders of the kubernetes distribution that hold a class per API object, 110 MB; the project uses its own."""
_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")


@dataclass(frozen=True)
class Image:
    """A tag, what it runs, and the environment it gives."""

    tag: str
    entrypoint: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()


def write_busybox(archive: Path, busybox: Path) -> None:
    """An archive with the busybox and the pause image. Raises OSError."""
    layer = archive.with_suffix(".layer")
    with tarfile.open(layer, "w") as tar:
        _add_folders(tar)
        tar.add(busybox, "bin/busybox")
        for applet in _APPLETS:
            _add_link(tar, f"bin/{applet}", "busybox")
    pause = Image(PAUSE_IMAGE, ("/bin/busybox", "sleep", "100000000"))
    _write_archive(archive, layer, [Image(BUSYBOX_IMAGE), pause])


def write_koord(archive: Path) -> None:
    """An archive with this checkout's components; `python` runs them. Raises OSError and CalledProcessError."""
    layer = archive.with_suffix(".layer")
    interpreter = Path(sys.executable).resolve()
    files = dict(_interpreter_files(interpreter))
    files |= dict(_distribution_files())
    files |= dict(_project_files())
    native = [interpreter, *(path for path in files.values() if ".so" in path.suffixes)]
    files |= {str(path).lstrip("/"): path for path in _libraries_of(native)}
    with tarfile.open(layer, "w") as tar:
        _add_folders(tar)
        for name in sorted(files):
            tar.add(files[name].resolve(), name, recursive=False)
        _add_link(tar, "usr/bin/python", str(interpreter))
    environment = (f"PYTHONPATH=/{SITE}", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1")
    _write_archive(archive, layer, [Image(KOORD_IMAGE, ("/usr/bin/python",), environment)])


def _interpreter_files(interpreter: Path) -> Iterator[tuple[str, Path]]:
    yield str(interpreter).lstrip("/"), interpreter
    for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}:
        base = Path(folder.replace(sys.prefix, sys.base_prefix))
        for path in base.rglob("*"):
            inside = path.relative_to(base).parts
            is_needed = not any(part in _NOT_NEEDED or part.startswith(("config-", "_tkinter")) for part in inside)
            if is_needed and path.is_file():
                yield str(path).lstrip("/"), path


def _distribution_files() -> Iterator[tuple[str, Path]]:
    for distribution in _dependencies("koord"):
        for file in distribution.files or ():
            path = Path(str(file.locate()))
            if ".." not in file.parts and not _is_generated(file) and path.is_file():
                yield f"{SITE}/{file}", path


def _is_generated(file: PurePath) -> bool:
    return file.parts[0] == "kubernetes" and not _GENERATED.isdisjoint(file.parts) and file.stem != "__init__"


def _dependencies(root: str) -> list[importlib.metadata.Distribution]:
    """What a distribution needs at run time, with what that needs; not the distribution itself."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = [root]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        found[name] = importlib.metadata.distribution(name)
        wanted = map(Requirement, found[name].requires or ())
        waiting += [one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    del found[root]
    return list(found.values())


def _project_files() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"{SITE}/{path.relative_to(ROOT)}", path


def _libraries_of(programs: Sequence[Path]) -> set[Path]:
    """The shared libraries that the dynamic linker would load, and the linker, where it finds them."""
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    return {Path(found) for found in _LIBRARY.findall(said)}


def _add_folders(tar: tarfile.TarFile) -> None:
    for name, mode in (("tmp", 0o1777), ("etc", 0o755), ("root", 0o700)):
        folder = tarfile.TarInfo(name)
        folder.type, folder.mode = tarfile.DIRTYPE, mode
        tar.addfile(folder)
    for name, text in (("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"), ("etc/group", "root:x:0:\n")):
        file = tarfile.TarInfo(name)
        file.size = len(text)
        tar.addfile(file, io.BytesIO(text.encode()))


def _add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    link = tarfile.TarInfo(name)
    link.type, link.linkname, link.mode = tarfile.SYMTYPE, target, 0o777
    tar.addfile(link)


def _write_archive(archive: Path, layer: Path, images: Sequence[Image]) -> None:
    """The format of `docker save`: a manifest, a configuration per image, their common layer (which is consumed)."""
    with layer.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    manifest = []
    with tarfile.open(archive, "w") as tar:
        for image in images:
            config = json.dumps(
                {
                    "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
                    "os": "linux",
                    "config": {"Entrypoint": image.entrypoint, "Env": ["PATH=/bin:/usr/bin", *image.environment]},
                    "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
                }
            ).encode()
            name = f"{hashlib.sha256(config).hexdigest()}.json"
            _add_bytes(tar, name, config)
            manifest.append({"Config": name, "RepoTags": [image.tag], "Layers": [f"{digest}/layer.tar"]})
        tar.add(layer, f"{digest}/layer.tar")
        _add_bytes(tar, "manifest.json", json.dumps(manifest).encode())
    layer.unlink()


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    file = tarfile.TarInfo(name)
    file.size = len(content)
    tar.addfile(file, io.BytesIO(content))
