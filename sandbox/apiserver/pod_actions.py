"""What pods have besides reads and writes: being bound to a node, being evicted, telling their log."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from koord.api.timestamps import parse_rfc3339
from sandbox.admission.request import CREATE
from sandbox.apiserver import bodies, conversion, deleting, metadata, query, status
from sandbox.apiserver.calls import Call
from sandbox.apiserver.deleting import Deleter
from sandbox.apiserver.storage import GroupResource
from sandbox.apiserver.updating import Proposal, Updater
from sandbox.apiserver.writing import Desk

JsonObject = dict[str, Any]

BUDGETS = GroupResource("policy", "poddisruptionbudgets")


class LogProvider(Protocol):
    """Where the text of a container's log comes from."""

    def stream(
        self,
        pod: JsonObject,
        container: str,
        *,
        previous: bool,
        follow: bool,
        tail_lines: int | None,
        since_seconds: int | None,
        timestamps: bool,
        limit_bytes: int | None,
    ) -> AsyncIterator[bytes]:
        """Chunks of the log; with `follow` until the container ends.

        Raises StatusError when there is none: the call itself does, not the iteration, since by then the answer
        has begun.
        """


class EvictionGrant(Protocol):
    """What an allowed eviction has to write, in this order; None where there is nothing to write."""

    @property
    def budget(self) -> JsonObject | None: ...
    @property
    def pod(self) -> JsonObject | None: ...
    @property
    def delete_options(self) -> JsonObject: ...


class EvictionRule(Protocol):
    """The decision on an eviction: `sandbox.lifecycle.eviction.evict`. Raises StatusError to refuse."""

    def __call__(
        self, reader: Any, namespace: str, name: str, eviction: JsonObject, now: float, *, dry_run: bool = False
    ) -> EvictionGrant: ...


class Binder:
    """pods/binding: the scheduler's word on where a pod runs."""

    def __init__(self, desk: Desk, updater: Updater) -> None:
        self._desk = desk
        self._updater = updater

    async def bind(self, call: Call, body: JsonObject) -> None:
        """Assign the pod to the node that a Binding names. Raises StatusError NotFound, Conflict, BadRequest."""
        target = bodies.as_object(body.get("target") or {})
        node = target.get("name") or ""
        if (target.get("kind") or "Node") != "Node" or not node:
            cause = status.Cause("FieldValueRequired", "Required value: the name of a Node", "target.name")
            raise status.invalid("", "Binding", call.name, [cause])
        await self._desk.admit(call, CREATE, {**body, "apiVersion": "v1", "kind": "Binding"}, None)
        uid = (body.get("metadata") or {}).get("uid") or ""
        annotations = (body.get("metadata") or {}).get("annotations") or {}

        def propose(current: JsonObject) -> Proposal:
            _check_bindable(current, call.name, uid)
            return Proposal(bound(current, node, annotations, self._desk.now()))

        await self._updater.change_unasked(call, propose)


def _check_bindable(pod: JsonObject, name: str, uid: str) -> None:
    meta, spec = pod["metadata"], pod.get("spec") or {}
    why = ""
    if uid and uid != meta.get("uid"):
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {meta.get('uid')}"
    elif meta.get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise status.conflict("", "pods/binding", name, why)


def bound(pod: JsonObject, node: str, annotations: Mapping[str, str], now: str) -> JsonObject:
    """The pod as it is once bound to a node. Pure."""
    told = pod.get("status") or {}
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    conditions = [entry for entry in told.get("conditions") or () if entry.get("type") != "PodScheduled"]
    meta = pod["metadata"]
    if annotations:
        meta = {**meta, "annotations": {**(meta.get("annotations") or {}), **annotations}}
    return {
        **pod,
        "metadata": meta,
        "spec": {**(pod.get("spec") or {}), "nodeName": node},
        "status": {**told, "conditions": [*conditions, condition]},
    }


