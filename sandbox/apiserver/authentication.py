"""Who is calling: a bearer token, or the client certificate of the TLS connection."""

import hmac
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from sandbox.apiserver import status
from sandbox.apiserver.calls import AUTHENTICATED, User


class Authenticator:
    """Knows users by bearer token; certificates that TLS has verified speak for themselves (CN, O)."""

    def __init__(self, tokens: Mapping[str, User]) -> None:
        self._tokens = dict(tokens)

    def user_of(self, request: web.Request) -> User:
        """The caller. Raises StatusError 401."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            found = self.by_token(token.strip())
            if found is None:
                raise status.unauthorized()
            return found
        certificate = request.get_extra_info("peercert")
        user = user_of_certificate(certificate) if certificate else None
        if user is None:
            raise status.unauthorized()
        return user

    def by_token(self, token: str) -> User | None:
        """The user of a token, compared in constant time."""
        for known, user in self._tokens.items():
            if hmac.compare_digest(known.encode(), token.encode()):
                return user
        return None


def user_of_certificate(certificate: Mapping[str, Any]) -> User | None:
    """The user that a verified client certificate names, None when it has no common name."""
    name = ""
    groups = []
    for attributes in certificate.get("subject", ()):
        for key, value in attributes:
            if key == "commonName":
                name = value
            elif key == "organizationName":
                groups.append(value)
    return User(name, (*groups, AUTHENTICATED)) if name else None
