"""Shared by every test: the runner of vector files.

A test marked `@pytest.mark.vectors("NAME")` that takes the argument `vector` runs once per case of
`tests/<package>/vectors/NAME.json` and of `DIR/NAME.json` for every `--vectors DIR` that holds such a file.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A shared machine is slow at times; that is no failure.
settings.register_profile("koord", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("koord")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--vectors",
        action="append",
        default=[],
        metavar="DIR",
        type=Path,
        help="also run the cases of DIR/NAME.json for every runner of vector files named NAME (repeatable)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "vectors(name, section=...): run once per case of the files of that name")
    for folder in config.getoption("--vectors"):
        if not folder.is_dir():
            raise pytest.UsageError(f"--vectors {folder}: not a directory")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("vectors")
    if marker is None or "vector" not in metafunc.fixturenames:
        return
    name: str = marker.args[0]
    section: str = marker.kwargs.get("section", "")
    files = [metafunc.definition.path.parent / "vectors" / f"{name}.json"]
    files += [folder / f"{name}.json" for folder in metafunc.config.getoption("--vectors")]
    found = [file for file in files if file.is_file()]
    if not found:
        raise pytest.UsageError(f"no file {name}.json for {metafunc.definition.nodeid}: looked at {files}")
    cases: dict[str, dict[str, Any]] = {}
    for file in dict.fromkeys(file.resolve() for file in found):
        for case in _cases_of(file, section):
            _add_case(cases, case, file)
    metafunc.parametrize("vector", [pytest.param(case, id=case_id) for case_id, case in cases.items()])


def _add_case(cases: dict[str, dict[str, Any]], case: dict[str, Any], file: Path) -> None:
    """One id per case: its name; a case of the same name and other content is told apart by its file and count."""
    case_id = case["name"]
    if cases.get(case_id, case) != case:
        case_id = f"{case_id}@{file.parent.name}"
    unique, count = case_id, 2
    while cases.get(unique, case) != case:
        unique, count = f"{case_id}-{count}", count + 1
    cases[unique] = case


def _cases_of(file: Path, section: str) -> list[dict[str, Any]]:
    """A file of several kinds of cases has a key for each kind, the `section` of the mark."""
    document = json.loads(file.read_text())
    cases: list[dict[str, Any]] = document.get(section or "vectors", document.get("cases"))
    if not cases:
        raise pytest.UsageError(f"{file}: holds no cases under the key {section or 'vectors'} or cases")
    return cases
