"""The Job controller."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from koord.api.timestamps import format_rfc3339
from koord.kube.changes import Change
from koord.kube.client import Client
from koord.kube.errors import NotFound
from koord.kube.events import EventRecorder
from koord.kube.requests import JSON_PATCH
from koord.kube.resources import JOBS, Key
from sandbox.admission.request import JsonObject
from sandbox.controllers.informers import Informers, key_of
from sandbox.controllers.job_plan import (
    INDEX,
    TRACKING,
    count_pods,
    finished_status,
    is_ended,
    job_status,
    plan_job,
    pod_failed,
)
from sandbox.controllers.pod_writer import ChildWriter
from sandbox.controllers.status_writer import write_status
from sandbox.controllers.templates import labels_of, pod_from_template
from sandbox.controllers.workqueue import WorkQueue
from sandbox.lifecycle.pods import controller_of, is_finished, is_terminating

_BY_JOB_NAME: Final = "job name"
_NAME_LABEL: Final = "batch.kubernetes.io/job-name"
_INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"


class JobController:
    """Runs Jobs to completion."""

    def __init__(
        self, client: Client, informers: Informers, events: EventRecorder, clock: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._informers = informers
        self._writer = ChildWriter(client, informers.pods, events)
        self._clock = clock
        informers.pods.store.add_index(_BY_JOB_NAME, _job_key)
        self._queue: WorkQueue[Key] = WorkQueue("job", self._reconcile, workers=8)

    async def run(self) -> None:
        """Work for ever; the informers must run beside."""
        await self._informers.wait_synced()
        self._informers.jobs.store.subscribe(lambda change: self._queue.add(key_of(change.object)))
        self._informers.pods.store.subscribe(self._on_pod)
        await self._queue.run()

    def _on_pod(self, change: Change[JsonObject]) -> None:
        key = _job_key(change.object)
        if key is not None:
            self._queue.add(key)

    async def _reconcile(self, key: Key) -> float | None:
        job = self._informers.jobs.get(key)
        await self._release_orphans(key, job)
        if job is None or job["metadata"].get("deletionTimestamp"):
            return None
        pods = self._pods(job)
        if is_ended(job):
            await self._release([pod for pod in pods if is_finished(pod) or is_terminating(pod)])
            return None
        now_s = self._clock()
        counted = count_pods(job, pods)
        plan = plan_job(job, pods, counted, now_s)
        # First what has ended is written down, then the pods may go: nothing is counted twice or lost.
        status = job_status(job, pods, counted, now_s)
        if plan.ended is not None:
            status = finished_status(status, plan.ended, format_rfc3339(now_s))
            self._tell_end(job, status, plan.ended)
        job = await self._write(job, status)
        await self._release([pod for pod in pods if is_finished(pod) or pod_failed(pod)])
        await self._writer.delete(job, JOBS, plan.delete)
        await self._writer.create(job, JOBS, [_pod(job, index) for index in plan.create])
        if plan.create or plan.delete or counted.new_succeeded or counted.new_failed:
            self._queue.add(key)
        return plan.again_s

    async def _write(self, job: JsonObject, status: JsonObject) -> JsonObject:
        """Write a status and wait until it is seen, so that no pod is counted on an old one."""
        if not await write_status(self._client, JOBS, job, status):
            return job
        key, before = key_of(job), job["metadata"]["resourceVersion"]

        def is_seen() -> bool:
            found = self._informers.jobs.get(key)
            return found is None or found["metadata"]["resourceVersion"] != before

        await self._informers.jobs.until(is_seen)
        return self._informers.jobs.get(key) or job

    def _tell_end(self, job: JsonObject, status: JsonObject, ended: tuple[str, str, str]) -> None:
        if not is_ended({"status": status}):
            return
        kind, reason, message = ended
        if kind == "Complete":
            self._writer.tell(job, JOBS, "Normal", "Completed", "Job completed")
        else:
            self._writer.tell(job, JOBS, "Warning", reason, message)

    async def _release(self, pods: Sequence[JsonObject]) -> None:
        """Take the tracking finalizer off pods that have been counted."""
        await asyncio.gather(*(self._release_one(pod) for pod in pods))

    async def _release_one(self, pod: JsonObject) -> None:
        metadata = pod["metadata"]
        finalizers = metadata.get("finalizers") or []
        if TRACKING not in finalizers:
            return
        kept = [name for name in finalizers if name != TRACKING]
        change = (
            {"op": "replace", "path": "/metadata/finalizers", "value": kept}
            if kept
            else {"op": "remove", "path": "/metadata/finalizers"}
        )
        body = [{"op": "test", "path": "/metadata/finalizers", "value": finalizers}, change]
        resource = self._informers.pods.resource
        try:
            await self._client.patch(
                resource, metadata["name"], body, namespace=metadata["namespace"], content_type=JSON_PATCH
            )
        except NotFound:
            return
        key = key_of(pod)

        def is_seen() -> bool:
            found = self._informers.pods.get(key)
            return found is None or TRACKING not in (found["metadata"].get("finalizers") or ())

        await self._informers.pods.until(is_seen)

    async def _release_orphans(self, key: Key, job: JsonObject | None) -> None:
        """Pods of a job that is gone, going, or no longer their owner must not be held back by its finalizer."""
        keeper = job["metadata"]["uid"] if job is not None and not job["metadata"].get("deletionTimestamp") else ""
        named = self._informers.pods.store.by_index(_BY_JOB_NAME, key)
        await self._release([pod for pod in named if (controller_of(pod) or {}).get("uid") != keeper])

    def _pods(self, job: JsonObject) -> list[JsonObject]:
        return self._informers.pods.owned_by(job["metadata"]["uid"])


def _job_key(pod: JsonObject) -> Key | None:
    """The job that owns a pod; for pods that lost their owner, the job whose finalizer they still carry."""
    metadata = pod["metadata"]
    owner = controller_of(pod)
    if owner is not None:
        return Key(metadata["namespace"], owner["name"]) if owner["kind"] == JOBS.kind else None
    name = labels_of(pod).get(_NAME_LABEL, "")
    return Key(metadata["namespace"], name) if name and TRACKING in (metadata.get("finalizers") or ()) else None


def _pod(job: JsonObject, index: int | None) -> JsonObject:
    """A pod of the job, held by the tracking finalizer; `index` for Indexed jobs."""
    pod = pod_from_template(job, JOBS, (job.get("spec") or {}).get("template") or {})
    metadata = pod["metadata"]
    metadata["finalizers"] = [*(metadata.get("finalizers") or ()), TRACKING]
    if index is None:
        return pod
    metadata["generateName"] = f"{job['metadata']['name']}-{index}-"
    metadata["annotations"][INDEX] = str(index)
    metadata["labels"][INDEX] = str(index)
    pod["spec"].setdefault("hostname", f"{job['metadata']['name']}-{index}")
    for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
        container.setdefault("env", []).append({"name": _INDEX_VARIABLE, "value": str(index)})
    return pod
