"""Paths, options, Accept headers, selectors, JSONPath: the pure readers of requests."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.apiserver import bodies, jsonpath, negotiation, paths, query, selection
from sandbox.apiserver.builtin_kinds import builtin_kinds
from sandbox.apiserver.kinds import Kind, version_priority
from sandbox.apiserver.negotiation import Form, Shape
from sandbox.apiserver.paths import Target
from sandbox.apiserver.status import StatusError

PODS = builtin_kinds().find("", "v1", "pods")
assert PODS is not None


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api/v1", Target("", "v1")),
        ("/api/v1/pods", Target("", "v1", "pods")),
        ("/api/v1/namespaces", Target("", "v1", "namespaces")),
        ("/api/v1/namespaces/a", Target("", "v1", "namespaces", name="a")),
        ("/api/v1/namespaces/a/status", Target("", "v1", "namespaces", name="a", subresource="status")),
        ("/api/v1/namespaces/a/finalize", Target("", "v1", "namespaces", name="a", subresource="finalize")),
        ("/api/v1/namespaces/a/pods", Target("", "v1", "pods", namespace="a")),
        ("/api/v1/namespaces/a/pods/p/log", Target("", "v1", "pods", "a", "p", "log")),
        ("/api/v1/watch/pods", Target("", "v1", "pods", watch=True)),
        ("/apis/apps/v1/namespaces/a/deployments/d", Target("apps", "v1", "deployments", "a", "d")),
        ("/apis/apps/v1/namespaces/status/deployments", Target("apps", "v1", "deployments", "status")),
        ("/apis/apps/v1", Target("apps", "v1")),
        ("/apis/apps", None),
        ("/api", None),
        ("/nothing", None),
        ("/api/v1/namespaces/a/pods/p/proxy/deep/path", None),
    ],
)
def test_paths(path: str, target: Target | None) -> None:
    assert paths.parse(path) == target


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form()),
        ("*/*", Form()),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Form(Shape.TABLE)),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Form()),
        ("application/vnd.kubernetes.protobuf,application/json", Form()),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Form(Shape.METADATA)),
        ("application/yaml", Form(Shape.OBJECT, "application/yaml")),
        ("application/json;q=0.2, application/yaml;q=0.8", Form(Shape.OBJECT, "application/yaml")),
        ("application/json;q=strange", Form()),
    ],
)
def test_accept_headers(accept: str, form: Form) -> None:
    assert negotiation.negotiate(accept) == form


def test_nothing_acceptable_is_refused() -> None:
    with pytest.raises(StatusError) as refused:
        negotiation.negotiate("application/vnd.kubernetes.protobuf")
    assert refused.value.code == 406


def test_a_bare_flag_is_true() -> None:
    assert query.boolean({"watch": ""}, "watch")
    assert not query.boolean({"watch": "false"}, "watch")
    assert not query.boolean({}, "watch")
    with pytest.raises(StatusError, match='watch: invalid value "maybe"'):
        query.boolean({"watch": "maybe"}, "watch")


@pytest.mark.parametrize("parameters", [{"limit": "x"}, {"timeoutSeconds": "1s"}, {"resourceVersion": "-1"}])
def test_unreadable_options_are_shown(parameters: dict[str, str]) -> None:
    with pytest.raises(StatusError) as refused:
        query.list_options(parameters)
    assert refused.value.code == 400
    assert f'parsing "{next(iter(parameters.values()))}": invalid syntax' in refused.value.message


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("a=b", [("a", True, "b")]),
        ("a==b,c!=d", [("a", True, "b"), ("c", False, "d")]),
        ("a=", [("a", True, "")]),
        (r"a=x\,y,b=1\=2", [("a", True, "x,y"), ("b", True, "1=2")]),
    ],
)
def test_field_selector_texts(text: str, terms: list[tuple[str, bool, str]]) -> None:
    assert selection.parse_fields(text) == terms


def test_a_selection_pins_down_a_name() -> None:
    chosen = selection.compile_selection(PODS, "", "metadata.name=x")
    assert chosen.name == "x"
    assert chosen.matches({"metadata": {"name": "x"}})
    assert not chosen.matches({"metadata": {"name": "y"}})
    assert selection.compile_selection(PODS, "", "").everything


POD: dict[str, Any] = {
    "metadata": {"annotations": {"a.b/c": "dotted"}},
    "spec": {"containers": [{"name": "x", "ports": [{"port": 1}, {"port": 2}]}, {"name": "y"}]},
    "status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "False", "n": 3}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.containers[0].name", ["x"]),
        (".spec.containers[-1].name", ["y"]),
        (".spec.containers[9].name", []),
        (".spec.containers[*].name", ["x", "y"]),
        (".spec.containers[*].ports[*].port", [1, 2]),
        (r".metadata.annotations.a\.b/c", ["dotted"]),
        (".metadata.annotations['a.b/c']", ["dotted"]),
        ('.status.conditions[?(@.type=="A")].status', ["True"]),
        ('.status.conditions[?(@.type!="A")].status', ["False"]),
        (".status.conditions[?(@.n==3)].type", ["B"]),
        ("{.spec.containers[0].name}", ["x"]),
        (".spec.nothing.at.all", []),
        (".", [POD]),
    ],
)
def test_json_paths(path: str, found: list[Any]) -> None:
    assert jsonpath.compile_path(path)(POD) == found


@pytest.mark.parametrize("path", [".a[", ".a[?(@.b>1)]", ".a[x]"])
def test_unsupported_json_paths_are_refused(path: str) -> None:
    with pytest.raises(jsonpath.InvalidPath, match="cannot understand"):
        jsonpath.compile_path(path)


@given(st.text(max_size=30))
def test_any_text_compiles_or_is_refused(text: str) -> None:
    try:
        jsonpath.compile_path(text)(POD)
    except jsonpath.InvalidPath:
        return


def test_versions_are_ordered_by_stability() -> None:
    names = ["v1beta1", "v2", "v1", "v10", "v1alpha1", "v2alpha1", "v1beta2", "strange"]
    expected = ["v10", "v2", "v1", "v1beta2", "v1beta1", "v2alpha1", "v1alpha1", "strange"]
    assert sorted(names, key=version_priority) == expected


def test_yaml_times_stay_texts() -> None:
    assert bodies.read_yaml(b"a: 2001-01-01\nb: 2001-01-01T00:00:00Z\nc: [1, true, null]") == {
        "a": "2001-01-01",
        "b": "2001-01-01T00:00:00Z",
        "c": [1, True, None],
    }


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"{", b"\xff", b'{"metadata": 3}'])
def test_bodies_that_are_no_objects_are_refused(body: bytes) -> None:
    with pytest.raises(StatusError) as refused:
        bodies.read_document(body, "application/json; charset=utf-8")
    assert refused.value.code == 400


def test_custom_kinds_select_what_they_declare() -> None:
    kind = Kind("g", "v1", "things", "Thing", custom=True, selectable_fields=(".spec.size",))
    chosen = selection.compile_selection(kind, "", "spec.size=3")
    assert chosen.matches({"metadata": {}, "spec": {"size": 3}})
    with pytest.raises(StatusError, match="field label not supported"):
        selection.compile_selection(kind, "", "spec.color=red")
