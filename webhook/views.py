"""What the mutation reads of a pod, decoded straight from the review.

Slim on purpose: decoding a pod into these takes a fraction of decoding the whole object. Everything else of the
pod stays raw, is never interpreted and never written. None means absent (or null), which matters here: the
parent of a new key may have to be added first.
"""

from __future__ import annotations

import msgspec

from koord.api.quantity import QuantityText

Resources = dict[str, QuantityText]


class View(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Base: camelCase on the wire, immutable, unknown fields ignored."""


class ResourcesView(View, frozen=True):
    """resources of a container or of the pod."""

    requests: Resources | None = None
    limits: Resources | None = None


class ContainerView(View, frozen=True):
    """One container of any kind."""

    name: str = ""
    resources: ResourcesView | None = None


class OwnerView(View, frozen=True):
    """One owner reference."""

    kind: str = ""
    uid: str = ""
    controller: bool | None = None


class MetadataView(View, frozen=True):
    """metadata of the pod; a pod that a controller makes has no name yet, only `generate_name`."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerView, ...] | None = None


class SpecView(View, frozen=True):
    """spec of the pod."""

    containers: tuple[ContainerView, ...] | None = None
    init_containers: tuple[ContainerView, ...] | None = None
    overhead: Resources | None = None
    resources: ResourcesView | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    scheduler_name: str | None = None


class PodView(View, frozen=True):
    """The pod. `status` is not read: on creation it is whatever the client wrote."""

    metadata: MetadataView | None = None
    spec: SpecView | None = None
