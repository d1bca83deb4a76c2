"""Reads Accept headers: as what a client wants its answer. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sandbox.apiserver import status

JSON = "application/json"
YAML = "application/yaml"


class Shape(StrEnum):
    """What the answer shows of an object."""

    OBJECT = "object"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"


@dataclass(frozen=True)
class Form:
    """A shape in a media type. `version` is that of the meta.k8s.io shapes."""

    shape: Shape = Shape.OBJECT
    media_type: str = JSON
    version: str = "v1"


@dataclass(frozen=True)
class MediaRange:
    """One entry of an Accept header."""

    type: str
    parameters: dict[str, str]

    @property
    def quality(self) -> float:
        """Its q value, 1 when absent or unreadable."""
        try:
            return float(self.parameters.get("q", "1"))
        except ValueError:
            return 1.0


def media_ranges(accept: str) -> list[MediaRange]:
    """The entries of an Accept header, the most wanted first; `*/*` when it is empty."""
    found = [_range(part) for part in (accept or "*/*").split(",") if part.strip()]
    return sorted(found, key=lambda entry: -entry.quality)


def _range(text: str) -> MediaRange:
    kind, *rest = (part.strip() for part in text.split(";"))
    pairs = (part.partition("=") for part in rest)
    return MediaRange(kind.lower(), {key.strip(): value.strip().strip('"') for key, _, value in pairs})


def negotiate(accept: str) -> Form:
    """The first form in the header that the server can produce. Raises StatusError 406."""
    for entry in media_ranges(accept):
        for form in _forms(entry):
            return form
    raise status.not_acceptable((JSON, YAML))


def _forms(entry: MediaRange) -> Iterator[Form]:
    if entry.type in ("*/*", "application/*"):
        media_type = JSON
    elif entry.type in (JSON, YAML):
        media_type = entry.type
    else:
        return
    shown_as = entry.parameters.get("as", "")
    if not shown_as:
        yield Form(Shape.OBJECT, media_type)
        return
    version = entry.parameters.get("v", "v1")
    if entry.parameters.get("g", "meta.k8s.io") != "meta.k8s.io" or version not in ("v1", "v1beta1"):
        return
    if shown_as == "Table":
        yield Form(Shape.TABLE, media_type, version)
    elif shown_as in ("PartialObjectMetadata", "PartialObjectMetadataList"):
        yield Form(Shape.METADATA, media_type, version)


def choose(accept: str, produced: Sequence[str]) -> str:
    """The first produced media type that a plain Accept header allows; "" for none."""
    for entry in media_ranges(accept):
        for media_type in produced:
            family = media_type.partition("/")[0] + "/*"
            if entry.type in (media_type, "*/*", family):
                return media_type
    return ""
