"""CA bundles: the set of authorities that an API server trusts for a webhook. Pure.

During a rotation the bundle holds the old and the new CA, so that every certificate served meanwhile verifies.
An old CA leaves the bundle when it expires; nothing else removes it.
"""

from __future__ import annotations

import base64
import binascii
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization

# More authorities than this were never ours: a runaway writer must not grow the object without bound.
MAX_AUTHORITIES = 8


def merge_bundle(current: str, authority_pem: bytes, now: datetime) -> str:
    """The caBundle (base64 of PEM) that trusts `authority_pem` first and every unexpired CA of `current`.

    Unreadable parts of `current` are dropped: they verify nothing. Returns `current` itself when it already
    trusts the authority and holds nothing expired, so that no needless write happens.
    """
    authority = x509.load_pem_x509_certificate(authority_pem)
    trusted = _readable(current)
    kept = [old for old in trusted if old != authority and old.not_valid_after_utc > now]
    if authority in trusted and len(kept) == len(trusted) - 1 and current:
        return current
    wanted = [authority, *kept[: MAX_AUTHORITIES - 1]]
    pem = b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in wanted)
    return base64.b64encode(pem).decode()


def trusts(bundle: str, authority_pem: bytes) -> bool:
    """Whether a caBundle (base64 of PEM) holds this authority."""
    return x509.load_pem_x509_certificate(authority_pem) in _readable(bundle)


def _readable(bundle: str) -> list[x509.Certificate]:
    try:
        pem = base64.b64decode(bundle, validate=False)
        return x509.load_pem_x509_certificates(pem)
    except (ValueError, binascii.Error):
        return []
