"""Where the API server is and who we are there: kubeconfig files and service accounts.

Reading is left to `kubernetes.aio.config` (imported late, since it is slow to import):
contexts, merged files, inline and file certificates, tokens, passwords, OIDC and exec
plugins. Added here is what kubectl does and that loader does not: users that are
absent, token files that change, impersonation, plugin paths relative to the file, and
a plugin's failure being an error.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from koord.kube.proxy import proxy_for

SERVICE_ACCOUNT_DIR: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
LOAD_TIMEOUT_S: Final = 60.0
"""An exec plugin or an OIDC issuer that takes longer has failed."""


class AccessError(Exception):
    """No usable way to an API server is configured."""


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach one API server, as read at one moment."""

    server: str
    ssl_context: ssl.SSLContext | None
    tls_digest: tuple[bytes, ...]
    """What the context was made of, to see whether it changed."""
    authorization: str = ""
    """Value of the Authorization header, "" for none (certificate or anonymous)."""
    token_file: str = ""
    """Holds the bearer token and is read again when it changes; wins over `authorization`."""
    headers: tuple[tuple[str, str], ...] = ()
    server_hostname: str | None = None
    proxy: str | None = None
    expires_at: float | None = None
    """Epoch seconds at which the credential runs out; None when unknown."""

    def tls_differs(self, other: Access) -> bool:
        """Whether connections made for `other` must not be used any more."""
        return (self.server, self.tls_digest) != (other.server, other.tls_digest)


async def load_access(kubeconfig: str | None, context: str | None) -> Access:
    """Read the configuration in the order that `koord.kube.connection.connect` states."""
    try:
        async with asyncio.timeout(LOAD_TIMEOUT_S):
            if kubeconfig is None and context is None and _in_cluster(SERVICE_ACCOUNT_DIR):
                return load_in_cluster(SERVICE_ACCOUNT_DIR)
            paths = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
            return await load_kubeconfig(paths, context)
    except TimeoutError:
        raise AccessError(f"reading the credentials took longer than {LOAD_TIMEOUT_S:.0f} s") from None


def _in_cluster(directory: Path) -> bool:
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (directory / "token").is_file()


def _exists_any(paths: str) -> bool:
    return any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path)


def load_in_cluster(directory: Path) -> Access:
    """The pod's service account: `directory` holds `token` and `ca.crt`."""
    from kubernetes.aio.client.configuration import Configuration
    from kubernetes.aio.config.config_exception import ConfigException
    from kubernetes.aio.config.incluster_config import InClusterConfigLoader

    token_file = str(directory / "token")
    configuration = Configuration()
    loader = InClusterConfigLoader(
        token_filename=token_file,
        cert_filename=str(directory / "ca.crt"),
        try_refresh_token=False,
    )
    try:
        loader.load_and_set(configuration)
    except (ConfigException, OSError) as error:
        raise AccessError(f"service account in {directory}: {error}") from error
    return _access_from(configuration, token_file=token_file)


async def load_kubeconfig(paths: str, context: str | None) -> Access:
    """One kubeconfig file, or several joined by ':' and merged as kubectl does."""
    import yaml
    from kubernetes.aio.client.configuration import Configuration
    from kubernetes.aio.config.config_exception import ConfigException
    from kubernetes.aio.config.kube_config import KubeConfigLoader, KubeConfigMerger

    if not _exists_any(paths):
        raise AccessError(f"no kubeconfig at {paths}, and this is not a pod with a service account")
    configuration = Configuration()
    try:
        merged = KubeConfigMerger(paths).config
        user = _prepare_user(merged, context)
        loader = KubeConfigLoader(config_dict=merged, active_context=context, config_base_path=None)
        await loader.load_and_set(configuration)
        if "exec" in user.settings and not (configuration.api_key or configuration.cert_file):
            command = user.settings["exec"].get("command")
            raise AccessError(f"kubeconfig {paths}: exec plugin {command!r} gave no credential")
        expiry = getattr(loader, "exec_plugin_expiry", None)
        return _access_from(
            configuration,
            token_file=user.token_file,
            headers=user.impersonation_headers(),
            expires_at=expiry.timestamp() if expiry is not None else None,
        )
    # The loader indexes what it reads, so a file of the wrong shape can raise
    # nearly anything of these.
    except (
        ConfigException,
        OSError,
        yaml.YAMLError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
    ) as error:
        raise AccessError(f"kubeconfig {paths}: {type(error).__name__}: {error}") from error
    finally:
        _remove_key_files()


