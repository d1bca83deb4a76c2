"""Certificate material in a directory, swapped atomically.

    DIR/                        mode 0700
      current -> versions/<id>  replaced by one rename: a reader sees all old files or all new ones
      versions/<id>/ca.crt ca.key tls.crt tls.key   mode 0600
      lock                      held while one process decides whether to renew

Two processes that share the directory end up with one CA: the second to take the lock reads what the first
wrote. Keys are written with their final mode from the first byte on and never logged.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from certs.authority import KeyPair
from certs.material import DEFAULT_LIFETIMES, Judgement, Lifetimes, Material, renew

AUTHORITY_CERTIFICATE, AUTHORITY_KEY = "ca.crt", "ca.key"
SERVING_CERTIFICATE, SERVING_KEY = "tls.crt", "tls.key"
_CURRENT, _VERSIONS, _LOCK = "current", "versions", "lock"
_DIRECTORY_MODE, _FILE_MODE = 0o700, 0o600


class FileStore:
    """The certificate directory of one webhook."""

    def __init__(self, directory: Path, lifetimes: Lifetimes = DEFAULT_LIFETIMES) -> None:
        self._directory = directory
        self._lifetimes = lifetimes

    @property
    def serving_certificate(self) -> Path:
        """Path of the certificate to serve; it always names the current version."""
        return self._directory / _CURRENT / SERVING_CERTIFICATE

    @property
    def serving_key(self) -> Path:
        """Path of the key to serve with."""
        return self._directory / _CURRENT / SERVING_KEY

    def load(self) -> Material | None:
        """The current material, unjudged; None when there is none or a file of it is missing."""
        try:
            version = (self._directory / _CURRENT).resolve(strict=True)
            return Material(
                KeyPair((version / AUTHORITY_CERTIFICATE).read_bytes(), (version / AUTHORITY_KEY).read_bytes()),
                KeyPair((version / SERVING_CERTIFICATE).read_bytes(), (version / SERVING_KEY).read_bytes()),
            )
        except FileNotFoundError:
            return None

    def save(self, material: Material) -> None:
        """Write a new version and make it current; older ones but the previous are removed. Raises OSError."""
        self._prepare()
        version = self._directory / _VERSIONS / secrets.token_hex(8)
        version.mkdir(mode=_DIRECTORY_MODE)
        _write(version / AUTHORITY_CERTIFICATE, material.authority.certificate_pem)
        _write(version / AUTHORITY_KEY, material.authority.key_pem)
        _write(version / SERVING_CERTIFICATE, material.serving.certificate_pem)
        _write(version / SERVING_KEY, material.serving.key_pem)
        current = self._directory / _CURRENT
        previous = current.resolve() if current.is_symlink() else None
        link = self._directory / f".{_CURRENT}.{version.name}"
        link.symlink_to(Path(_VERSIONS) / version.name)
        link.replace(current)
        for old in (self._directory / _VERSIONS).iterdir():
            if old.name != version.name and old != previous:
                shutil.rmtree(old, ignore_errors=True)

    def ensure(self, hosts: Sequence[str], now: datetime) -> tuple[Material, Judgement]:
        """Load, renew when due, save: what to serve now, and what was wrong before. Raises OSError."""
        self._prepare()
        with self._locked():
            found = self.load()
            material, before = renew(found, hosts, now, self._lifetimes)
            if material is not found:
                self.save(material)
        return material, before

    def _prepare(self) -> None:
        self._directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        # It may have existed with a wider mode; whoever can write here can replace the key.
        self._directory.chmod(_DIRECTORY_MODE)
        (self._directory / _VERSIONS).mkdir(mode=_DIRECTORY_MODE, exist_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self._directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)


class DirectoryStore:
    """The certificate directory as a source of material: what one process, or several on one machine, serve."""

    def __init__(self, files: FileStore) -> None:
        self._files = files
        self.serving_certificate = files.serving_certificate
        self.serving_key = files.serving_key

    async def ensure(self, hosts: Sequence[str], now: datetime) -> tuple[Material, Judgement]:
        """Load, renew when due, save. Raises OSError."""
        return await asyncio.to_thread(self._files.ensure, hosts, now)
