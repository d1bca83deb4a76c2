"""Draws: the same for one workload, fair over many."""

from __future__ import annotations

from webhook.draws import stable_draw, workload_identity
from webhook.views import MetadataView, OwnerView


def test_a_workload_always_draws_the_same() -> None:
    assert {stable_draw("owner-1")("profile") for _ in range(5)} == {stable_draw("owner-1")("profile")}


def test_half_of_many_workloads_are_below_fifty_and_every_number_is_drawn() -> None:
    draws = [stable_draw(f"owner-{number}")("profile") for number in range(10_000)]
    assert 4_800 <= sum(1 for drawn in draws if drawn < 50) <= 5_200
    assert set(draws) == set(range(100))


def test_two_profiles_draw_independently() -> None:
    pairs = [(stable_draw(f"o{n}")("a") < 50, stable_draw(f"o{n}")("b") < 50) for n in range(4_000)]
    assert all(900 <= pairs.count(pair) <= 1_100 for pair in set(pairs))
    assert len(set(pairs)) == 4


def test_pods_of_one_controller_share_an_identity() -> None:
    owners = (OwnerView(kind="Job", uid="other"), OwnerView(kind="ReplicaSet", uid="rs-1", controller=True))
    first = MetadataView(generate_name="web-", owner_references=owners)
    second = MetadataView(name="web-abcde", owner_references=owners)
    assert workload_identity(first, "shop", "r1") == workload_identity(second, "shop", "r2") == "rs-1"


def test_a_pod_of_nobody_is_known_by_its_name_and_never_by_an_empty_one() -> None:
    assert workload_identity(MetadataView(name="a"), "shop", "r") == "shop/a"
    assert workload_identity(MetadataView(generate_name="a-"), "shop", "r") == "shop/a-"
    assert workload_identity(MetadataView(), "shop", "request-1") == "request-1"
    assert workload_identity(MetadataView(name="a"), "other", "r") != workload_identity(
        MetadataView(name="a"), "shop", "r"
    )
