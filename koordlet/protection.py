"""Weights as a strategy: reads what the weights would be without us, wishes what protects production."""

from dataclasses import replace

from koord.api.qos import KubeQoS
from koordlet.snapshot import Snapshot
from koordlet.strategy import Proposal
from koordlet.suppress.tick import Presence
from koordlet.sysfs.changes import Owner, Wish
from koordlet.sysfs.executor import Executor
from koordlet.sysfs.knobs import Knob
from koordlet.weights import Competitor, KubeRoot, WeightDecision, WeightScale, decide_weights


class Protection:
    """Keeps production's weight at 256 times that of best-effort work, or more."""

    owner = Owner.WEIGHTS

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._wishes: list[Wish] = []
        self.last_decision: WeightDecision | None = None

    def propose(self, snapshot: Snapshot) -> Proposal | None:
        """The weights of this cycle; the two class directories are looked at every time, pods in turns."""
        if snapshot.slo is Presence.UNKNOWN:
            return None
        if not snapshot.policy.enable:
            self.last_decision = None
            return Proposal([], None)
        burstable_dir = snapshot.layout.class_dir(KubeQoS.BURSTABLE)
        form = self._executor.control.form(Knob.WEIGHT)
        best_effort_dir = snapshot.best_effort_dir
        present = self._competitor(best_effort_dir, is_best_effort=True, vital=True)
        root = KubeRoot(
            best_effort=None if present is None else best_effort_dir,
            burstable=self._competitor(burstable_dir, is_best_effort=False, vital=True),
            guaranteed_pods=self._pods(snapshot, KubeQoS.GUARANTEED),
            burstable_pods=self._pods(snapshot, KubeQoS.BURSTABLE),
        )
        decision = decide_weights(root, WeightScale(form.lowest, form.highest))
        if self.last_decision is None or self.last_decision.weights != decision.weights:
            vital = {best_effort_dir, burstable_dir}
            self._wishes = [
                Wish(group, Knob.WEIGHT, weight, vital=group in vital) for group, weight in decision.weights.items()
            ]
        self.last_decision = decision
        # Without the weights themselves, which the changes name where they matter.
        return Proposal(self._wishes, replace(decision, weights={}))

    def _pods(self, snapshot: Snapshot, qos: KubeQoS) -> list[Competitor]:
        found = (
            self._competitor(pod.group.group, is_best_effort=pod.is_best_effort, vital=False)
            for pod in snapshot.pods
            if pod.group.kube_qos is qos
        )
        return [one for one in found if one is not None]

    def _competitor(self, group: str, *, is_best_effort: bool, vital: bool) -> Competitor | None:
        base = self._executor.base(group, Knob.WEIGHT, vital=vital)
        return Competitor(group, base, is_best_effort) if isinstance(base, int) else None
