"""Protobuf bodies: real ones, as kubectl sends them, and broken ones."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sandbox.apiserver.wire import protobuf
from tests.sandbox.apiserver import protobuf_table

ROOT = Path(__file__).resolve().parents[3]


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def text(number: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def envelope(api_version: str, kind: str, message: bytes) -> bytes:
    return (
        protobuf.MAGIC + text(1, text(1, api_version) + text(2, kind)) + text(2, message) + text(3, "") + text(4, "")
    )


def test_a_config_map() -> None:
    metadata = text(1, "a") + text(2, "") + text(8, b"") + text(11, text(1, "label") + text(2, "x"))
    message = text(1, metadata) + text(2, text(1, "k") + text(2, "v")) + text(3, text(1, "b") + text(2, b"\x00\xff"))
    assert protobuf.decode(envelope("v1", "ConfigMap", message)) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "labels": {"label": "x"}},
        "data": {"k": "v"},
        "binaryData": {"b": "AP8="},
    }


def test_inlined_members_numbers_quantities_and_times() -> None:
    probe = text(1, text(2, text(1, "/ready") + text(2, whole(1, 0) + whole(2, 8080)))) + whole(2, 5)
    limits = text(1, "cpu") + text(2, text(1, "500m"))
    container = text(1, "c") + text(8, text(1, limits)) + text(11, probe) + whole(16, 0)
    volume = text(1, "v") + text(2, text(2, text(1, "") + text(2, text(1, "1Gi"))))
    spec = text(1, volume) + text(2, container) + whole(4, 0) + whole(25, -10)
    status = text(7, whole(1, 1_767_225_600) + whole(2, 0))
    found = protobuf.decode(envelope("v1", "Pod", text(2, spec) + text(3, status)))
    assert found["spec"]["containers"][0] == {
        "name": "c",
        "resources": {"limits": {"cpu": "500m"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "initialDelaySeconds": 5},
    }
    assert found["spec"]["volumes"] == [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]
    assert found["spec"]["terminationGracePeriodSeconds"] == 0
    assert found["spec"]["priority"] == -10
    assert found["status"]["startTime"] == "2026-01-01T00:00:00Z"


def test_options_have_no_group_of_their_own() -> None:
    body = envelope("policy/v1", "DeleteOptions", whole(1, 0) + text(2, text(1, "uid-1")))
    found = protobuf.decode(body)
    assert (found["gracePeriodSeconds"], found["preconditions"]) == (0, {"uid": "uid-1"})


def test_unknown_members_are_skipped() -> None:
    message = (
        text(1, text(1, "a")) + whole(900, 1) + varint(901 << 3 | 5) + b"1234" + varint(902 << 3 | 1) + b"12345678"
    )
    assert protobuf.decode(envelope("v1", "ConfigMap", message))["metadata"] == {"name": "a"}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "magic"),
        (b"k8s\x00\x0a\xff", "ends within"),
        (envelope("g/v1", "Unheard", b""), 'kind "Unheard"'),
        (envelope("v1", "ConfigMap", b"\x0a\x7f"), "ends within a member"),
        (envelope("v1", "ConfigMap", whole(1, 3)), "a number stands where bytes are expected"),
        (envelope("v1", "ConfigMap", text(1, text(1, b"\xff"))), "not UTF-8"),
        (envelope("v1", "ConfigMap", b"\x0b"), "wire type 3"),
    ],
)
def test_broken_bodies_say_what_is_wrong(body: bytes, told: str) -> None:
    with pytest.raises(protobuf.Undecodable, match=told):
        protobuf.decode(body)


@given(st.binary(max_size=80), st.sampled_from(["ConfigMap", "Pod", "Secret", "Event"]))
def test_no_bytes_bring_the_reader_down(body: bytes, kind: str) -> None:
    for candidate in (protobuf.MAGIC + body, envelope("v1", kind, body)):
        try:
            protobuf.decode(candidate)
        except protobuf.Undecodable:
            continue


def test_the_table_is_that_of_the_go_sources() -> None:
    cache = os.environ.get("GOMODCACHE") or str(Path.home() / "go/pkg/mod")
    if not list(Path(cache).glob("k8s.io/api@*")):
        pytest.skip(f"no k8s.io/api sources in {cache}; `make kubernetes` brings them")
    version = _built_version()
    folders = [Path(cache, "k8s.io", f"{name}@{version}") for name in ("api", "apimachinery")]
    if not all(folder.is_dir() for folder in folders):
        pytest.skip(f"k8s.io/api {version} is not in {cache}")
    made = {message: members for message, members in protobuf_table.table(*folders).items() if members}
    kept = yaml.load((ROOT / "sandbox/apiserver/wire/fields.yaml").read_text(), Loader=yaml.CSafeLoader)
    assert kept == made


def _built_version() -> str:
    listed = subprocess.run(
        ["grep", "k8s.io/component-base ", str(ROOT / "tests/kubernetes/cluster/go.mod")],
        capture_output=True,
        text=True,
        check=True,
    )
    return listed.stdout.split()[-1]
