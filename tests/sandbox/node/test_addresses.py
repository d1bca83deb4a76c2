"""Pods' addresses."""

import ipaddress

import pytest

from sandbox.node.addresses import PodAddresses


def test_every_pod_gets_a_loopback_address_of_its_own() -> None:
    pool = PodAddresses(7)
    taken = [pool.take() for _ in range(3)]
    assert len(set(taken)) == 3
    assert all(ipaddress.ip_address(address) in ipaddress.ip_network("127.64.0.0/10") for address in taken)


def test_sandboxes_side_by_side_use_other_addresses() -> None:
    assert PodAddresses(1).take() != PodAddresses(2).take()


def test_an_address_is_given_again_only_after_all_others() -> None:
    pool = PodAddresses(0)
    first = pool.take()
    pool.give_back(first)
    assert pool.take() != first


def test_there_is_an_end_to_addresses() -> None:
    pool = PodAddresses(255)
    taken = {pool.take() for _ in range((1 << 14) - 2)}
    assert len(taken) == (1 << 14) - 2
    with pytest.raises(RuntimeError, match="taken"):
        pool.take()
    pool.give_back(min(taken))
    assert pool.take() == min(taken)
