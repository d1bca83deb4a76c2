"""Says which API servers the contract is held against in this run."""

import pytest

from tests.contract import targets


@pytest.mark.parametrize("target", targets.TARGETS)
def test_the_contract_is_held_against(target: str) -> None:
    if reason := targets.why_not(target):
        pytest.skip(reason)
