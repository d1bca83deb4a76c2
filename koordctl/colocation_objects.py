"""The objects that decide what a node offers: read from a cluster, or from files that kubectl wrote."""

import contextlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from koord.api import names
from koord.api.devices import Device
from koord.api.objects import ConfigMap, JsonObject, Node, Pod
from koord.api.slo import NodeMetric
from koord.api.timestamps import parse_rfc3339
from koord.api.topology import NodeResourceTopology

T = TypeVar("T")

LEASE_NAME = "koordinator-manager"
_SUFFIXES = (".json", ".yaml", ".yml")
_TIME_FIELDS = frozenset(
    {"updateTime", "lastHeartbeatTime", "lastTransitionTime", "startTime", "creationTimestamp", "renewTime"}
)


@dataclass(slots=True)
class ColocationObjects:
    """What is known of the cluster. Nodes and what is named after them by name, ConfigMaps by (namespace, name).
    newest_s: the newest moment that any object speaks of, epoch seconds. problems: objects that could not be read."""

    nodes: dict[str, Node] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    metrics: dict[str, NodeMetric] = field(default_factory=dict)
    config_maps: dict[tuple[str, str], ConfigMap] = field(default_factory=dict)
    topologies: dict[str, NodeResourceTopology] = field(default_factory=dict)
    devices: dict[str, Device] = field(default_factory=dict)
    leases: dict[str, JsonObject] = field(default_factory=dict)
    newest_s: float | None = None
    problems: list[str] = field(default_factory=list)

    def take(self, document: JsonObject) -> None:
        """Add one object, or all of a List; kinds that do not matter are passed over."""
        items = document.get("items")
        if isinstance(items, list):
            kind = str(document.get("kind", "")).removesuffix("List")
            for item in items:
                self.take({"kind": kind, **item} if isinstance(item, dict) else {})
            return
        self._note_times(document)
        match document.get("kind"):
            case "Node":
                self._add(self.nodes, document, Node)
            case "Pod":
                if (pod := self._decoded(document, Pod)) is not None:
                    self.pods.append(pod)
            case "NodeMetric":
                self._add(self.metrics, document, NodeMetric)
            case "ConfigMap":
                if (found := self._decoded(document, ConfigMap)) is not None:
                    self.config_maps[found.metadata.namespace, found.metadata.name] = found
            case "NodeResourceTopology":
                self._add(self.topologies, document, NodeResourceTopology)
            case "Device":
                self._add(self.devices, document, Device)
            case "Lease":
                self.leases[str((document.get("metadata") or {}).get("name", ""))] = document

    def _add(self, into: dict[str, Any], document: JsonObject, kind: type[Any]) -> None:
        if (found := self._decoded(document, kind)) is not None:
            into[found.metadata.name] = found

    def _decoded(self, document: JsonObject, kind: type[T]) -> T | None:
        try:
            return msgspec.convert(document, kind)
        except msgspec.ValidationError as error:
            name = (document.get("metadata") or {}).get("name", "")
            self.problems.append(f"{kind.__name__}/{name}: {error}; it is left out")
            return None

    def _note_times(self, document: JsonObject) -> None:
        for text in _times(document):
            try:
                at_s = parse_rfc3339(text)
            except ValueError:
                continue
            self.newest_s = at_s if self.newest_s is None else max(self.newest_s, at_s)


def _times(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in _TIME_FIELDS and isinstance(inner, str):
                yield inner
            elif name != "managedFields":
                yield from _times(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _times(inner)


def read_dump(paths: Iterable[Path]) -> ColocationObjects:
    """Everything in files as `kubectl get nodes,pods,nodemetrics,configmaps -A -o json` writes them; `-` is standard
    input, a folder stands for its .json and .yaml files. Raises click.ClickException naming the file."""
    found = ColocationObjects()
    for path in paths:
        files = [path]
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
        for file in files:
            for document in _documents(file):
                found.take(document)
    return found


def _documents(path: Path) -> list[JsonObject]:
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        documents = _decoded(data)
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{path}: {error}") from error
    for document in documents:
        if not isinstance(document, dict) or "kind" not in document:
            raise click.ClickException(f"{path}: no Kubernetes objects: there is no kind")
    return documents


def _decoded(data: bytes) -> list[Any]:
    """JSON by its own parser, which reads a large dump a hundred times faster; YAML is a superset of it."""
    if data.lstrip()[:1] == b"{":
        with contextlib.suppress(msgspec.DecodeError):
            return [msgspec.json.decode(data)]
    return _yaml(data)


def _yaml(data: bytes) -> list[Any]:
    import yaml

    try:
        return [document for document in yaml.safe_load_all(data) if document is not None]
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


async def read_node(
    kubeconfig: str | None, context: str | None, node: str, config_namespace: str, config_name: str
) -> ColocationObjects:
    """What bears on one node, from the cluster. Raises ApiError and AccessError; a node that does not exist is
    absent."""
    from koord.kube.client import Client
    from koord.kube.connection import connect
    from koord.kube.errors import Forbidden, NotFound
    from koord.kube.resources import (
        CONFIGMAPS,
        DEVICES,
        LEASES,
        NODE_METRICS,
        NODE_RESOURCE_TOPOLOGIES,
        NODES,
        PODS,
        Resource,
    )

    found = ColocationObjects()

    async def one(client: Client, resource: Resource[T], name: str, namespace: str = "") -> T | None:
        try:
            return await client.get(resource, name, namespace)
        except NotFound:
            return None
        except Forbidden as error:
            found.problems.append(f"{error}; it is taken as absent")
            return None

    async with await connect(kubeconfig, context, user_agent="koordctl") as client:
        by_node: tuple[tuple[Resource[Any], dict[str, Any]], ...] = (
            (NODES, found.nodes),
            (NODE_METRICS, found.metrics),
            (NODE_RESOURCE_TOPOLOGIES, found.topologies),
            (DEVICES, found.devices),
        )
        for resource, into in by_node:
            if (value := await one(client, resource, node)) is not None:
                into[node] = value
        for name in (config_name, f"{config_name}{names.LAST_GOOD_SUFFIX}"):
            if (config_map := await one(client, CONFIGMAPS, name, config_namespace)) is not None:
                found.config_maps[config_namespace, name] = config_map
        if (lease := await one(client, LEASES, LEASE_NAME, config_namespace)) is not None:
            found.leases[LEASE_NAME] = lease
        page = await client.list(PODS, field_selector=f"spec.nodeName={node}")
        found.pods = list(page.items)
    return found
