"""Samples node and cgroups twice a second over the whole run: what the screen shows and the report draws."""

import asyncio
import time
from collections.abc import Callable

from sandbox.demo.accounting import Accountant, CpuTimes, use_between
from sandbox.demo.cgroup_values import CgroupValues, pod_path, qos_path
from sandbox.demo.cluster_view import ClusterView
from sandbox.demo.manifests import KOORD_NAMESPACE, PLAIN_NAMESPACE, SERVICE_NAMESPACE
from sandbox.demo.result import Sample

PERIOD_S = 0.5


class Sampler:
    """Keeps all samples; `cgroups` is None where nothing can be measured: then only the node is sampled."""

    def __init__(
        self,
        view: ClusterView,
        accountant: Accountant | None,
        values: CgroupValues | None,
        cgroup_parent: str,
        *,
        cpus: int,
        origin_s: float,
        on_sample: Callable[[Sample], None],
    ) -> None:
        self._view = view
        self._accountant = accountant
        self._values = values
        self._parent = cgroup_parent
        self._cpus = cpus
        self._origin_s = origin_s
        self._on_sample = on_sample
        self._last: CpuTimes | None = None
        self.samples: list[Sample] = []

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            self.record()
            await asyncio.sleep(PERIOD_S)

    def record(self) -> None:
        """Take a sample now and keep it."""
        sample = self.take()
        self.samples.append(sample)
        self._on_sample(sample)

    def point_accountant(self) -> None:
        """Let the accountant read the cgroups of the pods that are there now."""
        if self._accountant is None:
            return
        services = self._view.pods(SERVICE_NAMESPACE)
        batch = [*self._view.pods(PLAIN_NAMESPACE), *self._view.pods(KOORD_NAMESPACE)]
        paths = [
            tuple(pod_path(self._parent, pod.status.qos_class, pod.metadata.uid) for pod in pods)
            for pods in (services, batch)
        ]
        self._accountant.service_path = paths[0][0] if paths[0] else None
        self._accountant.batch_paths = paths[1]

    def take(self) -> Sample:
        """One sample: rates are means since the last one."""
        view, values = self._view, self._values
        sample = Sample(
            at_s=time.monotonic() - self._origin_s,
            batch_cpu_milli=view.batch_cpu_milli(),
            batch_memory_bytes=view.batch_memory_bytes(),
        )
        if values is None or self._accountant is None:
            return sample
        self.point_accountant()
        now, before = self._accountant.take_pods(), self._last
        self._last = now
        use = use_between(before, now, self._cpus) if before is not None else None
        best_effort = qos_path(self._parent, "BestEffort")
        service = self._accountant.service_path
        return Sample(
            at_s=sample.at_s,
            batch_cpu_milli=sample.batch_cpu_milli,
            batch_memory_bytes=sample.batch_memory_bytes,
            quota_cpus=values.quota_cpus(best_effort),
            besteffort_weight=values.weight(best_effort),
            service_weight=values.weight(service.parent) if service else None,
            service_cpus=use.service if use else None,
            batch_cpus=use.batch if use else None,
            busy_cpus=use.cpus * use.use_ratio if use else None,
        )
