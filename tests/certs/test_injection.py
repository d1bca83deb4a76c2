"""caBundle: only our entries, old and new CA together, nothing written when nothing changes."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonpatch
import pytest
from cryptography import x509

from certs.authority import KeyPair, issue_authority, issue_serving
from certs.bundle import MAX_AUTHORITIES, merge_bundle, trusts
from certs.injection import is_trusted, trust_operations
from certs.material import verifies

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OURS = "mpod-create.koordinator.sh"


@pytest.fixture(scope="module")
def old() -> KeyPair:
    return issue_authority(NOW, lifetime=timedelta(days=30))


@pytest.fixture(scope="module")
def new() -> KeyPair:
    return issue_authority(NOW)


def configuration(**bundles: str | None) -> dict[str, Any]:
    webhooks = []
    for name, bundle in bundles.items():
        client_config: dict[str, Any] = {"service": {"name": "s", "namespace": "n"}}
        if bundle is not None:
            client_config["caBundle"] = bundle
        webhooks.append({"name": name.replace("_", "."), "clientConfig": client_config})
    return {"metadata": {"name": "c"}, "webhooks": webhooks}


def test_only_our_entry_gets_the_bundle(new: KeyPair) -> None:
    before = configuration(foreign_example="Zm9v", mine_example=None)
    operations = trust_operations(before, {"mine.example"}, new.certificate_pem, NOW)
    after = jsonpatch.apply_patch(before, operations)
    assert after["webhooks"][0] == before["webhooks"][0]
    assert trusts(after["webhooks"][1]["clientConfig"]["caBundle"], new.certificate_pem)
    assert is_trusted(after, {"mine.example"}, new.certificate_pem)
    assert trust_operations(after, {"mine.example"}, new.certificate_pem, NOW) == []


def test_a_list_that_changed_meanwhile_fails_the_patch_instead_of_hitting_another_entry(new: KeyPair) -> None:
    before = configuration(mine_example=None, foreign_example=None)
    operations = trust_operations(before, {"mine.example"}, new.certificate_pem, NOW)
    changed = configuration(foreign_example=None, mine_example=None)
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(changed, operations)


def test_during_a_rotation_certificates_of_both_authorities_verify(old: KeyPair, new: KeyPair) -> None:
    bundle = merge_bundle(merge_bundle("", old.certificate_pem, NOW), new.certificate_pem, NOW)
    pem = base64.b64decode(bundle)
    for authority in (old, new):
        leaf = issue_serving(authority, ["w.svc"], NOW)
        assert verifies(leaf.certificate_pem, pem, "w.svc", NOW)


def test_an_expired_authority_leaves_the_bundle(old: KeyPair, new: KeyPair) -> None:
    bundle = merge_bundle(merge_bundle("", old.certificate_pem, NOW), new.certificate_pem, NOW)
    later = merge_bundle(bundle, new.certificate_pem, NOW + timedelta(days=31))
    assert trusts(later, new.certificate_pem)
    assert not trusts(later, old.certificate_pem)


@pytest.mark.parametrize("garbage", ["Cg==", "!!!", base64.b64encode(b"placeholder").decode()])
def test_a_placeholder_is_overwritten(new: KeyPair, garbage: str) -> None:
    assert trusts(merge_bundle(garbage, new.certificate_pem, NOW), new.certificate_pem)


def test_a_bundle_does_not_grow_without_bound(new: KeyPair) -> None:
    bundle = ""
    for _ in range(MAX_AUTHORITIES + 3):
        bundle = merge_bundle(bundle, issue_authority(NOW).certificate_pem, NOW)
    bundle = merge_bundle(bundle, new.certificate_pem, NOW)
    assert len(x509.load_pem_x509_certificates(base64.b64decode(bundle))) == MAX_AUTHORITIES
    assert trusts(bundle, new.certificate_pem)


def test_a_configuration_without_our_entry_is_not_trusted(new: KeyPair) -> None:
    assert not is_trusted(configuration(foreign_example=None), {OURS}, new.certificate_pem)
    assert trust_operations({"webhooks": None}, {OURS}, new.certificate_pem, NOW) == []
