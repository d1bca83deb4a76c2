"""Label selectors: compiled once, matched often, validated as the API server validates them."""

import re
from collections.abc import Mapping

import msgspec

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


class InvalidSelector(ValueError):  # noqa: N818
    """A selector the API server would refuse; the message names the field and what is allowed."""


class Requirement(msgspec.Struct, frozen=True):
    """One entry of matchExpressions. An absent label satisfies NotIn and DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy it; an unknown operator matches nothing."""
        if self.operator == "In":
            return labels.get(self.key) in self.values
        if self.operator == "NotIn":
            return labels.get(self.key) not in self.values
        if self.operator == "Exists":
            return self.key in labels
        return self.operator == "DoesNotExist" and self.key not in labels


class LabelSelector(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """metav1.LabelSelector as written. Empty selects everything; what absent means is the caller's to say."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Requirement, ...] | None = None

    def is_empty(self) -> bool:
        """True when there is no requirement at all."""
        return not self.match_labels and not self.match_expressions


class Selector:
    """A compiled selector. `equalities` lets an index pre-select; `requirements` are the rest."""

    __slots__ = ("equalities", "requirements")

    def __init__(self, equalities: Mapping[str, str], requirements: tuple[Requirement, ...]) -> None:
        self.equalities = tuple(equalities.items())
        self.requirements = requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether all requirements hold."""
        for key, wanted in self.equalities:
            if labels.get(key) != wanted:
                return False
        return all(requirement.matches(labels) for requirement in self.requirements)

    def first_mismatch(self, labels: Mapping[str, str]) -> str:
        """The first requirement that fails, in words, for explanations; empty when all hold."""
        for key, wanted in self.equalities:
            if labels.get(key) != wanted:
                found = f'"{labels[key]}"' if key in labels else "absent"
                return f'label {key} must be "{wanted}" and is {found}'
        for requirement in self.requirements:
            if not requirement.matches(labels):
                found = f'"{labels[requirement.key]}"' if requirement.key in labels else "absent"
                wanted = f" ({', '.join(requirement.values)})" if requirement.values else ""
                return f"label {requirement.key} must satisfy {requirement.operator}{wanted} and is {found}"
        return ""


def key_problem(key: str) -> str:
    """Why a label key is illegal, or "" when it is legal."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or len(prefix) > 253 or not _DNS_SUBDOMAIN.fullmatch(prefix)):
        return f'"{key}": the prefix must be a DNS subdomain of at most 253 characters'
    if not _NAME.fullmatch(name):
        return f'"{key}": the name must be 1 to 63 letters, digits, "-", "_", ".", ending in letter or digit'
    return ""


def value_problem(text: str) -> str:
    """Why a label value is illegal, or "" when it is legal."""
    if text == "" or _NAME.fullmatch(text):
        return ""
    return f'"{text}": a value must be at most 63 letters, digits, "-", "_" or ".", ending in letter or digit'


def compile_selector(selector: LabelSelector) -> Selector:
    """Validate and compile. Raises InvalidSelector with the field, the value and what is allowed."""
    equalities = selector.match_labels or {}
    for key, wanted in equalities.items():
        if problem := key_problem(key) or value_problem(wanted):
            raise InvalidSelector(f"matchLabels: {problem}")
    for index, requirement in enumerate(selector.match_expressions or ()):
        if problem := _requirement_problem(requirement):
            raise InvalidSelector(f"matchExpressions[{index}]: {problem}")
    return Selector(equalities, selector.match_expressions or ())


def _requirement_problem(requirement: Requirement) -> str:
    if requirement.operator not in OPERATORS:
        return f'operator "{requirement.operator}": allowed: {", ".join(OPERATORS)}'
    needs_values = requirement.operator in ("In", "NotIn")
    if needs_values and not requirement.values:
        return f"operator {requirement.operator} needs at least one value"
    if not needs_values and requirement.values:
        return f"operator {requirement.operator} takes no values"
    for text in requirement.values:
        if problem := value_problem(text):
            return f"values: {problem}"
    problem = key_problem(requirement.key)
    return f"key {problem}" if problem else ""


_TERM = re.compile(
    r"\s*(?:(?P<not>!)\s*(?P<absent>[^\s=!,()]+)"
    r"|(?P<key>[^\s=!,()]+)\s*(?:(?P<op>==|=|!=)\s*(?P<value>[^\s,()]*)"
    r"|(?P<set>in|notin)\s*\((?P<values>[^)]*)\))?)\s*(?:,|$)"
)


def parse_selector_text(text: str) -> Selector:
    """Compile the form of a query string: `a=b,c!=d,e in (f,g),h notin (i),j,!k`. Raises InvalidSelector."""
    requirements: list[Requirement] = []
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None or match.end() == position:
            raise InvalidSelector(f'unable to parse "{text}" at "{text[position:]}"')
        requirements.append(_requirement_of(match))
        position = match.end()
    for requirement in requirements:
        if problem := _requirement_problem(requirement):
            raise InvalidSelector(problem)
    return Selector({}, tuple(requirements))


def _requirement_of(match: re.Match[str]) -> Requirement:
    if match["not"]:
        return Requirement(match["absent"], "DoesNotExist")
    if match["set"]:
        values = tuple(item.strip() for item in match["values"].split(","))
        return Requirement(match["key"], "In" if match["set"] == "in" else "NotIn", values)
    if match["op"]:
        return Requirement(match["key"], "NotIn" if match["op"] == "!=" else "In", (match["value"],))
    return Requirement(match["key"], "Exists")
