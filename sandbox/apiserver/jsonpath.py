"""The JSONPath subset that CustomResourceDefinitions use: names, ['quoted names'], [0], [*], [?(@.a=="b")]. Pure."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

Step = Callable[[list[Any]], list[Any]]
Path = Callable[[Any], list[Any]]

_TOKEN = re.compile(
    r"""\.?\[\?\(@(?P<filter>(?:\.[^=!<>\s]+)?)\s*(?P<op>==|!=)\s*(?P<quote>["']?)(?P<value>[^"')]*)(?P=quote)\s*\)\]
    |\.?\[(?P<q>['"])(?P<quoted>[^'"]+)(?P=q)\]
    |\.?\[(?P<index>-?\d+)\]
    |\.?\[(?P<all>\*)\]
    |\.(?P<star>\*)
    |\.(?P<name>(?:\\.|[^.\[\]\\])+)""",
    re.VERBOSE,
)


class InvalidPath(ValueError):  # noqa: N818
    """The text is not a path of the supported subset."""


@lru_cache(maxsize=1024)
def compile_path(text: str) -> Path:
    """Compile `.spec.a`, `{.spec.a}` or `$.spec.a`; the result maps a document to all values found, maybe none.

    Raises InvalidPath.
    """
    body = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if body and body[0] not in ".[":
        body = "." + body
    steps: list[Step] = []
    position = 0
    while position < len(body) and body[position:] != ".":
        match = _TOKEN.match(body, position)
        if match is None:
            raise InvalidPath(f'cannot understand "{body[position:]}" in path "{text}"')
        steps.append(_step(match))
        position = match.end()

    def evaluate(document: Any) -> list[Any]:
        found = [document]
        for step in steps:
            found = step(found)
        return found

    return evaluate


def _step(match: re.Match[str]) -> Step:
    if match["op"]:
        return _filter(compile_path(match["filter"] or "."), match["op"] == "==", match["value"])
    if match["index"]:
        return _index(int(match["index"]))
    if match["all"] or match["star"]:
        return _all
    name = match["quoted"] or re.sub(r"\\(.)", r"\1", match["name"])
    return lambda found: [item[name] for item in found if isinstance(item, dict) and name in item]


def _index(index: int) -> Step:
    def step(found: list[Any]) -> list[Any]:
        return [item[index] for item in found if isinstance(item, list) and -len(item) <= index < len(item)]

    return step


def _all(found: list[Any]) -> list[Any]:
    values: list[Any] = []
    for item in found:
        if isinstance(item, list):
            values.extend(item)
        elif isinstance(item, dict):
            values.extend(item.values())
    return values


def _filter(path: Path, equal: bool, wanted: str) -> Step:
    def keep(item: Any) -> bool:
        values = path(item)
        return bool(values) and (_plain(values[0]) == wanted) is equal

    return lambda found: [item for item in _all(found) if keep(item)]


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
