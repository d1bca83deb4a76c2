"""Which kinds the server serves: the built-in ones and those that CustomResourceDefinitions add while it runs."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sandbox.apiserver.storage import GroupResource

JsonObject = dict[str, Any]

READ_VERBS = ("get", "list", "watch")
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class ScalePaths:
    """Where a kind keeps what its scale subresource shows; dotted paths as in a CustomResourceDefinition.

    `selector` may be "" (none), a path to a label selector, or, for custom kinds, to its text form.
    """

    spec_replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str = ".spec.selector"


@dataclass(frozen=True)
class PrinterColumn:
    """An additionalPrinterColumns entry: `type` is string, integer, number, boolean or date."""

    name: str
    type: str
    json_path: str
    description: str = ""
    format: str = ""
    priority: int = 0


@dataclass(frozen=True)
class Kind:
    """One served kind in one version.

    Versions of one group and plural share their storage (`resource`). `schema` is the openAPIV3Schema of a custom
    kind, None for built-in ones, whose fields come from `fields.builtin`. `subresources` lists further ones
    ("binding", "eviction", "log", ...); status and scale have members of their own.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    has_status: bool = False
    scale: ScalePaths | None = None
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    generation: bool = False
    custom: bool = False
    schema: JsonObject | None = field(default=None, compare=False, hash=False)
    columns: tuple[PrinterColumn, ...] = ()
    selectable_fields: tuple[str, ...] = ()
    list_kind: str = ""
    storage_version: bool = True
    model: str = ""

    @property
    def resource(self) -> GroupResource:
        """The key of its storage."""
        return GroupResource(self.group, self.plural)

    @property
    def api_version(self) -> str:
        """`apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def list_name(self) -> str:
        """The kind of a list of it."""
        return self.list_kind or f"{self.kind}List"

    @property
    def singular_name(self) -> str:
        """What kubectl calls one of it."""
        return self.singular or self.kind.lower()

    @property
    def qualified(self) -> str:
        """`deployments.apps`, or `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


class KindRegistry:
    """The kinds by path and by name. `revision` grows with every change, for caches of derived documents."""

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        self._listeners: list[Callable[[], None]] = []
        self.revision = 0
        for kind in kinds:
            self.add(kind)

    def __iter__(self) -> Iterator[Kind]:
        return iter(list(self._kinds.values()))

    def add(self, kind: Kind) -> None:
        """Serve a kind, replacing the one of the same group, version and plural."""
        self._kinds[kind.group, kind.version, kind.plural] = kind
        self._changed()

    def remove(self, group: str, plural: str) -> None:
        """Stop serving all versions of a kind. Unknown ones are ignored."""
        for key in [key for key in self._kinds if key[0] == group and key[2] == plural]:
            del self._kinds[key]
        self._changed()

    def replace(self, group: str, plural: str, kinds: Iterable[Kind]) -> None:
        """Serve exactly these versions of a kind."""
        for key in [key for key in self._kinds if key[0] == group and key[2] == plural]:
            del self._kinds[key]
        for kind in kinds:
            self._kinds[kind.group, kind.version, kind.plural] = kind
        self._changed()

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind served at a path, or None."""
        return self._kinds.get((group, version, plural))

    def by_kind(self, group: str, version: str, kind: str) -> Kind | None:
        """The kind of an object's apiVersion and kind, or None."""
        for found in self._kinds.values():
            if (found.group, found.version, found.kind) == (group, version, kind):
                return found
        return None

    def any_version(self, group: str, plural: str) -> Kind | None:
        """The kind in the version it is stored in, or None."""
        served = [kind for kind in self._kinds.values() if (kind.group, kind.plural) == (group, plural)]
        return next((kind for kind in served if kind.storage_version), served[0] if served else None)

    def group_versions(self) -> dict[str, list[str]]:
        """Served groups with their versions, most preferred first; the core group is ""."""
        groups: dict[str, list[str]] = {}
        for kind in self._kinds.values():
            versions = groups.setdefault(kind.group, [])
            if kind.version not in versions:
                versions.append(kind.version)
        return {group: sorted(versions, key=version_priority) for group, versions in groups.items()}

    def listen(self, listener: Callable[[], None]) -> None:
        """Call after each change."""
        self._listeners.append(listener)

    def _changed(self) -> None:
        self.revision += 1
        for listener in self._listeners:
            listener()


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Sort key of Kubernetes versions: stable before beta before alpha, higher numbers first, others last."""
    stages = {"": 0, "beta": 1, "alpha": 2}
    body = version[1:]
    for stage in ("beta", "alpha", ""):
        major, found, minor = body.partition(stage) if stage else (body, "", "")
        if (found or not stage) and major.isdigit() and (minor.isdigit() or not minor):
            return stages[stage], -int(major), -int(minor or 0), version
    return 3, 0, 0, version
