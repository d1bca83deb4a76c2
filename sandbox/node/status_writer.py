"""Writes what nodes know of their pods to the API server: statuses, and the last deletion."""

import asyncio
import logging

from koord.api.objects import JsonObject
from koord.kube.client import Client
from koord.kube.errors import ApiError, Conflict, Invalid, NotFound
from koord.kube.requests import STRATEGIC_PATCH
from sandbox.node import model

log = logging.getLogger("koord.sandbox.node")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0


class StatusWriter:
    """Writes for all nodes of the sandbox. After `close` nothing is written and nothing waits."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._closed = False

    def close(self) -> None:
        """The sandbox stops: statuses interest nobody any more."""
        self._closed = True

    async def write(self, pod: model.Pod, status: JsonObject) -> None:
        """Write a status, trying again until the API server takes it or the pod is gone."""
        meta = pod.metadata
        body = {"metadata": {"uid": meta.uid}, "status": status}
        pause_s = FIRST_PAUSE_S
        while not self._closed:
            try:
                await self._client.patch(
                    model.PODS,
                    meta.name,
                    body,
                    namespace=meta.namespace,
                    subresource="status",
                    content_type=STRATEGIC_PATCH,
                )
                return
            except (NotFound, Conflict):  # gone, or another pod has the name
                return
            except Invalid as error:
                log.error("the API server refuses a pod's status", extra={"pod": pod.key, "error": str(error)})
                return
            except ApiError as error:
                log.warning("a pod's status was not written", extra={"pod": pod.key, "error": str(error)})
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def remove(self, pod: model.Pod) -> None:
        """Delete a pod whose processes have ended, trying again until it is gone."""
        meta = pod.metadata
        pause_s = FIRST_PAUSE_S
        while not self._closed:
            try:
                await self._client.delete(model.PODS, meta.name, meta.namespace, grace_period_s=0, uid=meta.uid)
                return
            except (NotFound, Conflict):
                return
            except ApiError as error:
                log.warning("an ended pod was not deleted", extra={"pod": pod.key, "error": str(error)})
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
