"""The arithmetic of disruption budgets."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.timestamps import format_rfc3339
from sandbox.lifecycle.budget import DISRUPTION_GRACE_S, Budget, ScaleUnknown, compute_budget, scaled

NOW_S = 1_700_000_000.0


def pod(number: int, *, ready: bool = True, terminating: bool = False) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": f"p{number}"}
    if terminating:
        metadata["deletionTimestamp"] = format_rfc3339(NOW_S)
    return {"metadata": metadata, "status": {"conditions": [{"type": "Ready", "status": str(ready)}]}}


def numbers(budget: Budget) -> tuple[int, int, int, int]:
    return budget.expected, budget.desired, budget.healthy, budget.allowed


@pytest.mark.parametrize(
    ("spec", "ready", "unready", "scale", "expected"),
    [
        ({"minAvailable": 2}, 3, 0, None, (3, 2, 3, 1)),
        ({"minAvailable": 5}, 3, 0, None, (3, 5, 3, 0)),
        ({"minAvailable": "50%"}, 3, 0, 3, (3, 2, 3, 1)),
        ({"minAvailable": "100%"}, 3, 0, 3, (3, 3, 3, 0)),
        ({"minAvailable": "0%"}, 3, 0, 3, (3, 0, 3, 3)),
        ({"maxUnavailable": 1}, 3, 0, 3, (3, 2, 3, 1)),
        ({"maxUnavailable": 1}, 2, 1, 3, (3, 2, 2, 0)),
        ({"maxUnavailable": "30%"}, 10, 0, 10, (10, 7, 10, 3)),
        ({"maxUnavailable": "34%"}, 3, 0, 3, (3, 1, 3, 2)),
        ({"maxUnavailable": 5}, 3, 0, 3, (3, 0, 3, 3)),
        ({"maxUnavailable": 1}, 3, 0, 10, (10, 9, 3, 0)),
        ({"maxUnavailable": 0}, 3, 0, 3, (3, 3, 3, 0)),
        ({"maxUnavailable": 1}, 0, 0, 0, (0, 0, 0, 0)),
        ({}, 3, 0, 3, (0, 0, 3, 0)),
    ],
)
def test_a_budget_follows_the_disruption_controllers_rules(
    spec: dict[str, Any], ready: int, unready: int, scale: int | None, expected: tuple[int, int, int, int]
) -> None:
    pods = [pod(number, ready=number < ready) for number in range(ready + unready)]
    assert numbers(compute_budget(spec, pods, scale, {}, NOW_S)) == expected


def test_terminating_pods_are_not_healthy() -> None:
    budget = compute_budget({"minAvailable": 1}, [pod(0), pod(1, terminating=True)], None, {}, NOW_S)
    assert numbers(budget) == (2, 1, 1, 0)


def test_an_evicted_pod_is_unhealthy_until_its_deletion_shows_or_the_grace_is_over() -> None:
    fresh = {"p0": format_rfc3339(NOW_S - 1)}
    stale = {"p0": format_rfc3339(NOW_S - DISRUPTION_GRACE_S - 1)}
    budget = compute_budget({"minAvailable": 1}, [pod(0), pod(1)], None, fresh, NOW_S)
    assert budget.healthy == 1
    assert budget.disrupted == fresh
    assert compute_budget({"minAvailable": 1}, [pod(0), pod(1)], None, stale, NOW_S).healthy == 2
    gone = compute_budget({"minAvailable": 1}, [pod(0, terminating=True), pod(1)], None, fresh, NOW_S)
    assert gone.disrupted == {}


def test_percentages_need_a_known_scale() -> None:
    for spec in ({"maxUnavailable": 1}, {"minAvailable": "50%"}):
        with pytest.raises(ScaleUnknown):
            compute_budget(spec, [pod(0)], None, {}, NOW_S)


def test_a_text_that_is_no_percentage_is_refused() -> None:
    with pytest.raises(ValueError, match="allowed"):
        scaled("three", 10)


@given(percent=st.integers(0, 200), total=st.integers(0, 10_000))
def test_rounding_up_and_down_enclose_the_exact_share(percent: int, total: int) -> None:
    up, down = scaled(f"{percent}%", total), scaled(f"{percent}%", total, round_up=False)
    assert down * 100 <= percent * total <= up * 100
    assert 0 <= up - down <= 1


@given(
    spec=st.one_of(
        st.builds(lambda n: {"minAvailable": n}, st.integers(0, 30)),
        st.builds(lambda n: {"minAvailable": f"{n}%"}, st.integers(0, 100)),
        st.builds(lambda n: {"maxUnavailable": n}, st.integers(0, 30)),
        st.builds(lambda n: {"maxUnavailable": f"{n}%"}, st.integers(0, 100)),
    ),
    ready=st.lists(st.booleans(), max_size=25),
    scale=st.integers(0, 30),
)
def test_taking_every_allowed_pod_never_leaves_fewer_than_desired(
    spec: dict[str, Any], ready: list[bool], scale: int
) -> None:
    pods = [pod(number, ready=state) for number, state in enumerate(ready)]
    budget = compute_budget(spec, pods, scale, {}, NOW_S)
    assert 0 <= budget.allowed <= budget.healthy <= len(pods)
    assert budget.healthy - budget.allowed >= min(budget.desired, budget.healthy)
    taken = 0
    for index, state in enumerate(ready):
        if state and taken < budget.allowed:
            pods[index] = pod(index, terminating=True)
            taken += 1
    after = compute_budget(spec, pods, scale, {}, NOW_S)
    assert after.allowed == 0
    assert after.healthy == budget.healthy - taken
