"""The CustomResourceDefinitions that Koord installs, one YAML file each.

They serve the same groups, versions, kinds and fields as Koordinator's, so that either project's
objects are accepted. Ranges that only Koordinator's admission webhooks enforce are left out here:
a schema must not refuse what theirs accepts.
"""

import copy
import functools
from importlib import resources
from typing import Any

import yaml


def load() -> list[dict[str, Any]]:
    """Every CustomResourceDefinition, ordered by name; each call gives fresh copies."""
    return copy.deepcopy(_parsed())


@functools.cache
def _parsed() -> list[dict[str, Any]]:
    files = [entry for entry in resources.files(__name__).iterdir() if entry.name.endswith(".yaml")]
    definitions = [yaml.safe_load(entry.read_text("utf-8")) for entry in files]
    return sorted(definitions, key=lambda definition: str(definition["metadata"]["name"]))