def _remove_key_files() -> None:
    """Remove the temporary files into which the loader wrote inline certificates and keys.

    They are in the TLS context by now. The loader removes them only when the interpreter ends in order, so a
    killed process would leave a private key behind.
    """
    from kubernetes.aio.config import kube_config

    kube_config._cleanup_temp_files()  # there is no public way


@dataclass(frozen=True, slots=True)
class _User:
    """The `user` section of the chosen context, and the directory of its file."""

    settings: dict[str, Any]
    directory: Path

    @property
    def token_file(self) -> str:
        name = self.settings.get("tokenFile")
        return str(self.directory / name) if name else ""

    def impersonation_headers(self) -> tuple[tuple[str, str], ...]:
        headers = [("Impersonate-User", str(self.settings["as"]))] if self.settings.get("as") else []
        if self.settings.get("as-uid"):
            headers.append(("Impersonate-Uid", str(self.settings["as-uid"])))
        headers += [("Impersonate-Group", str(group)) for group in self.settings.get("as-groups") or ()]
        return tuple(headers)


def _prepare_user(merged: Any, context_name: str | None) -> _User:
    """Find the context's user, and put right what the loader would trip over."""
    from kubernetes.aio.config.kube_config import ConfigNode

    name = context_name or merged["current-context"]
    context = merged["contexts"].get_with_name(name)["context"].value
    users = merged.value["users"]
    found = next((node for node in users if node.value.get("name") == context.get("user")), None)
    if found is None:
        # Over TLS the loader needs a user section, even of an anonymous user.
        context["user"] = context.get("user") or "anonymous"
        found = ConfigNode("anonymous", {"name": context["user"], "user": {}}, merged.path)
        users.append(found)
    if found.value.get("user") is None:
        found.value["user"] = {}
    settings: dict[str, Any] = found.value["user"]
    directory = Path(found.path).absolute().parent
    plugin = settings.get("exec")
    if plugin and "/" in plugin.get("command", ""):
        plugin["command"] = str(directory / plugin["command"])
    return _User(settings, directory)


def _access_from(
    configuration: Any,
    *,
    token_file: str = "",
    headers: tuple[tuple[str, str], ...] = (),
    expires_at: float | None = None,
) -> Access:
    server = str(configuration.host).rstrip("/")
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise AccessError(f"server {server!r}: must be an http:// or https:// address")
    proxy = configuration.proxy or proxy_for(parts.scheme, parts.hostname, parts.port, os.environ)
    if proxy and not proxy.startswith(("http://", "https://")):
        raise AccessError(f"proxy {proxy!r}: only http:// and https:// proxies are supported")
    context, digest = _tls_of(configuration) if parts.scheme == "https" else (None, ())
    token = str(configuration.api_key.get("BearerToken", "")).strip()
    return Access(
        server=server,
        ssl_context=context,
        tls_digest=digest,
        authorization=token,
        token_file=token_file,
        headers=headers,
        server_hostname=configuration.tls_server_name or None,
        proxy=proxy,
        expires_at=expires_at,
    )


def _tls_of(configuration: Any) -> tuple[ssl.SSLContext, tuple[bytes, ...]]:
    """The TLS context, and the bytes of everything it was made of."""
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    verified = b"verified" if configuration.verify_ssl else b"unverified"
    digest = (*(Path(name).read_bytes() if name else b"" for name in files), verified)
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    # Cluster CAs without the extensions that strict checking wants are common, and
    # kubectl accepts them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context, digest
