"""Rules of the house that no linter knows: where kernel paths may stand, names, sizes, quick starts."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("koord", "certs", "webhook", "manager", "koordlet", "sandbox", "koordctl")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

# The agent's lowest layer, and the two that play kubelet and measure a machine.
MAY_NAME_KERNEL_PATHS = ("koordlet/sysfs/", "sandbox/node/", "sandbox/demo/")
# A default of a flag is where a person sees it.
MAY_NAME_KERNEL_PATHS_AS_DEFAULT = ("koordlet/__main__.py", "sandbox/__main__.py", "koordlet/settings.py")
GRAB_BAGS = {"utils", "util", "helpers", "helper", "common", "misc"}
MAX_LINES = 450


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def string_literals(tree: ast.Module) -> Iterator[ast.Constant]:
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_only_the_lowest_layer_names_kernel_paths(path: Path) -> None:
    name = relative(path)
    if name.startswith(MAY_NAME_KERNEL_PATHS) or name in MAY_NAME_KERNEL_PATHS_AS_DEFAULT:
        return
    found = [
        f"{name}:{node.lineno}: {node.value!r}"
        for node in string_literals(ast.parse(path.read_text()))
        if node.value.startswith(("/sys", "/proc"))
    ]
    assert not found


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_a_module_does_one_thing_and_is_named_for_it(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= MAX_LINES, f"{lines} lines: split it"
    assert path.stem not in GRAB_BAGS, "name the thing it does"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())) or not path.read_text().strip()


def test_tests_mock_none_of_our_own_code() -> None:
    forbidden = ("mock.patch", "MagicMock", "AsyncMock", "monkeypatch." + "setattr")
    found = [
        f"{relative(path)}: {word}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path != Path(__file__)
        for word in forbidden
        if word in path.read_text()
    ]
    assert not found


def test_koordctl_help_loads_nothing_heavy() -> None:
    code = "import sys, koordctl.__main__; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"aiohttp", "kubernetes", "ortools", "numpy", "cryptography", "rich"} & set(loaded)


@pytest.mark.parametrize("component", ["webhook", "manager", "koordlet", "sandbox"])
def test_every_component_explains_its_flags(component: str) -> None:
    result = subprocess.run([sys.executable, "-m", component, "--help"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "--kubeconfig" in result.stdout
