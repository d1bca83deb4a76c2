"""Table and PartialObjectMetadata documents. Pure; the time is passed in."""

from collections.abc import Iterable
from typing import Any

from sandbox.apiserver.kinds import Kind
from sandbox.apiserver.tables import cluster, custom, pods, policy, workloads
from sandbox.apiserver.tables.columns import Layout

JsonObject = dict[str, Any]

INCLUDES = ("None", "Metadata", "Object")
_LAYOUTS: dict[tuple[str, str], Layout] = {
    ("", "pods"): pods.PODS,
    **workloads.LAYOUTS,
    **cluster.LAYOUTS,
    **policy.LAYOUTS,
}


def layout_of(kind: Kind) -> Layout:
    """How a kind is printed."""
    if kind.custom:
        return custom.layout_of(kind)
    return _LAYOUTS.get((kind.group, kind.plural), policy.PLAIN)


def table(
    kind: Kind,
    documents: Iterable[JsonObject],
    metadata: JsonObject,
    now: float,
    *,
    version: str = "v1",
    include: str = "Metadata",
    columns: bool = True,
) -> JsonObject:
    """A Table of documents in the served version.

    `include` (one of INCLUDES) says what each row carries of its object; a watch sends `columns` only once.
    """
    layout = layout_of(kind)
    rows = [
        {"cells": list(layout.cells(document, now)), "object": _row_object(document, version, include)}
        for document in documents
    ]
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": [column.document() for column in layout.columns] if columns else None,
        "rows": rows,
    }


def _row_object(document: JsonObject, version: str, include: str) -> JsonObject | None:
    if include == "None":
        return None
    return document if include == "Object" else partial_metadata(document, version)


def partial_metadata(document: JsonObject, version: str = "v1") -> JsonObject:
    """The PartialObjectMetadata of a document."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": document["metadata"],
    }
