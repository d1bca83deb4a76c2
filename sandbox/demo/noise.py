"""Whether a round was free of foreign load, by the CPU that was used outside the experiment. Pure."""

from dataclasses import dataclass

from sandbox.demo.result import Phase, PhaseName, Round


@dataclass(frozen=True, slots=True)
class NoiseLimits:
    """What is still quiet, in mean CPUs over a phase.

    Measured on the two-CPU machine that this was built on: below 0.12 CPU of foreign use the p99 of the
    service alone stays within 5 % from run to run.
    """

    outside_cpus: float = 0.12
    steal_cpus: float = 0.02


def phase_noise(phase: Phase, limits: NoiseLimits) -> list[str]:
    """Why a phase may not be trusted; empty when it may.

    Failed requests beside plain batch pods are a result, not noise.
    """
    reasons = []
    if phase.cpu.outside > limits.outside_cpus:
        reasons.append(
            f"{phase.name}: processes outside the demo used {phase.cpu.outside:.2f} CPU "
            f"(quiet: at most {limits.outside_cpus:g})"
        )
    if phase.cpu.steal > limits.steal_cpus:
        reasons.append(
            f"{phase.name}: the hypervisor took {phase.cpu.steal:.2f} CPU (quiet: at most {limits.steal_cpus:g})"
        )
    if phase.errors and phase.name is not PhaseName.PLAIN:
        reasons.append(f"{phase.name}: {phase.errors} of {phase.requests} requests failed")
    return reasons


def judge(item: Round, limits: NoiseLimits) -> Round:
    """The round with its noise filled in."""
    reasons = [reason for name in PhaseName for reason in phase_noise(item.phase(name), limits)]
    return Round(item.alone, item.plain, item.koord, tuple(reasons))


def choose_rounds(rounds: list[Round], wanted: int) -> tuple[list[Round], list[Round]]:
    """(rounds that count, rounds discarded): quiet ones first, filled up with the least noisy, in order.

    Never discards below `wanted` rounds: a noisy result that says so beats none.
    """
    by_noise = sorted(range(len(rounds)), key=lambda index: (len(rounds[index].noise), _foreign(rounds[index])))
    quiet = [index for index in by_noise if not rounds[index].noise]
    kept = set(by_noise[: max(wanted, len(quiet))])
    return (
        [item for index, item in enumerate(rounds) if index in kept],
        [item for index, item in enumerate(rounds) if index not in kept],
    )


def _foreign(item: Round) -> float:
    return max(item.phase(name).cpu.outside + item.phase(name).cpu.steal for name in PhaseName)
