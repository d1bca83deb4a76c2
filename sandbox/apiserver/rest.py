"""The REST surface of the kinds: which verb on which path does what."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

from aiohttp import web

from sandbox.apiserver import bodies, conversion, metadata, patches, paths, query, responses, reviews, scaling, status
from sandbox.apiserver.calls import Call, User
from sandbox.apiserver.creating import Creator
from sandbox.apiserver.deleting import RETURN_OBJECT, DeleteOptions, Deleter, delete_options
from sandbox.apiserver.kinds import Kind
from sandbox.apiserver.negotiation import Form, Shape, negotiate
from sandbox.apiserver.pod_actions import (
    Binder,
    EvictionRule,
    Evictor,
    LogProvider,
    LogReader,
    read_binding,
)
from sandbox.apiserver.query import ListOptions, list_options, write_options
from sandbox.apiserver.reading import list_page
from sandbox.apiserver.storage import Entry
from sandbox.apiserver.tables import render
from sandbox.apiserver.updating import Proposal, Updater
from sandbox.apiserver.watching import Watch
from sandbox.apiserver.writing import Desk

JsonObject = dict[str, Any]
Handler = Callable[[web.Request, Call], Awaitable[web.StreamResponse]]

MAX_MANAGER_CHARS = 128
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ANY = "*"


class Rest:
    """Answers requests on kinds. `lookup` finds the user of a token, for TokenReview."""

    def __init__(
        self,
        desk: Desk,
        *,
        logs: LogProvider | None,
        eviction: EvictionRule | None,
        lookup: reviews.TokenLookup,
        bookmark_interval_s: float,
    ) -> None:
        self._bookmark_interval_s = bookmark_interval_s
        self._desk = desk
        self._lookup = lookup
        self._creator = Creator(desk)
        self._updater = Updater(desk, self._creator)
        self._deleter = Deleter(desk)
        self._binder = Binder(desk, self._updater)
        self._evictor = Evictor(desk, self._deleter, eviction)
        self._logs = LogReader(desk, logs)
        self._watches: set[asyncio.Task[Any]] = set()
        # (method, names an object, subresource); a subresource "*" stands for the object itself and its status.
        self._routes: dict[tuple[str, bool, str], Handler] = {
            ("GET", False, _ANY): self._list_or_watch,
            ("POST", False, _ANY): self._create,
            ("DELETE", False, _ANY): self._delete_collection,
            ("GET", True, _ANY): self._get,
            ("PUT", True, _ANY): self._replace,
            ("PATCH", True, _ANY): self._patch,
            ("DELETE", True, _ANY): self._delete,
            ("GET", True, "scale"): self._get_scale,
            ("PUT", True, "scale"): self._put_scale,
            ("PATCH", True, "scale"): self._patch_scale,
            ("POST", True, "binding"): self._bind,
            ("POST", True, "eviction"): self._evict,
            ("GET", True, "log"): self._log,
            ("PUT", True, "finalize"): self._finalize,
        }

    async def handle(self, request: web.Request, user: User, target: paths.Target) -> web.StreamResponse:
        """Answer a request whose path names a resource. Raises StatusError."""
        if (target.group, target.plural) == ("", "bindings") and request.method == "POST" and not target.name:
            target = replace(target, plural="pods", subresource="binding")
        kind = self._desk.kinds.find(target.group, target.version, target.plural)
        if kind is None or not _fits(kind, target):
            raise status.unknown_path()
        call = _call(request, kind, user, target)
        handler = self._handler(request, call)
        response = await handler(request, call)
        if call.warnings and isinstance(response, web.Response):
            responses.with_warnings(response, call.warnings)
        return response

    def stop_watches(self) -> None:
        """End every open watch and followed log."""
        for task in self._watches:
            task.cancel()

    def _handler(self, request: web.Request, call: Call) -> Handler:
        kind, subresource = call.kind, call.subresource
        named = bool(call.name) or subresource == "binding"
        if subresource in ("", "status"):
            handler = self._routes.get((request.method, named, _ANY))
            if subresource == "status" and request.method not in ("GET", "PUT", "PATCH"):
                handler = None
        else:
            handler = self._routes.get((request.method, named, subresource))
        verb = _VERBS.get(request.method, request.method.lower())
        if not call.name and request.method in ("GET", "DELETE"):
            verb = "list" if request.method == "GET" else "deletecollection"
        if handler is None or (not subresource and verb not in kind.verbs):
            raise status.method_not_allowed()
        return handler

    # Reading

    async def _list_or_watch(self, request: web.Request, call: Call) -> web.StreamResponse:
        options = list_options(request.query)
        form = negotiate(request.headers.get("Accept", ""))
        if options.watch or request.path.split("/")[3:4] == ["watch"] or "/watch/" in request.path:
            return await self._watch(request, call, options, form)
        page = list_page(self._desk.storage, call.kind, call.namespace, options)
        return responses.of_page(call.kind, page, form, self._desk.clock(), _include(request))

    async def _get(self, request: web.Request, call: Call) -> web.StreamResponse:
        form = negotiate(request.headers.get("Accept", ""))
        if query.boolean(request.query, "watch"):
            selector = f"metadata.name={call.name}"
            return await self._watch(
                request, call, replace(list_options(request.query), field_selector=selector), form
            )
        return self._entry(request, call, self._desk.current(call), form=form)

    def _entry(
        self, request: web.Request, call: Call, entry: Entry, *, code: int = 200, form: Form | None = None
    ) -> web.Response:
        shown = form or negotiate(request.headers.get("Accept", ""))
        return responses.of_entry(call.kind, entry, shown, self._desk.clock(), _include(request), status=code)

    async def _watch(self, request: web.Request, call: Call, options: ListOptions, form: Form) -> web.StreamResponse:
        watch = Watch(
            self._desk.storage,
            call.kind,
            call.namespace,
            options,
            form,
            include=_include(request),
            clock=self._desk.clock,
            bookmark_interval_s=self._bookmark_interval_s,
        )
        try:
            content_type = "application/json" if form.shape is Shape.OBJECT else "application/json;stream=watch"
            return await self._stream(request, watch.chunks(), content_type)
        finally:
            watch.close()

    async def _stream(
        self, request: web.Request, chunks: AsyncIterator[bytes], content_type: str
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": content_type, "Cache-Control": "no-cache, private"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        task = asyncio.current_task()
        assert task is not None
        self._watches.add(task)
        try:
            with contextlib.suppress(ConnectionError):
                async for chunk in chunks:
                    await response.write(chunk)
                await response.write_eof()
        finally:
            self._watches.discard(task)
        return response

    # Writing

    async def _create(self, request: web.Request, call: Call) -> web.StreamResponse:
        body = await _document(request)
        if call.kind.kind in reviews.REVIEWS:
            document = metadata.check_type(body, call.kind)
            answered = reviews.answer(document, call.user, self._lookup)
            return responses.of_document(answered, status=201)
        entry = await self._creator.create(call, body)
        return self._entry(request, call, entry, code=201)

    async def _replace(self, request: web.Request, call: Call) -> web.StreamResponse:
        entry = await self._updater.replace(call, await _document(request))
        return self._entry(request, call, entry)

    async def _patch(self, request: web.Request, call: Call) -> web.StreamResponse:
        content_type = bodies.media_type(request.headers.get("Content-Type", ""))
        entry, created = await self._updater.patch(call, await request.read(), content_type)
        return self._entry(request, call, entry, code=201 if created else 200)

    async def _delete(self, request: web.Request, call: Call) -> web.StreamResponse:
        options = await _delete_options(request)
        deleted = await self._deleter.delete(call, options)
        returns_object = not deleted.gone or (call.kind.group, call.kind.plural) in RETURN_OBJECT
        if returns_object:
            return self._entry(request, call, deleted.entry)
        return responses.of_document(responses.success(call.kind, deleted.entry))

    async def _delete_collection(self, request: web.Request, call: Call) -> web.StreamResponse:
        options = await _delete_options(request)
        page = list_page(self._desk.storage, call.kind, call.namespace, list_options(request.query))
        for entry in page.entries:
            namespace, name = entry.key
            with _tolerating("NotFound"):
                await self._deleter.delete(replace(call, namespace=namespace, name=name), options, one_of_many=True)
        form = negotiate(request.headers.get("Accept", ""))
        return responses.of_page(call.kind, page, form, self._desk.clock(), _include(request))

    # Subresources

    async def _get_scale(self, request: web.Request, call: Call) -> web.StreamResponse:
        current = conversion.served(call.kind, self._desk.current(call).object)
        return responses.of_document(scaling.scale_of(call.kind, current))

    async def _put_scale(self, request: web.Request, call: Call) -> web.StreamResponse:
        body = await _document(request)
        return await self._scale(call, lambda _current: body)

    async def _patch_scale(self, request: web.Request, call: Call) -> web.StreamResponse:
        content_type = bodies.media_type(request.headers.get("Content-Type", ""))
        body = await request.read()
        scale_kind = Kind("autoscaling", "v1", "scales", "Scale")
        if content_type not in patches.accepted(scale_kind) or content_type == patches.APPLY_PATCH:
            raise status.unsupported_media_type(content_type, patches.accepted(scale_kind))

        def patched(current: JsonObject) -> JsonObject:
            form = patches.MERGE_PATCH if content_type == patches.STRATEGIC_PATCH else content_type
            return patches.patch(current, body, form, scale_kind)

        return await self._scale(call, patched)

    async def _scale(self, call: Call, scale: Callable[[JsonObject], JsonObject]) -> web.StreamResponse:
        def propose(current: JsonObject) -> Proposal:
            before = scaling.scale_of(call.kind, current)
            wanted = scale(before)
            told = (wanted.get("metadata") or {}).get("resourceVersion") or ""
            version = None if told in ("", before["metadata"]["resourceVersion"]) else query.version_number(told)
            return Proposal(scaling.scaled(call.kind, current, wanted), version)

        entry = await self._updater.change(call, propose)
        return responses.of_document(scaling.scale_of(call.kind, conversion.served(call.kind, entry.object)))

    async def _finalize(self, request: web.Request, call: Call) -> web.StreamResponse:
        body = await _document(request)
        finalizers = (body.get("spec") or {}).get("finalizers") or []

        def propose(current: JsonObject) -> Proposal:
            spec = {key: value for key, value in (current.get("spec") or {}).items() if key != "finalizers"}
            return Proposal({**current, "spec": {**spec, "finalizers": finalizers} if finalizers else spec})

        return self._entry(request, call, await self._updater.change_unasked(call, propose))

    async def _bind(self, request: web.Request, call: Call) -> web.StreamResponse:
        named, body = read_binding(await _document(request), call)
        await self._binder.bind(named, body)
        return responses.of_document({**responses.PLAIN_SUCCESS, "code": 201}, status=201)

    async def _evict(self, request: web.Request, call: Call) -> web.StreamResponse:
        await self._evictor.evict(call, await _document(request))
        return responses.of_document({**responses.PLAIN_SUCCESS, "code": 201}, status=201)

    async def _log(self, request: web.Request, call: Call) -> web.StreamResponse:
        return await self._stream(request, self._logs.open(call, request.query), "text/plain")


def _fits(kind: Kind, target: paths.Target) -> bool:
    if target.namespace and not kind.namespaced:
        return False
    if target.name and kind.namespaced and not target.namespace:
        return False
    known = {"": True, "status": kind.has_status, "scale": kind.scale is not None}
    return known.get(target.subresource, target.subresource in kind.subresources)


def _call(request: web.Request, kind: Kind, user: User, target: paths.Target) -> Call:
    options = write_options(request.query)
    agent = request.headers.get("User-Agent", "").partition("/")[0]
    manager = (options.field_manager or agent or "unknown")[:MAX_MANAGER_CHARS]
    return Call(kind, user, target.namespace, target.name, target.subresource, options, manager)


def _include(request: web.Request) -> str:
    include = request.query.get("includeObject", "") or "Metadata"
    if include not in render.INCLUDES:
        raise status.bad_request(f'includeObject: invalid value "{include}": allowed: {", ".join(render.INCLUDES)}')
    return include


async def _document(request: web.Request) -> JsonObject:
    return bodies.read_document(await request.read(), request.headers.get("Content-Type", ""))


async def _delete_options(request: web.Request) -> DeleteOptions:
    body = await request.read()
    document = bodies.read_document(body, request.headers.get("Content-Type", "")) if body.strip() else {}
    return delete_options(document, request.query)


@contextlib.contextmanager
def _tolerating(reason: str) -> Any:
    """Let a StatusError of this reason pass: somebody else was faster."""
    try:
        yield
    except status.StatusError as error:
        if error.reason != reason:
            raise
