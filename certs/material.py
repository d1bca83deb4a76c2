"""Judge stored certificate material: whether it can be served now, and whether to replace it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from certs.authority import (
    AUTHORITY_LIFETIME,
    SERVING_LIFETIME,
    KeyPair,
    general_name,
    issue_authority,
    issue_serving,
    load_key,
)

# Replaced when a third of the life is left: weeks in which a stuck renewal is noticed before anything fails.
RENEW_FRACTION = 3


@dataclass(frozen=True, slots=True)
class Material:
    """Everything a webhook needs to be trusted: its CA and the certificate it serves."""

    authority: KeyPair
    serving: KeyPair


class Problem(StrEnum):
    """Why material is not as it should be; NONE when it is."""

    CA_UNREADABLE = "ca-unreadable"
    CA_KEY_MISMATCH = "ca-key-mismatch"
    CA_NOT_VALID_NOW = "ca-not-valid-now"
    CA_EXPIRES_SOON = "ca-expires-soon"
    UNREADABLE = "unreadable"
    KEY_MISMATCH = "key-mismatch"
    NOT_VALID_NOW = "not-valid-now"
    NOT_SIGNED_BY_CA = "not-signed-by-ca"
    WRONG_HOST = "wrong-host"
    EXPIRES_SOON = "expires-soon"
    ABSENT = "absent"
    NONE = ""


_NEEDS_AUTHORITY = frozenset(
    {
        Problem.CA_UNREADABLE,
        Problem.CA_KEY_MISMATCH,
        Problem.CA_NOT_VALID_NOW,
        Problem.CA_EXPIRES_SOON,
        Problem.ABSENT,
    }
)
_SERVABLE = frozenset({Problem.NONE, Problem.EXPIRES_SOON, Problem.CA_EXPIRES_SOON})


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is wrong with material. `not_after`: end of the serving certificate, None when unreadable."""

    problem: Problem
    not_after: datetime | None = None
    detail: str = ""

    @property
    def is_servable(self) -> bool:
        """A client that trusts the CA accepts it now, even though renewal may be due."""
        return self.problem in _SERVABLE

    @property
    def needs_renewal(self) -> bool:
        """Anything is wrong or soon will be."""
        return self.problem is not Problem.NONE

    @property
    def needs_new_authority(self) -> bool:
        """A new serving certificate alone does not help."""
        return self.problem in _NEEDS_AUTHORITY


def judge(material: Material, hosts: Sequence[str], now: datetime) -> Judgement:
    """Judge material that shall serve every one of `hosts` at `now` (aware of its time zone).

    The serving certificate's faults are looked for first, except those that come from the CA: material whose
    CA expires soon but that is sound otherwise stays servable.
    """
    authority, problem, detail = _read(material.authority)
    if authority is None:
        return Judgement(
            Problem.CA_UNREADABLE if problem is Problem.UNREADABLE else Problem.CA_KEY_MISMATCH, None, detail
        )
    if not _valid_at(authority, now):
        return Judgement(Problem.CA_NOT_VALID_NOW, detail=f"valid until {authority.not_valid_after_utc}")
    serving, problem, detail = _read(material.serving)
    if serving is None:
        return Judgement(problem, detail=detail)
    not_after = serving.not_valid_after_utc
    problem, detail = _serving_problem(serving, authority, hosts, now)
    if problem is not Problem.NONE:
        return Judgement(problem, not_after, detail)
    for certificate, soon in ((authority, Problem.CA_EXPIRES_SOON), (serving, Problem.EXPIRES_SOON)):
        life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        if certificate.not_valid_after_utc - now < life / RENEW_FRACTION:
            return Judgement(soon, not_after, f"valid until {certificate.not_valid_after_utc}")
    return Judgement(Problem.NONE, not_after)


def needs_renewal(material: Material, hosts: Sequence[str], now: datetime) -> bool:
    """Whether to replace material: unusable, for other hosts, or in the last third of its life."""
    return judge(material, hosts, now).needs_renewal


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long what is made is valid."""

    authority: timedelta = AUTHORITY_LIFETIME
    serving: timedelta = SERVING_LIFETIME


DEFAULT_LIFETIMES = Lifetimes()


def renew(
    material: Material | None, hosts: Sequence[str], now: datetime, lifetimes: Lifetimes = DEFAULT_LIFETIMES
) -> tuple[Material, Judgement]:
    """Material that is sound at `now`, and what was wrong before; the same object when nothing was.

    The CA is kept as long as it can be, so that nobody has to learn to trust a new one.
    """
    before = judge(material, hosts, now) if material is not None else Judgement(Problem.ABSENT)
    if material is not None and not before.needs_renewal:
        return material, before
    keep = material is not None and not before.needs_new_authority
    kept = material.authority if material is not None and keep else None
    authority = kept or issue_authority(now, lifetime=lifetimes.authority)
    return Material(authority, issue_serving(authority, hosts, now, lifetime=lifetimes.serving)), before


def verifies(certificate_pem: bytes, bundle_pem: bytes, host: str, now: datetime) -> bool:
    """Whether a client that trusts `bundle_pem` accepts the certificate as `host`'s at `now`."""
    name = general_name(host)
    assert isinstance(name, x509.DNSName | x509.IPAddress)
    try:
        roots = x509.load_pem_x509_certificates(bundle_pem)
        leaf = x509.load_pem_x509_certificate(certificate_pem)
        PolicyBuilder().store(Store(roots)).time(now).build_server_verifier(name).verify(leaf, [])
    except (ValueError, VerificationError):
        return False
    return True


def _read(pair: KeyPair) -> tuple[x509.Certificate | None, Problem, str]:
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate_pem)
        key = load_key(pair.key_pem)
    except (ValueError, TypeError) as error:
        return None, Problem.UNREADABLE, str(error)
    public_key = certificate.public_key()
    if not isinstance(public_key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
        return None, Problem.UNREADABLE, f"unsupported kind of key {type(public_key).__name__}"
    if _public_bytes(public_key) != _public_bytes(key.public_key()):
        return None, Problem.KEY_MISMATCH, certificate.subject.rfc4514_string()
    return certificate, Problem.NONE, ""


def _serving_problem(
    serving: x509.Certificate, authority: x509.Certificate, hosts: Sequence[str], now: datetime
) -> tuple[Problem, str]:
    if not _valid_at(serving, now):
        return Problem.NOT_VALID_NOW, f"valid until {serving.not_valid_after_utc}"
    try:
        serving.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature) as error:
        return Problem.NOT_SIGNED_BY_CA, str(error)
    served = _served_names(serving)
    missing = [host for host in hosts if general_name(host) not in served]
    if missing:
        return Problem.WRONG_HOST, f"does not name {', '.join(missing)}"
    return Problem.NONE, ""


def _valid_at(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc


def _served_names(certificate: x509.Certificate) -> list[x509.GeneralName]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return list(extension.value)


def _public_bytes(key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
