import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import quantity

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]


@pytest.mark.parametrize(
    ("text", "expected_nano"),
    [
        ("0", 0),
        ("1", 10**9),
        ("100m", 10**8),
        ("0.5", 5 * 10**8),
        (".5", 5 * 10**8),
        ("5.", 5 * 10**9),
        ("1k", 10**12),
        ("1e3", 10**12),
        ("1E3", 10**12),
        ("1E", 10**27),
        ("1Ki", 1024 * 10**9),
        ("1.5Gi", 1536 * 1024**2 * 10**9),
        ("0.1n", 1),
        ("-0.1n", -1),
        ("+2", 2 * 10**9),
        (3, 3 * 10**9),
        (0.1, 10**8),
    ],
)
def test_a_quantity_is_read_exactly(text: str, expected_nano: int) -> None:
    assert quantity.nano(text) == expected_nano


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "abc", "1kk", "e3", "+", ".", "1K", "1ki", "--1", "1e999999", "9" * 99]
)
def test_what_is_no_quantity_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(quantity.InvalidQuantity, match="allowed"):
        quantity.nano(text)


def test_a_boolean_is_no_quantity() -> None:
    with pytest.raises(quantity.InvalidQuantity):
        quantity.nano(True)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1000", "1k"),
        ("1500", "1500"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("4096Mi", "4Gi"),
        ("3456Mi", "3456Mi"),
        ("1023Ki", "1023Ki"),
        ("0.5Ki", "512"),
        ("0.1Ki", "102400m"),
        ("1.5Ki", "1536"),
        ("1e6", "1e6"),
        ("12e5", "1200e3"),
        ("0Gi", "0"),
    ],
)
def test_the_canonical_text_is_the_api_servers(text: str, canonical: str) -> None:
    assert quantity.canonical(text) == canonical


@pytest.mark.parametrize(
    ("text", "milli", "value"), [("100u", 1, 1), ("1500m", 1500, 2), ("1001u", 2, 1), ("2", 2000, 2)]
)
def test_milli_and_value_round_up(text: str, milli: int, value: int) -> None:
    assert (quantity.milli(text), quantity.value(text)) == (milli, value)


@given(st.integers(-(10**30), 10**30), st.sampled_from(["decimal", "binary", "exponent"]))
def test_every_amount_survives_its_text(amount: int, family: quantity.Family) -> None:
    assert quantity.nano(quantity.format_nano(amount, family)) == amount


@given(st.decimals(0, 10**6, places=3), st.sampled_from(SUFFIXES))
def test_reading_agrees_with_exact_fractions(number: Decimal, suffix: str) -> None:
    decimal = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
    binary = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
    factor = Fraction(1024) ** binary[suffix] if suffix in binary else Fraction(10) ** decimal[suffix]
    assert quantity.nano(f"{number}{suffix}") == math.ceil(Fraction(number) * factor * 10**9)


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    try:
        canonical = quantity.canonical(text)
    except quantity.InvalidQuantity:
        return
    assert quantity.nano(canonical) == quantity.nano(text)
