import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.selectors import (
    InvalidSelector,
    LabelSelector,
    Requirement,
    compile_selector,
    parse_selector_text,
)

LABELS = {"app": "web", "tier": "front", "example.com/team": "a"}


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (Requirement("app", "In", ("web", "api")), True),
        (Requirement("app", "In", ("api",)), False),
        (Requirement("absent", "In", ("x",)), False),
        (Requirement("app", "NotIn", ("api",)), True),
        (Requirement("absent", "NotIn", ("x",)), True),
        (Requirement("app", "Exists"), True),
        (Requirement("absent", "Exists"), False),
        (Requirement("absent", "DoesNotExist"), True),
        (Requirement("app", "DoesNotExist"), False),
    ],
)
def test_each_operator_matches_as_kubernetes_says(requirement: Requirement, expected: bool) -> None:
    selector = compile_selector(LabelSelector(match_expressions=(requirement,)))
    assert selector.matches(LABELS) is expected
    assert bool(selector.first_mismatch(LABELS)) is not expected


def test_an_empty_selector_selects_everything() -> None:
    assert LabelSelector().is_empty()
    assert compile_selector(LabelSelector()).matches({})


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        (LabelSelector(match_expressions=(Requirement("a", "Equals", ("b",)),)), "operator"),
        (LabelSelector(match_expressions=(Requirement("a", "In"),)), "at least one value"),
        (LabelSelector(match_expressions=(Requirement("a", "Exists", ("b",)),)), "takes no values"),
        (LabelSelector(match_expressions=(Requirement("a/b/c", "Exists"),)), "prefix"),
        (LabelSelector(match_expressions=(Requirement("", "Exists"),)), "name"),
        (LabelSelector(match_labels={"a": "-b"}), "value"),
        (LabelSelector(match_labels={"-a": "b"}), "name"),
    ],
)
def test_an_illegal_selector_is_refused_with_field_and_reason(selector: LabelSelector, words: str) -> None:
    with pytest.raises(InvalidSelector, match=words):
        compile_selector(selector)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("app=web", True),
        ("app==web,tier!=back", True),
        ("app in (web, api)", True),
        ("app notin (web)", False),
        ("tier,!absent", True),
        ("example.com/team=a", True),
        ("absent=", False),
        ("", True),
    ],
)
def test_the_text_form_of_a_query_is_understood(text: str, expected: bool) -> None:
    assert parse_selector_text(text).matches(LABELS) is expected


@pytest.mark.parametrize("text", ["=a", "a in b", "a=b,,c", "a=(", "!"])
def test_a_text_that_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(InvalidSelector):
        parse_selector_text(text)


KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from(["x", "y"])


@given(st.dictionaries(KEYS, VALUES), KEYS, st.lists(VALUES, min_size=1, max_size=2).map(tuple))
def test_in_and_notin_are_complements(labels: dict[str, str], key: str, values: tuple[str, ...]) -> None:
    assert Requirement(key, "In", values).matches(labels) != Requirement(key, "NotIn", values).matches(labels)


@given(st.dictionaries(KEYS, VALUES), st.dictionaries(KEYS, VALUES))
def test_match_labels_means_containment(labels: dict[str, str], wanted: dict[str, str]) -> None:
    selector = compile_selector(LabelSelector(match_labels=wanted))
    assert selector.matches(labels) == (wanted.items() <= labels.items())
