"""Reading manifests: every document of files, and the pods and pod templates inside."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import yaml

JsonObject = dict[str, Any]

_TEMPLATE_PATHS = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"), ("template",))


@dataclass(frozen=True, slots=True)
class PodPlace:
    """A pod, or the template of pods, inside a document. `owner`: `Deployment/web`, as messages name it."""

    holder: JsonObject
    owner: str
    namespace: str
    is_template: bool


def read_documents(path: Path) -> list[JsonObject]:
    """All documents of a YAML or JSON file; `-` is standard input. Raises click.ClickException naming the place."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise click.ClickException(f"{path}: {error}") from error
    for number, document in enumerate(documents, 1):
        if not isinstance(document, dict) or "kind" not in document:
            raise click.ClickException(f"{path}: document {number} is no Kubernetes object: it has no kind")
    return documents


def read_folder(folder: Path) -> list[JsonObject]:
    """The documents of a file, or of every .yaml, .yml and .json file of a folder, by name; lists are opened."""
    if folder.is_dir():
        files = sorted(path for path in folder.iterdir() if path.suffix in (".yaml", ".yml", ".json"))
    else:
        files = [folder]
    return [item for path in files for document in read_documents(path) for item in opened(document)]


def opened(document: JsonObject) -> Iterator[JsonObject]:
    """The document, or the items of a List."""
    items = document.get("items")
    if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
        for item in items:
            yield from opened(item)
    else:
        yield document


def pod_places(document: JsonObject, default_namespace: str) -> Iterator[PodPlace]:
    """Every pod and pod template of a document, whatever its kind."""
    for item in opened(document):
        metadata = item.get("metadata") or {}
        owner = f"{item.get('kind')}/{metadata.get('name') or metadata.get('generateName', '')}"
        namespace = metadata.get("namespace") or default_namespace
        if item.get("kind") == "Pod":
            yield PodPlace(item, owner, namespace, is_template=False)
            continue
        for path in _TEMPLATE_PATHS:
            found: Any = item
            for name in path:
                found = found.get(name) if isinstance(found, dict) else None
            if isinstance(found, dict) and isinstance((found.get("spec") or {}).get("containers"), list):
                yield PodPlace(found, owner, namespace, is_template=True)
