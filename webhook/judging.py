"""The shell around the judges: reviews by path, what they need of the cluster, logs and metrics of their answers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from koord.api.objects import ConfigMap, JsonObject, Node, ObjectMeta, Pod, Struct
from koord.api.profiles import ClusterColocationProfile
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.kube.resources import CONFIGMAPS, Resource
from webhook import metrics
from webhook.judgement import Judgement, Reason
from webhook.live import Live
from webhook.object_review import ObjectReview, decode_object_review, encode_judgement
from webhook.registration import CONFIG_PATH, NODE_PATH, NODE_STATUS_PATH, PROFILE_PATH, VALIDATE_POD_PATH
from webhook.validation.routes import (
    ConfigPlace,
    amplify_review,
    judge_config_review,
    judge_node_review,
    judge_pod,
    judge_profile_review,
)

logger = logging.getLogger("koord.webhook.judging")

READ_LIMIT_S = 2.0
T = TypeVar("T")


class NodeLabels(Struct, frozen=True):
    """A node, as far as selectors look."""

    metadata: ObjectMeta = ObjectMeta()


NODE_LABELS = Resource("", "v1", "nodes", "Node", False, NodeLabels)


class Judges:
    """Answers a review by its path."""

    def __init__(self, client: Client, live: Live, place: ConfigPlace) -> None:
        """`place`: which ConfigMap configures the nodes."""
        self._client = client
        self._live = live
        self._place = place
        self.by_path: dict[str, Callable[[bytes], Awaitable[bytes]]] = {
            VALIDATE_POD_PATH: self._pod,
            PROFILE_PATH: self._profile,
            CONFIG_PATH: self._config,
            NODE_STATUS_PATH: self._node_status,
            NODE_PATH: self._node,
        }

    async def _pod(self, body: bytes) -> bytes:
        return self._answer(body, _PODS, lambda review: judge_pod(review, self._live.pod_rules))

    async def _profile(self, body: bytes) -> bytes:
        classes = self._live.context.priority_classes
        return self._answer(body, _PROFILES, lambda review: judge_profile_review(review, classes))

    async def _node_status(self, body: bytes) -> bytes:
        return self._answer(body, _DOCUMENTS, amplify_review)

    async def _config(self, body: bytes) -> bytes:
        nodes = await self._read("nodes", self._nodes()) or []
        return self._answer(body, _CONFIGS, lambda review: judge_config_review(review, self._place, nodes))

    async def _node(self, body: bytes) -> bytes:
        config = await self._read("config", self._client.get(CONFIGMAPS, self._place.name, self._place.namespace))
        return self._answer(body, _NODES, lambda review: judge_node_review(review, config))

    async def _nodes(self) -> list[tuple[str, dict[str, str]]]:
        page = await self._client.list(NODE_LABELS)
        return [(node.metadata.name, node.metadata.labels) for node in page.items]

    async def _read(self, what: str, reading: Awaitable[T]) -> T | None:
        """What is read for this one review; without it the review is judged by the rest."""
        try:
            async with asyncio.timeout(READ_LIMIT_S):
                return await reading
        except (ApiError, TimeoutError) as error:
            metrics.FAILURES.labels("reading").inc()
            logger.warning("judged without it", extra={"missing": what, "error": str(error)})
            return None

    def _answer(
        self, body: bytes, decoder: msgspec.json.Decoder[T], judge: Callable[[ObjectReview[T]], Judgement]
    ) -> bytes:
        started = time.perf_counter()
        review = decode_object_review(body, decoder)
        try:
            judgement = judge(review)
        except Exception:
            # The HTTP edge: an admission must never fail for a fault of this program.
            logger.exception("judging failed", extra={"object": review.reference})
            warning = "koord let the object pass unjudged because of an internal error"
            judgement = Judgement(True, Reason.INTERNAL_ERROR, warnings=(warning,))
        metrics.JUDGEMENTS.labels(review.resource_kind, judgement.reason.value).inc()
        metrics.SECONDS.observe(time.perf_counter() - started)
        if not judgement.allowed:
            fields = {"object": review.reference, "reason": judgement.reason, "uid": review.uid}
            logger.warning("refused: %s", judgement.message, extra=fields)
        return encode_judgement(review, judgement)


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(kind)


_PODS = _decoder(Pod)
_PROFILES = _decoder(ClusterColocationProfile)
_CONFIGS = _decoder(ConfigMap)
_NODES = _decoder(Node)
_DOCUMENTS: msgspec.json.Decoder[JsonObject] = msgspec.json.Decoder(dict[str, Any])
