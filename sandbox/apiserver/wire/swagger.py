"""A thin OpenAPI v2 document in protobuf, the only form that kubectl asks for it in.

It describes no kind: kubectl then leaves validation to the server. Schemas are in v3. Pure.
"""

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
ASKED_AS = (MEDIA_TYPE, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")

# Field numbers of gnostic's openapi.v2.Document and Info.
_SWAGGER, _INFO, _PATHS, _DEFINITIONS = 1, 2, 8, 9
_TITLE, _VERSION = 1, 2


def encode(title: str, version: str) -> bytes:
    """The document, without paths and definitions. Texts may be 120 bytes long."""
    info = _text(_TITLE, title.encode()) + _text(_VERSION, version.encode())
    return _text(_SWAGGER, b"2.0") + _text(_INFO, info) + _text(_PATHS, b"") + _text(_DEFINITIONS, b"")


def _text(number: int, content: bytes) -> bytes:
    """A length-delimited field; numbers and lengths here fit into one byte."""
    if len(content) > 0x7F:
        raise ValueError(f"{len(content)} bytes: allowed: up to 127")
    return bytes((number << 3 | 2, len(content))) + content
