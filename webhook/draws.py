"""Draws for profiles with a probability: 0 to 99, the same whenever the same pod is asked about again. Pure.

A profile with 30 % applies when the draw is below 30. The API server may call several times for one pod
(reinvocation, retries, several replicas of the webhook), and half a change is worse than none: so the draw is a
hash of what stays the same, the workload that owns the pod, and of the profile's name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from webhook.views import MetadataView

Draw = Callable[[str], int]


def stable_draw(identity: str) -> Draw:
    """A draw per profile name that depends on nothing else than the name and `identity`."""

    def draw(profile_name: str) -> int:
        digest = hashlib.blake2b(f"{profile_name}\0{identity}".encode(), digest_size=8).digest()
        return int.from_bytes(digest) % 100

    return draw


def workload_identity(metadata: MetadataView, namespace: str, request_uid: str) -> str:
    """What all pods of one workload share: the uid of the controlling owner.

    A pod without one is known by its namespace and its name or generateName; one without either by the
    request, the only thing left.
    """
    for owner in metadata.owner_references or ():
        if owner.controller and owner.uid:
            return owner.uid
    name = metadata.name or metadata.generate_name
    return f"{namespace}/{name}" if name else request_uid
