"""Request bodies: JSON, YAML or protobuf bytes to a document. Pure."""

from typing import Any

import msgspec
import yaml

from sandbox.apiserver import status
from sandbox.apiserver.wire import protobuf

JsonObject = dict[str, Any]

JSON = "application/json"
YAML = "application/yaml"
MAX_BODY_BYTES = 3 * 1024 * 1024
READABLE = (JSON, YAML, protobuf.MEDIA_TYPE)


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: timestamps stay texts."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def media_type(content_type: str) -> str:
    """The type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def read_json(body: bytes) -> Any:
    """Decode JSON. Raises StatusError 400."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise status.bad_request(f"the object provided is unrecognized (must be of type JSON): {error}") from None


def read_document(body: bytes, content_type: str) -> JsonObject:
    """Decode a body that must hold one object. Raises StatusError 400 or 415."""
    form = media_type(content_type) or JSON
    if form not in READABLE:
        raise status.unsupported_media_type(form, READABLE)
    if form == protobuf.MEDIA_TYPE:
        try:
            return protobuf.decode(body)
        except protobuf.Undecodable as error:
            raise status.bad_request(f"error decoding protobuf: {error}") from None
    return as_object(read_json(body) if form == JSON else read_yaml(body))


def read_yaml(body: bytes) -> Any:
    """Decode YAML, of which JSON is a part. Raises StatusError 400."""
    if body.lstrip().startswith(b"{"):
        try:
            return msgspec.json.decode(body)
        except msgspec.DecodeError:
            pass  # a YAML flow mapping also begins with a brace
    try:
        return yaml.load(body, Loader=_Loader)
    except yaml.YAMLError as error:
        raise status.bad_request(f"error decoding YAML: {error}") from None


def as_object(document: Any) -> JsonObject:
    """The document itself when it is an object. Raises StatusError 400."""
    if not isinstance(document, dict):
        raise status.bad_request("the object provided is unrecognized: an object is expected")
    metadata = document.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise status.bad_request("metadata: an object is expected")
    return document
