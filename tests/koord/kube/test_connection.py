"""Every way to be somebody at an API server, over real TLS."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import stat
import sys
import time

import pytest

from koord.kube import access
from koord.kube.access import AccessError, load_in_cluster
from koord.kube.client import Client
from koord.kube.connection import Connection, connect
from koord.kube.errors import Unauthorized, Unavailable
from koord.kube.proxy import proxy_for
from koord.kube.resources import PODS
from koord.kube.store import Store


async def whoami(client, server):
    """List pods; returns the Authorization header that the server saw."""
    await client.list(PODS)
    return server.requests[-1].headers.get("Authorization")


def write_plugin(directory, answer):
    """An exec plugin that prints `answer`, a shell word, and counts its runs."""
    path = directory / "plugin.py"
    path.write_text(
        f"#!{sys.executable}\n"
        "import json, os, pathlib, time\n"
        f"runs = pathlib.Path({str(directory / 'runs')!r})\n"
        "count = len(runs.read_text()) if runs.exists() else 0\n"
        "runs.write_text('x' * (count + 1))\n"
        f"{answer}\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin.py", "interactiveMode": "Never"}


TOKEN_PLUGIN = (
    "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',"
    " 'status': {'token': f'run-{count}'}}))"
)


async def test_token_in_the_kubeconfig(kit, server):
    async with await kit.client(server, {"token": "secret"}) as client:
        assert await whoami(client, server) == "Bearer secret"


async def test_user_and_password(kit, server):
    async with await kit.client(server, {"username": "u", "password": "p"}) as client:
        assert await whoami(client, server) == "Basic " + base64.b64encode(b"u:p").decode()


@pytest.mark.parametrize("user", [None, {}], ids=["no user section", "empty user"])
async def test_anonymous(kit, server, user):
    async with await kit.client(server, user) as client:
        assert await whoami(client, server) is None


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "files"])
async def test_client_certificate(kit, inline):
    server = kit.new_server()
    await server.start(kit.authority.server_context(require_client=True))
    certificate, key = kit.authority.issue("tester")
    if inline:
        user = {
            "client-certificate-data": base64.b64encode(certificate.read_bytes()).decode(),
            "client-key-data": base64.b64encode(key.read_bytes()).decode(),
        }
    else:
        for path in (certificate, key):
            shutil.copy(path, kit.directory)
        user = {"client-certificate": certificate.name, "client-key": key.name}
    async with await kit.client(server, user) as client:
        await client.list(PODS)
        peer = server.requests[-1].transport.get_extra_info("peercert")
        assert peer["subject"] == ((("commonName", "tester"),),)
    async with await kit.client(server) as nobody:
        with pytest.raises(Unavailable):
            await nobody.list(PODS)
    await server.stop()


async def test_inline_keys_are_not_left_in_temporary_files(kit, server, tmp_path):
    program = (
        "import asyncio, os, sys\n"
        "from koord.kube.connection import connect\n"
        "async def main():\n"
        "    async with await connect(sys.argv[1]):\n"
        "        print(os.listdir(os.environ['TMPDIR']))\n"
        "asyncio.run(main())\n"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        kit.kubeconfig(server.url, {"token": "secret"}),
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert output == b"[]\n"


async def test_token_file_is_read_again_when_it_changes(kit, server):
    token = kit.directory / "token"
    token.write_text("first\n")
    async with await kit.client(server, {"tokenFile": "token"}) as client:
        assert await whoami(client, server) == "Bearer first"
        token.write_text("second\n")
        assert await whoami(client, server) == "Bearer second"
        token.unlink()
        assert await whoami(client, server) == "Bearer second"


async def test_token_file_is_read_again_after_a_401_even_with_the_same_time_stamp(kit, server):
    token = kit.directory / "token"
    token.write_text("old00")
    server.accepted = {"Bearer old00"}
    async with await kit.client(server, {"tokenFile": "token"}) as client:
        await client.list(PODS)
        before = token.stat()
        token.write_text("new00")
        os.utime(token, ns=(before.st_atime_ns, before.st_mtime_ns))
        server.accepted = {"Bearer new00"}
        assert await whoami(client, server) == "Bearer new00"


async def test_kubeconfig_is_read_again_after_a_401(kit, server):
    async with await kit.client(server, {"token": "old"}) as client:
        kit.kubeconfig(server.url, {"token": "new"})
        server.accepted = {"Bearer new"}
        assert await whoami(client, server) == "Bearer new"
        assert len(server.requests) == 2


async def test_a_401_that_stays_is_unauthorized_and_does_not_reload_every_time(kit, server):
    plugin = write_plugin(kit.directory, TOKEN_PLUGIN)
    server.accepted = set()
    async with await kit.client(server, {"exec": plugin}) as client:
        for _ in range(5):
            with pytest.raises(Unauthorized):
                await client.list(PODS)
    assert len((kit.directory / "runs").read_text()) == 2


async def test_many_requests_at_once_reload_once(kit, server):
    plugin = write_plugin(kit.directory, TOKEN_PLUGIN)
    async with await kit.client(server, {"exec": plugin}) as client:
        server.accepted = {"Bearer run-1"}
        await asyncio.gather(*(client.list(PODS) for _ in range(20)))
    assert len((kit.directory / "runs").read_text()) == 2


async def test_exec_plugin_beside_the_kubeconfig(kit, server):
    plugin = write_plugin(kit.directory, TOKEN_PLUGIN)
    async with await kit.client(server, {"exec": plugin}) as client:
        assert await whoami(client, server) == "Bearer run-0"


async def test_exec_plugins_token_is_renewed_before_it_runs_out(kit, server, monkeypatch):
    plugin = write_plugin(
        kit.directory,
        "stamp = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + 30))\n"
        + TOKEN_PLUGIN.replace("{'token'", "{'expirationTimestamp': stamp, 'token'"),
    )
    async with await kit.client(server, {"exec": plugin}) as client:
        assert await whoami(client, server) == "Bearer run-1"


async def test_exec_plugin_that_gives_a_certificate(kit):
    server = kit.new_server()
    await server.start(kit.authority.server_context(require_client=True))
    certificate, key = kit.authority.issue("plugged")
    plugin = write_plugin(
        kit.directory,
        f"cert, key = (pathlib.Path(p).read_text() for p in {(str(certificate), str(key))!r})\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',"
        " 'status': {'clientCertificateData': cert, 'clientKeyData': key}}))",
    )
    async with await kit.client(server, {"exec": plugin}) as client:
        await client.list(PODS)
    await server.stop()


async def test_exec_plugin_that_fails_is_an_error_that_names_it(kit, server):
    plugin = write_plugin(kit.directory, "raise SystemExit(3)")
    with pytest.raises(AccessError, match=r"exec plugin .*plugin.py' gave no credential"):
        await kit.client(server, {"exec": plugin})


async def test_impersonation(kit, server):
    user = {"token": "t", "as": "alice", "as-groups": ["dev", "ops"], "as-uid": "7"}
    async with await kit.client(server, user) as client:
        await client.list(PODS)
    headers = server.requests[-1].headers
    assert headers["Impersonate-User"] == "alice"
    assert headers.getall("Impersonate-Group") == ["dev", "ops"]
    assert headers["Impersonate-Uid"] == "7"


async def test_an_unknown_authority_is_refused_unless_told_to_skip(kit, server):
    stranger, _ = kit.authority.issue("stranger")
    unknown = {"certificate-authority-data": encode(stranger.read_bytes())}
    config = kit.kubeconfig(server.url, None, cluster=unknown)
    async with await connect(config) as client:
        with pytest.raises(Unavailable, match="certificate verify failed"):
            await client.list(PODS)
    cluster = unknown | {"insecure-skip-tls-verify": True}
    async with await connect(kit.kubeconfig(server.url, None, cluster=cluster)) as client:
        await client.list(PODS)


async def test_a_new_authority_is_picked_up(kit, server):
    stranger, _ = kit.authority.issue("stranger")
    cluster = {"certificate-authority-data": encode(stranger.read_bytes())}
    async with await connect(kit.kubeconfig(server.url, None, cluster=cluster)) as client:
        kit.kubeconfig(server.url, None)
        await client.list(PODS)


async def test_the_servers_name_can_be_given(kit, server):
    good = kit.kubeconfig(server.url, None, cluster={"tls-server-name": "localhost"})
    async with await connect(good) as client:
        await client.list(PODS)
    bad = kit.kubeconfig(server.url, None, cluster={"tls-server-name": "elsewhere"})
    async with await connect(bad) as client:
        with pytest.raises(Unavailable, match="elsewhere"):
            await client.list(PODS)


async def test_another_context_can_be_chosen(kit, server):
    config = kit.kubeconfig(server.url, {"token": "t"})
    with pytest.raises(AccessError, match="nowhere"):
        await connect(config, "nowhere")
    async with await connect(config, "test") as client:
        assert await whoami(client, server) == "Bearer t"


async def test_kubeconfig_from_the_environment(kit, server, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", f"/does/not/exist:{kit.kubeconfig(server.url, {'token': 't'})}")
    async with await connect() as client:
        assert await whoami(client, server) == "Bearer t"


@pytest.mark.parametrize("text", ["", "[]", "{", "contexts: 5", "current-context: x\ncontexts: []\nusers: []"])
async def test_a_broken_kubeconfig_is_an_error_that_names_it(kit, text):
    path = kit.directory / "broken"
    path.write_text(text)
    with pytest.raises(AccessError, match="broken"):
        await connect(str(path))


async def test_a_missing_kubeconfig_is_an_error_that_names_it(kit):
    with pytest.raises(AccessError, match="no kubeconfig at /does/not/exist"):
        await connect("/does/not/exist")


@pytest.mark.parametrize("url", ["ftp://x", "localhost:6443", ""])
async def test_an_address_that_cannot_be_is_refused(kit, url):
    with pytest.raises(AccessError):
        await connect(kit.kubeconfig(url, {"token": "t"}))


async def test_service_account_of_a_pod(kit, server, monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    account = kit.directory / "account"
    account.mkdir()
    (account / "token").write_text("first\n")
    shutil.copy(kit.authority.ca_file, account / "ca.crt")

    async def load():
        return load_in_cluster(account)

    async with Client(Connection(await load(), load, "test")) as client:
        assert await whoami(client, server) == "Bearer first"
        (account / "token").write_text("second\n")
        assert await whoami(client, server) == "Bearer second"


async def test_a_service_account_without_its_authority_is_an_error(kit, monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (kit.directory / "token").write_text("t")
    with pytest.raises(AccessError, match="service account in"):
        load_in_cluster(kit.directory)


async def test_a_store_outlives_the_rotation_of_its_token(kit, server, background):
    token = kit.directory / "token"
    token.write_text("old")
    server.accepted = {"Bearer old"}
    async with await kit.client(server, {"tokenFile": "token"}) as client:
        store = Store(client, PODS)
        running = background(store.run())
        await kit.eventually(lambda: server.watchers)
        server.accepted = {"Bearer new"}
        server.watchers[0].abort()
        await kit.eventually(lambda: "401" in store.statistics.last_error)
        token.write_text("new")
        server.put("/api/v1/namespaces/a/pods/late")
        await kit.until(store, lambda: store.get("late", "a"))
        running.cancel()


async def test_requests_under_way_survive_a_new_certificate(kit):
    server = kit.new_server()
    await server.start(kit.authority.server_context())
    first, second = kit.authority.issue("first"), kit.authority.issue("second")

    def user(pair, token):
        return {"client-certificate": str(pair[0]), "client-key": str(pair[1])} | {"token": token}

    config = kit.kubeconfig(server.url, user(first, "a"))
    async with await connect(config) as client:
        server.accepted = {"Bearer a"}
        store = Store(client, PODS)
        running = asyncio.ensure_future(store.run())
        await kit.eventually(lambda: server.watchers)
        kit.kubeconfig(server.url, user(second, "b"))
        server.accepted = {"Bearer b"}
        await client.list(PODS)
        server.put("/api/v1/namespaces/a/pods/late")
        await kit.until(store, lambda: store.get("late", "a"))
        assert store.statistics.restarts == 0
        running.cancel()
        await asyncio.wait({running})
    await server.stop()


async def test_connecting_is_lazy_about_the_server(kit):
    client = await connect(kit.kubeconfig("https://127.0.0.1:1", {"token": "t"}))
    assert isinstance(client, Client)
    assert client.server == "https://127.0.0.1:1"
    await client.close()


def encode(data):
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("host", "environ", "proxy"),
    [
        ("api.example", {"HTTPS_PROXY": "http://p:3128"}, "http://p:3128"),
        ("api.example", {"https_proxy": "p:3128"}, "http://p:3128"),
        ("api.example", {}, None),
        ("api.example", {"HTTP_PROXY": "http://p"}, None),
        ("api.example", {"HTTPS_PROXY": "p", "NO_PROXY": "example"}, None),
        ("api.example", {"HTTPS_PROXY": "p", "NO_PROXY": ".example"}, None),
        ("api.example", {"HTTPS_PROXY": "p", "NO_PROXY": "*.example"}, None),
        ("api.example", {"HTTPS_PROXY": "p", "NO_PROXY": "pi.example"}, "http://p"),
        ("api.example", {"HTTPS_PROXY": "p", "NO_PROXY": "other, API.example:443"}, None),
        ("api.example", {"HTTPS_PROXY": "p", "NO_PROXY": "api.example:6443"}, "http://p"),
        ("api.example", {"HTTPS_PROXY": "p", "NO_PROXY": "*"}, None),
        ("10.96.0.1", {"HTTPS_PROXY": "p", "NO_PROXY": "10.96.0.0/12"}, None),
        ("10.96.0.1", {"HTTPS_PROXY": "p", "NO_PROXY": "10.97.0.0/16"}, "http://p"),
        ("10.96.0.1", {"HTTPS_PROXY": "p", "NO_PROXY": "10.96.0.1"}, None),
        ("127.0.0.1", {"HTTPS_PROXY": "p"}, None),
        ("localhost", {"HTTPS_PROXY": "p"}, None),
    ],
)
def test_the_proxy_follows_the_environment(host, environ, proxy):
    assert proxy_for("https", host, 443, environ) == proxy


def test_importing_is_quick_since_kubernetes_comes_late():
    import subprocess

    code = (
        "import sys, koord.kube.connection, koord.kube.store, koord.process;"
        "print(json.dumps([name for name in sys.modules if name.startswith(('kubernetes', 'yaml'))]))"
    )
    out = subprocess.run([sys.executable, "-c", f"import json; {code}"], capture_output=True, check=True, text=True)
    assert json.loads(out.stdout) == []


async def test_reloads_are_spaced(kit, server):
    loads = []

    async def load():
        loads.append(time.monotonic())
        return await access.load_access(config, None)

    config = kit.kubeconfig(server.url, {"token": "t"})
    connection = Connection(await load(), load, "test")
    for _ in range(10):
        assert not await connection.renew("Bearer t")
    assert len(loads) == 2
    await connection.close()
