"""Decoding the JSON text that a key of the ConfigMap holds."""

from typing import Any

import msgspec

from koord.api.errors import InvalidInput


def json_document(text: str, object_ref: str) -> Any:
    """The decoded document; `null` reads as an empty object. Raises InvalidInput when it is not JSON."""
    try:
        decoded = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise InvalidInput(object_ref, "(document)", text, f"a JSON object ({error})") from None
    return {} if decoded is None else decoded
