"""GET: one object, or a consistent list of them, whole or in pages."""

import base64
import binascii
from dataclasses import dataclass
from typing import Any

import msgspec

from sandbox.apiserver import conversion, query, selection, status
from sandbox.apiserver.kinds import Kind
from sandbox.apiserver.query import ListOptions
from sandbox.apiserver.storage import Entry, Expired, Storage

JsonObject = dict[str, Any]

CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True)
class Page:
    """A list, or a part of one. `remaining` is None when it is not known (a selector filters)."""

    entries: list[Entry]
    version: int
    continue_token: str = ""
    remaining: int | None = None

    def metadata(self) -> JsonObject:
        """The ListMeta document."""
        meta: JsonObject = {"resourceVersion": str(self.version)}
        if self.continue_token:
            meta["continue"] = self.continue_token
            if self.remaining is not None:
                meta["remainingItemCount"] = self.remaining
        return meta


def list_page(storage: Storage, kind: Kind, namespace: str, options: ListOptions) -> Page:
    """Select and page. Raises StatusError 400, 410 or 504."""
    chosen = selection.compile_selection(kind, options.label_selector, options.field_selector)
    token = _read_token(options.continue_token) if options.continue_token else None
    version, entries = _entries(storage, kind, namespace, options, token)
    if token is not None:
        entries = [entry for entry in entries if entry.key >= token.start]
    if not chosen.everything:
        entries = [entry for entry in entries if chosen.matches(entry.object)]
    if not options.limit or len(entries) <= options.limit:
        return Page(entries, version)
    shown, rest = entries[: options.limit], entries[options.limit :]
    following = _write_token(version, rest[0].key)
    return Page(shown, version, following, len(rest) if chosen.everything else None)


@dataclass(frozen=True)
class _Token:
    """Where a list goes on: the version it shows (None: the newest) and the first key."""

    version: int | None
    start: tuple[str, str]


def _entries(
    storage: Storage, kind: Kind, namespace: str, options: ListOptions, token: _Token | None
) -> tuple[int, list[Entry]]:
    resource = conversion.storage_of(kind)
    exact = token.version if token else _exact_version(options)
    if exact is None:
        asked = query.version_number(options.version or "0")
        if asked > storage.version:
            raise status.too_large_version(asked, storage.version)
        return storage.version, storage.entries(resource, namespace)
    if exact > storage.version:
        raise status.too_large_version(exact, storage.version)
    try:
        return exact, storage.entries_at(resource, exact, namespace)
    except Expired:
        if token is None:
            raise status.expired(f"The resourceVersion for the provided list is too old: {exact}") from None
        raise status.expired(CONTINUE_EXPIRED, _write_token(None, token.start)) from None


def _exact_version(options: ListOptions) -> int | None:
    if options.version_match == "Exact":
        return query.version_number(options.version)
    legacy = options.limit and options.version not in ("", "0") and not options.version_match
    return query.version_number(options.version) if legacy else None


def _write_token(version: int | None, start: tuple[str, str]) -> str:
    document = {"v": "meta.k8s.io/v1", "rv": -1 if version is None else version, "start": "/".join(start)}
    return base64.urlsafe_b64encode(msgspec.json.encode(document)).decode().rstrip("=")


def _read_token(text: str) -> _Token:
    try:
        document = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        version, (namespace, _, name) = int(document["rv"]), document["start"].partition("/")
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, msgspec.DecodeError):
        raise status.bad_request(f"continue key is not valid: {text[:80]!r}") from None
    return _Token(None if version < 0 else version, (namespace, name))


def list_json(kind: Kind, page: Page) -> bytes:
    """The JSON of a list. Items of built-in kinds carry no apiVersion and kind, as in Kubernetes."""
    head = msgspec.json.encode({"kind": kind.list_name, "apiVersion": kind.api_version, "metadata": page.metadata()})
    items = (conversion.served_json(kind, entry) for entry in page.entries)
    if not kind.custom:
        prefix = len(msgspec.json.encode({"apiVersion": kind.api_version, "kind": kind.kind})[:-1]) + 1
        items = (b"{" + item[prefix:] for item in items)
    return head[:-1] + b',"items":[' + b",".join(items) + b"]}"
