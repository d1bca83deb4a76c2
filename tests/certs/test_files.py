"""The certificate directory: modes, atomicity, several processes."""

from __future__ import annotations

import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs.authority import issue_authority, issue_serving
from certs.files import FileStore
from certs.material import Material, Problem

NOW = datetime(2026, 3, 1, tzinfo=UTC)
HOSTS = ["webhook.svc"]


def make_material() -> Material:
    authority = issue_authority(NOW)
    return Material(authority, issue_serving(authority, HOSTS, NOW))


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "certs")
    assert store.load() is None
    material = make_material()
    store.save(material)
    assert store.load() == material
    assert store.serving_certificate.read_bytes() == material.serving.certificate_pem


def test_everything_is_private_also_in_a_directory_that_was_open(tmp_path: Path) -> None:
    directory = tmp_path / "certs"
    directory.mkdir(mode=0o777)
    directory.chmod(0o777)
    FileStore(directory).ensure(HOSTS, NOW)
    for path in [directory, *directory.rglob("*")]:
        mode = stat.S_IMODE(path.lstat().st_mode)
        if not path.is_symlink():
            assert mode == (0o700 if path.is_dir() else 0o600), path


def test_a_new_version_replaces_the_old_by_one_link(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    store.save(make_material())
    first = (tmp_path / "current").readlink()
    second_material = make_material()
    store.save(second_material)
    assert (tmp_path / "current").readlink() != first
    assert store.load() == second_material
    # A reader that resolved the link before the swap still finds its files.
    assert (tmp_path / first / "tls.key").is_file()
    store.save(make_material())
    assert len(list((tmp_path / "versions").iterdir())) == 2
    assert not (tmp_path / first).exists()


def test_sound_material_is_kept_and_due_material_renewed(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    made, before = store.ensure(HOSTS, NOW)
    assert before.problem is Problem.ABSENT
    kept, before = store.ensure(HOSTS, NOW + timedelta(days=1))
    assert (kept, before.problem) == (made, Problem.NONE)
    renewed, before = store.ensure(HOSTS, NOW + timedelta(days=300))
    assert before.problem is Problem.EXPIRES_SOON
    assert renewed.authority == made.authority
    assert store.load() == renewed


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt", "ca.key"])
@pytest.mark.parametrize("content", [b"", b"-----BEGIN CERTIFICATE-----\nxx\n", None])
def test_a_broken_or_missing_file_counts_as_no_certificate(tmp_path: Path, name: str, content: bytes | None) -> None:
    store = FileStore(tmp_path)
    store.save(make_material())
    path = tmp_path / "current" / name
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    repaired, before = store.ensure(HOSTS, NOW)
    assert before.needs_renewal
    assert store.load() == repaired
    assert store.ensure(HOSTS, NOW)[1].problem is Problem.NONE


ENSURE = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from certs.files import FileStore
material, _ = FileStore(Path(sys.argv[1])).ensure(["webhook.svc"], datetime(2026, 3, 1, tzinfo=UTC))
sys.stdout.buffer.write(material.authority.certificate_pem)
"""


def test_processes_that_start_at_once_agree_on_one_ca(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENSURE, str(tmp_path / "certs")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
    authorities = {process.communicate(timeout=30)[0] for process in running}
    assert [process.returncode for process in running] == [0] * 4
    assert len(authorities) == 1