class Evictor:
    """pods/eviction: deletion that respects budgets."""

    def __init__(self, desk: Desk, deleter: Deleter, rule: EvictionRule | None) -> None:
        self._desk = desk
        self._deleter = deleter
        self._rule = rule

    async def evict(self, call: Call, body: JsonObject) -> None:
        """Carry out an Eviction. Raises StatusError: 404, 409, 429 when a budget forbids it."""
        if self._rule is None:
            raise status.unknown_path()
        desk = self._desk
        desk.current(call)
        document = {"apiVersion": "policy/v1", "kind": "Eviction", **body}
        document["metadata"] = {**(body.get("metadata") or {}), "namespace": call.namespace}
        await desk.admit(call, CREATE, document, None)
        now = desk.clock()
        dry_run = call.options.dry_run
        grant = self._rule(desk.storage, call.namespace, call.name, document, now, dry_run=dry_run)
        # From here on nothing awaits, so that the budget cannot be spent twice.
        if grant.budget is not None:
            desk.storage.update(BUDGETS, grant.budget)
        if grant.pod is not None:
            desk.storage.update(conversion.storage_of(call.kind), grant.pod)
        options = deleting.delete_options(grant.delete_options, {})
        current = desk.current(call)
        self._deleter.carry_out(call, replace(options, uid="", version=""), current)


class LogReader:
    """pods/log."""

    def __init__(self, desk: Desk, provider: LogProvider | None) -> None:
        self._desk = desk
        self._provider = provider

    def open(self, call: Call, parameters: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The chunks of a container's log. Raises StatusError 400 or 404."""
        pod = self._desk.current(call).object
        container = chosen_container(pod, parameters.get("container", ""))
        if not (pod.get("spec") or {}).get("nodeName"):
            raise status.bad_request(f"pod {call.name} does not have a host assigned")
        if self._provider is None:
            raise status.not_found("", "pods/log", call.name)
        return self._provider.stream(
            pod,
            container,
            previous=query.boolean(parameters, "previous"),
            follow=query.boolean(parameters, "follow"),
            tail_lines=_not_negative(parameters, "tailLines"),
            since_seconds=self._since_seconds(parameters),
            timestamps=query.boolean(parameters, "timestamps"),
            limit_bytes=_not_negative(parameters, "limitBytes"),
        )

    def _since_seconds(self, parameters: Mapping[str, str]) -> int | None:
        since = parameters.get("sinceTime", "")
        if not since:
            return _not_negative(parameters, "sinceSeconds")
        try:
            return max(0, int(self._desk.clock() - parse_rfc3339(since)))
        except ValueError:
            raise status.bad_request(f'sinceTime: invalid value "{since}": allowed: an RFC 3339 time') from None


def _not_negative(parameters: Mapping[str, str], name: str) -> int | None:
    value = query.integer(parameters, name)
    if value is not None and value < 0:
        text = f"Invalid value: {value}: must be greater than or equal to 0"
        raise status.invalid("", "PodLogOptions", "", [status.Cause("FieldValueInvalid", text, name)])
    return value


def chosen_container(pod: JsonObject, asked: str) -> str:
    """The container whose log is meant. Raises StatusError 400 when that is not clear. Pure."""
    spec, name = pod.get("spec") or {}, pod["metadata"]["name"]
    containers = [entry["name"] for entry in spec.get("containers") or ()]
    init = [entry["name"] for entry in spec.get("initContainers") or ()]
    if asked:
        if asked not in (*containers, *init):
            raise status.bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    if len(containers) == 1:
        return str(containers[0])
    told = f"a container name must be specified for pod {name}, choose one of: [{' '.join(containers)}]"
    if init:
        told += f" or one of the init containers: [{' '.join(init)}]"
    raise status.bad_request(told)


def read_binding(body: JsonObject, call: Call) -> tuple[Call, JsonObject]:
    """A Binding posted to the namespace's `bindings` names its pod itself. Raises StatusError 400."""
    document = metadata.check_namespace(body, call.kind, call.namespace)
    name = document["metadata"].get("name") or call.name
    if call.name and name != call.name:
        raise status.bad_request("name in URL does not match name in Binding object")
    if not name:
        raise status.bad_request("metadata.name: the pod to bind must be named")
    return replace(call, name=name), document
