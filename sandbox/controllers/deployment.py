"""The Deployment controller."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from koord.kube.changes import Change
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists
from koord.kube.events import EventRecorder
from koord.kube.resources import DEPLOYMENTS, REPLICA_SETS, Key
from sandbox.admission.request import JsonObject
from sandbox.controllers.claims import claim
from sandbox.controllers.informers import Informers, key_of
from sandbox.controllers.pod_writer import ChildWriter
from sandbox.controllers.rollout import (
    DESIRED,
    MOST,
    REVISION,
    RolloutPlan,
    bounds_of,
    plan_rollout,
    revision_of,
    split,
    wants,
)
from sandbox.controllers.rollout_status import progress_check_in_s, rollout_status
from sandbox.controllers.status_writer import write_status
from sandbox.controllers.templates import HASH_LABEL, owner_reference, selector_of, template_hash
from sandbox.controllers.workqueue import WorkQueue
from sandbox.lifecycle.pods import controller_of

_NOT_COPIED: Final = ("kubectl.kubernetes.io/last-applied-configuration", REVISION, DESIRED, MOST)


class DeploymentController:
    """Rolls Deployments out through ReplicaSets."""

    def __init__(
        self, client: Client, informers: Informers, events: EventRecorder, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._informers = informers
        self._writer = ChildWriter(client, informers.replica_sets, events)
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue("deployment", self._reconcile)

    async def run(self) -> None:
        """Work for ever; the informers must run beside."""
        await self._informers.wait_synced()
        self._informers.deployments.store.subscribe(lambda change: self._queue.add(key_of(change.object)))
        self._informers.replica_sets.store.subscribe(self._on_replica_set)
        self._informers.pods.store.subscribe(self._on_pod)
        await self._queue.run()

    def _on_replica_set(self, change: Change[JsonObject]) -> None:
        for replica_set in (change.old, change.new):
            owner = controller_of(replica_set) if replica_set is not None else None
            if replica_set is not None and owner is not None and owner["kind"] == DEPLOYMENTS.kind:
                self._queue.add(Key(replica_set["metadata"]["namespace"], owner["name"]))

    def _on_pod(self, change: Change[JsonObject]) -> None:
        """Recreate waits for the last old pod to go."""
        if change.new is not None or change.old is None:
            return
        owner = controller_of(change.old)
        if owner is None or owner["kind"] != REPLICA_SETS.kind:
            return
        replica_set = self._informers.replica_sets.get(Key(change.old["metadata"]["namespace"], owner["name"]))
        above = controller_of(replica_set) if replica_set is not None else None
        if above is not None:
            self._queue.add(Key(change.old["metadata"]["namespace"], above["name"]))

    async def _reconcile(self, key: Key) -> float | None:
        deployment = self._informers.deployments.get(key)
        if deployment is None:
            return None
        replica_sets = await self._replica_sets(deployment)
        new, old = split(deployment, replica_sets)
        old_pods = [pod for rs in old for pod in self._informers.pods.owned_by(rs["metadata"]["uid"])]
        plan = plan_rollout(deployment, new, old, old_pods)
        created = await self._carry_out(deployment, new, old, plan)
        new, old = split(deployment, self._informers.replica_sets.owned_by(deployment["metadata"]["uid"]))
        now_s = self._clock()
        status = rollout_status(deployment, new, old, now_s, created=created)
        if new is not None:
            await self._publish_revision(deployment, new)
            deployment = self._informers.deployments.get(key) or deployment
        await write_status(self._client, DEPLOYMENTS, deployment, status)
        return progress_check_in_s(deployment, status, now_s)

    async def _replica_sets(self, deployment: JsonObject) -> list[JsonObject]:
        """Its ReplicaSets, after taking in orphans that it selects."""
        uid, namespace = deployment["metadata"]["uid"], deployment["metadata"]["namespace"]
        owned = self._informers.replica_sets.owned_by(uid)
        found = claim(deployment, selector_of(deployment), owned, self._informers.replica_sets.orphans_in(namespace))
        await asyncio.gather(*(self._writer.adopt(deployment, DEPLOYMENTS, rs) for rs in found.adopt))
        return self._informers.replica_sets.owned_by(uid)

    async def _carry_out(
        self, deployment: JsonObject, new: JsonObject | None, old: list[JsonObject], plan: RolloutPlan
    ) -> bool:
        """Returns whether the new ReplicaSet was made."""
        if plan.create is not None:
            body = _new_replica_set(deployment, old, plan.create)
            try:
                await self._writer.create(deployment, DEPLOYMENTS, [body])
            except AlreadyExists:
                # The hash is taken by a ReplicaSet that is not ours (any more): wait for it to go.
                self._queue.add_after(key_of(deployment), 1.0)
                return False
            name = body["metadata"]["name"]
            self._tell(deployment, f"Scaled up replica set {name} from 0 to {plan.create}")
        for replica_set in [*old, new] if new is not None else old:
            name = replica_set["metadata"]["name"]
            if name in plan.scales:
                await self._scale(deployment, replica_set, plan.scales[name])
        await self._writer.delete(deployment, DEPLOYMENTS, plan.retire)
        if new is not None:
            await self._annotate(deployment, new, old)
        return plan.create is not None

    async def _scale(self, deployment: JsonObject, replica_set: JsonObject, replicas: int) -> None:
        before, name = wants(replica_set), replica_set["metadata"]["name"]
        bounds = bounds_of(deployment)
        annotations = {DESIRED: str(bounds.replicas), MOST: str(bounds.most)}
        await self._patch_replica_set(
            replica_set, {"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}}
        )
        way = "up" if replicas > before else "down"
        self._tell(deployment, f"Scaled {way} replica set {name} from {before} to {replicas}")

    async def _annotate(self, deployment: JsonObject, new: JsonObject, old: list[JsonObject]) -> None:
        """Give a ReplicaSet that became the new one (again) the highest revision."""
        revision = max((revision_of(rs) for rs in old), default=0) + 1
        if revision_of(new) < revision:
            annotations = {**_copied_annotations(deployment), REVISION: str(revision)}
            await self._patch_replica_set(new, {"metadata": {"annotations": annotations}})

    async def _patch_replica_set(self, replica_set: JsonObject, body: JsonObject) -> None:
        metadata = replica_set["metadata"]
        patched = await self._client.patch(REPLICA_SETS, metadata["name"], body, namespace=metadata["namespace"])
        version = int(patched["metadata"]["resourceVersion"])
        key = key_of(replica_set)

        def is_seen() -> bool:
            found = self._informers.replica_sets.get(key)
            return found is None or int(found["metadata"]["resourceVersion"]) >= version

        await self._informers.replica_sets.until(is_seen)

    async def _publish_revision(self, deployment: JsonObject, new: JsonObject) -> None:
        """The Deployment carries the revision of its newest ReplicaSet."""
        revision = (new["metadata"].get("annotations") or {}).get(REVISION)
        if revision is None or (deployment["metadata"].get("annotations") or {}).get(REVISION) == revision:
            return
        metadata = deployment["metadata"]
        body = {"metadata": {"annotations": {REVISION: revision}}}
        patched = await self._client.patch(DEPLOYMENTS, metadata["name"], body, namespace=metadata["namespace"])
        version, key = int(patched["metadata"]["resourceVersion"]), key_of(deployment)

        def is_seen() -> bool:
            found = self._informers.deployments.get(key)
            return found is None or int(found["metadata"]["resourceVersion"]) >= version

        await self._informers.deployments.until(is_seen)

    def _tell(self, deployment: JsonObject, text: str) -> None:
        self._writer.tell(deployment, DEPLOYMENTS, "Normal", "ScalingReplicaSet", text)


def _copied_annotations(deployment: JsonObject) -> dict[str, str]:
    annotations = deployment["metadata"].get("annotations") or {}
    return {key: text for key, text in annotations.items() if key not in _NOT_COPIED}


def _new_replica_set(deployment: JsonObject, old: list[JsonObject], replicas: int) -> JsonObject:
    """The ReplicaSet of the Deployment's present template."""
    spec, metadata = deployment["spec"], deployment["metadata"]
    template = spec.get("template") or {}
    pod_hash = template_hash(template)
    template_metadata = template.get("metadata") or {}
    labels = {**(template_metadata.get("labels") or {}), HASH_LABEL: pod_hash}
    selector = spec["selector"]
    bounds = bounds_of(deployment)
    revision = max((revision_of(rs) for rs in old), default=0) + 1
    return {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.kind,
        "metadata": {
            "name": f"{metadata['name']}-{pod_hash}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": {
                **_copied_annotations(deployment),
                REVISION: str(revision),
                DESIRED: str(bounds.replicas),
                MOST: str(bounds.most),
            },
            "ownerReferences": [owner_reference(deployment, DEPLOYMENTS)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": spec.get("minReadySeconds", 0),
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: pod_hash}},
            "template": {**template, "metadata": {**template_metadata, "labels": labels}},
        },
    }
