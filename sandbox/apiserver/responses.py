"""HTTP answers: documents, lists, tables and Status, with the Warning headers that admission asks for."""

from collections.abc import Iterable, Sequence
from typing import Any

import yaml
from aiohttp import web

from sandbox.apiserver import conversion, reading
from sandbox.apiserver.kinds import Kind
from sandbox.apiserver.negotiation import JSON, YAML, Form, Shape
from sandbox.apiserver.reading import Page
from sandbox.apiserver.status import StatusError
from sandbox.apiserver.storage import Entry, encode
from sandbox.apiserver.tables import render

JsonObject = dict[str, Any]

MAX_WARNINGS = 50
_MAX_WARNING_CHARS = 1024


def of_document(document: JsonObject, *, status: int = 200, media_type: str = JSON) -> web.Response:
    """A document as JSON or YAML."""
    if media_type == YAML:
        text = yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
        return web.Response(status=status, body=text.encode(), content_type=YAML)
    return of_json(encode(document), status=status, content_type=media_type)


def of_json(body: bytes, *, status: int = 200, content_type: str = JSON) -> web.Response:
    """Encoded JSON. The content type may carry parameters."""
    return web.Response(status=status, body=body, headers={"Content-Type": content_type})


def of_error(error: StatusError) -> web.Response:
    """A refusal."""
    response = of_document(error.document(), status=error.code)
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(error.retry_after_s)
    if error.code == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="koord-sandbox"'
    return response


def with_warnings(response: web.Response, warnings: Sequence[str]) -> web.Response:
    """Add one Warning header for each distinct text."""
    for text in list(dict.fromkeys(warnings))[:MAX_WARNINGS]:
        response.headers.add("Warning", f'299 - "{_quoted(text)}"')
    return response


def _quoted(text: str) -> str:
    clean = "".join(char if char.isprintable() else " " for char in text[:_MAX_WARNING_CHARS])
    return clean.replace("\\", "\\\\").replace('"', '\\"')


def of_entry(kind: Kind, entry: Entry, form: Form, now: float, include: str, *, status: int = 200) -> web.Response:
    """One object in the form a client asked for."""
    if form.shape is Shape.OBJECT and form.media_type == JSON:
        return of_json(conversion.served_json(kind, entry), status=status)
    document = conversion.served(kind, entry.object)
    if form.shape is Shape.TABLE:
        metadata = {"resourceVersion": document["metadata"].get("resourceVersion", "")}
        document = render.table(kind, [document], metadata, now, version=form.version, include=include)
    elif form.shape is Shape.METADATA:
        document = render.partial_metadata(document, form.version)
    return of_document(document, status=status, media_type=form.media_type)


def of_page(kind: Kind, page: Page, form: Form, now: float, include: str) -> web.Response:
    """A list in the form a client asked for."""
    if form.shape is Shape.OBJECT and form.media_type == JSON:
        return of_json(reading.list_json(kind, page))
    documents: Iterable[JsonObject] = (conversion.served(kind, entry.object) for entry in page.entries)
    if form.shape is Shape.TABLE:
        document = render.table(kind, documents, page.metadata(), now, version=form.version, include=include)
        return of_document(document, media_type=form.media_type)
    items = [
        render.partial_metadata(item, form.version) if form.shape is Shape.METADATA else item for item in documents
    ]
    if form.shape is Shape.METADATA:
        names = {"kind": "PartialObjectMetadataList", "apiVersion": f"meta.k8s.io/{form.version}"}
    else:
        names = {"kind": kind.list_name, "apiVersion": kind.api_version}
    return of_document({**names, "metadata": page.metadata(), "items": items}, media_type=form.media_type)


def success(kind: Kind, entry: Entry) -> JsonObject:
    """The Status that answers a deletion."""
    details = {
        "name": entry.key[1],
        "group": kind.group,
        "kind": kind.plural,
        "uid": entry.object["metadata"].get("uid"),
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: text for key, text in details.items() if text},
    }


PLAIN_SUCCESS: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
