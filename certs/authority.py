"""Issue a certificate authority and the serving certificates it signs.

Pure but for the random numbers that keys need: the time is an argument. Keys are ECDSA P-256: small, quick to
make and accepted by every API server. Keys live in `KeyPair.key_pem` only, which never appears in a repr.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_NAME = "koord webhook CA"
AUTHORITY_LIFETIME = timedelta(days=3650)
SERVING_LIFETIME = timedelta(days=365)
# Clocks of API server and webhook may differ: a certificate is already valid a little before it is made.
CLOCK_SKEW = timedelta(hours=1)

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)


def issue_authority(
    now: datetime, *, name: str = AUTHORITY_NAME, lifetime: timedelta = AUTHORITY_LIFETIME
) -> KeyPair:
    """A new self-signed CA that may sign leaf certificates only. `now` must be aware of its time zone."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
    builder = (
        _builder(subject, subject, key.public_key(), now, lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def issue_serving(
    authority: KeyPair, hosts: Sequence[str], now: datetime, *, lifetime: timedelta = SERVING_LIFETIME
) -> KeyPair:
    """A new serving certificate for `hosts` (DNS names and IP addresses), signed by `authority`.

    It never outlives its authority. Raises ValueError when there is no host or the authority is unreadable.
    """
    if not hosts:
        raise ValueError("a serving certificate needs at least one host name or address")
    signer = x509.load_pem_x509_certificate(authority.certificate_pem)
    signing_key = load_key(authority.key_pem)
    key = ec.generate_private_key(ec.SECP256R1())
    lifetime = min(lifetime, signer.not_valid_after_utc - now)
    names = x509.SubjectAlternativeName([general_name(host) for host in hosts])
    builder = (
        # The common name is limited to 64 characters; verification looks at the alternative names only.
        _builder(_subject(hosts[0][:64]), signer.subject, key.public_key(), now, lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(names, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False)
    )
    return _pair(builder.sign(signing_key, hashes.SHA256()), key)


def expiry(pair: KeyPair) -> datetime:
    """When the certificate ceases to be valid. Raises ValueError when it is unreadable."""
    return x509.load_pem_x509_certificate(pair.certificate_pem).not_valid_after_utc


def general_name(host: str) -> x509.GeneralName:
    """The alternative name for a host: an IP address where the text is one, else a DNS name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def load_key(key_pem: bytes) -> PrivateKey:
    """Read a private key. Raises ValueError when it is unreadable or neither ECDSA nor RSA."""
    key = serialization.load_pem_private_key(key_pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise ValueError(f"unsupported kind of private key {type(key).__name__}: allowed: ECDSA, RSA")
    return key


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - min(CLOCK_SKEW, lifetime / 4))
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), key_pem)
