"""A pod being changed: what it shall become, against what it was. The operations between are built directly.

Mutable and private to one decision. Nothing of the pod but the fields here is ever written.
"""

from __future__ import annotations

from webhook.json_patch import Operation, map_operations
from webhook.views import ContainerView, MetadataView, Resources, SpecView


class Block:
    """Requests and limits of one container: as they are (`requests`, `limits`) and as they were.

    The maps are shared with the view until one is replaced; never change one in place.
    """

    __slots__ = ("is_init", "limits", "name", "pointer", "requests", "view")

    def __init__(self, view: ContainerView, pointer: str, is_init: bool) -> None:
        self.view = view
        self.pointer = pointer
        self.name = view.name
        self.is_init = is_init
        self.requests = view.resources.requests if view.resources is not None else None
        self.limits = view.resources.limits if view.resources is not None else None

    def add_operations(self, operations: list[Operation]) -> None:
        """Append what writes the changed maps, each as a whole: all its keys are known here."""
        before = self.view.resources
        if before is None:
            changed = {"requests": self.requests, "limits": self.limits}
            value = {name: resources for name, resources in changed.items() if resources is not None}
            if value:
                operations.append(Operation("add", f"{self.pointer}/resources", value))
            return
        if self.requests is not before.requests:
            op = "add" if before.requests is None else "replace"
            operations.append(Operation(op, f"{self.pointer}/resources/requests", self.requests))
        if self.limits is not before.limits:
            op = "add" if before.limits is None else "replace"
            operations.append(Operation(op, f"{self.pointer}/resources/limits", self.limits))


class Draft:
    """The pod under change."""

    __slots__ = (
        "annotations",
        "blocks",
        "labels",
        "metadata",
        "overhead",
        "preemption_policy",
        "priority",
        "priority_class_name",
        "scheduler_name",
        "spec",
    )

    def __init__(self, metadata: MetadataView, spec: SpecView) -> None:
        self.metadata = metadata
        self.spec = spec
        self.labels = dict(metadata.labels) if metadata.labels else {}
        self.annotations = dict(metadata.annotations) if metadata.annotations else {}
        self.priority = spec.priority
        self.priority_class_name = spec.priority_class_name
        self.preemption_policy = spec.preemption_policy
        self.scheduler_name = spec.scheduler_name
        self.overhead: Resources | None = spec.overhead
        # Init containers first: that is the order in which they are translated and reported.
        self.blocks = [
            Block(container, f"/spec/initContainers/{place}", True)
            for place, container in enumerate(spec.init_containers or ())
        ]
        for place, container in enumerate(spec.containers or ()):
            self.blocks.append(Block(container, f"/spec/containers/{place}", False))

    def operations(self) -> list[Operation]:
        """The JSON patch from the pod as it was to the draft; empty when nothing changed."""
        operations: list[Operation] = []
        metadata, spec = self.metadata, self.spec
        map_operations("/metadata/labels", metadata.labels, self.labels, operations)
        map_operations("/metadata/annotations", metadata.annotations, self.annotations, operations)
        _scalar_operation("schedulerName", spec.scheduler_name, self.scheduler_name, operations)
        _scalar_operation("priorityClassName", spec.priority_class_name, self.priority_class_name, operations)
        _scalar_operation("priority", spec.priority, self.priority, operations)
        _scalar_operation("preemptionPolicy", spec.preemption_policy, self.preemption_policy, operations)
        for block in self.blocks:
            block.add_operations(operations)
        if self.overhead is not spec.overhead:
            operations.append(Operation("replace", "/spec/overhead", self.overhead))
        return operations


def _scalar_operation(
    field: str, before: str | int | None, after: str | int | None, operations: list[Operation]
) -> None:
    if before == after:
        return
    pointer = f"/spec/{field}"
    if after is None:
        operations.append(Operation("remove", pointer))
    else:
        operations.append(Operation("add" if before is None else "replace", pointer, after))
