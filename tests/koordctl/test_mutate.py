"""`koordctl mutate` and `koordctl explain pod` on manifests, run as a person runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from koord.api import names

PROFILE = {
    "apiVersion": "config.koordinator.sh/v1alpha1",
    "kind": "ClusterColocationProfile",
    "metadata": {"name": "spark"},
    "spec": {
        "namespaceSelector": {"matchLabels": {"colocation": "on"}},
        "selector": {"matchLabels": {"app": "spark"}},
        "qosClass": "BE",
        "priorityClassName": "koord-batch",
    },
}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "batch", "labels": {"colocation": "on"}}}
SPEC = {"containers": [{"name": "main", "image": "i", "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}}]}
TEMPLATE = {"metadata": {"labels": {"app": "spark"}}, "spec": SPEC}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "batch", **TEMPLATE["metadata"]},
    "spec": SPEC,
}
BATCH = {names.BATCH_CPU: "500", names.BATCH_MEMORY: "1Gi"}


def workload(kind: str, **spec: object) -> dict[str, object]:
    return {"apiVersion": "x/v1", "kind": kind, "metadata": {"name": "w", "namespace": "batch"}, "spec": spec}


def run(folder: Path, *documents: object, command: tuple[str, ...] = ("mutate",), **options: str):
    (folder / "profiles.yaml").write_text(yaml.safe_dump(PROFILE))
    (folder / "namespaces.yaml").write_text(yaml.safe_dump(NAMESPACE))
    (folder / "in.yaml").write_text(yaml.safe_dump_all(documents, sort_keys=False))
    arguments = ["-f", str(folder / "in.yaml"), "--profiles", str(folder / "profiles.yaml")]
    arguments += ["--namespaces", str(folder / "namespaces.yaml")]
    arguments += [part for name, value in options.items() for part in (f"--{name}", value)]
    return subprocess.run(
        [sys.executable, "-m", "koordctl", *command, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def resources(spec: dict) -> dict:
    return spec["containers"][0]["resources"]


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (POD, ()),
        (workload("Deployment", replicas=2, template=TEMPLATE), ("spec", "template")),
        (workload("StatefulSet", template=TEMPLATE), ("spec", "template")),
        (workload("Job", template=TEMPLATE), ("spec", "template")),
        (workload("Rollout", template=TEMPLATE), ("spec", "template")),
        (
            workload("CronJob", jobTemplate={"spec": {"template": TEMPLATE}}),
            ("spec", "jobTemplate", "spec", "template"),
        ),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_pods_and_templates_become_batch_and_the_rest_stays(tmp_path, document, path):
    done = run(tmp_path, document)
    assert done.returncode == 0, done.stderr
    (after,) = yaml.safe_load_all(done.stdout)
    found = after
    for name in path:
        found = found[name]
    assert resources(found["spec"]) == {"requests": BATCH, "limits": BATCH}
    assert found["metadata"]["labels"] == {"app": "spark", names.LABEL_QOS: "BE"}
    assert (found["spec"]["priorityClassName"], found["spec"]["priority"]) == ("koord-batch", 5000)
    if path:
        assert "namespace" not in found["metadata"] and "generateName" not in found["metadata"]
        assert after["metadata"] == document["metadata"]


def test_other_documents_and_pods_of_other_namespaces_pass_as_they_are(tmp_path):
    other = {**POD, "metadata": {**POD["metadata"], "namespace": "elsewhere"}}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [other, config]}
    done = run(tmp_path, listed, config)
    assert list(yaml.safe_load_all(done.stdout)) == [listed, config]


def test_patch_json_and_diff_say_the_same(tmp_path):
    patches = json.loads(run(tmp_path, POD, output="patch").stdout)
    assert patches[0]["object"] == "Pod/a"
    assert {"op": "add", "path": "/spec/priority", "value": 5000} in patches[0]["patch"]
    assert json.loads(run(tmp_path, POD, output="json").stdout)["spec"]["priority"] == 5000
    diff = run(tmp_path, POD, output="diff").stdout
    assert "+  priority: 5000\n" in diff
    assert "-        cpu: 500m\n" in diff


def test_a_refused_pod_ends_with_1_and_what_would_do(tmp_path):
    refused = {**POD, "metadata": {"name": "r", "namespace": "other", "labels": {names.LABEL_QOS: "BE"}}}
    done = run(tmp_path, refused)
    assert done.returncode == 1
    assert "refused: Pod/r" in done.stderr
    assert "BE goes with koord-mid or koord-batch" in done.stderr


def test_what_does_not_read_is_named(tmp_path):
    done = run(tmp_path, {"a": 1})
    assert done.returncode == 1
    assert "in.yaml: document 1 is no Kubernetes object" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "pod",
    [
        {"kind": "Pod", "metadata": {"name": "a", "labels": {"app": 5}}, "spec": {"containers": [{"name": "c"}]}},
        {"kind": "Deployment", "metadata": {"name": "a"}, "spec": {"template": {"spec": {"containers": [None]}}}},
        {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": "none"}},
    ],
    ids=["a label that is a number", "no container", "no list"],
)
def test_a_pod_that_no_server_would_take_is_named(tmp_path, pod):
    for command in (("mutate",), ("explain", "pod")):
        done = run(tmp_path, pod, command=command)
        assert done.returncode == 1
        assert f"Error: {pod['kind']}/a: " in done.stderr
        assert "Traceback" not in done.stderr


def test_explain_says_why_a_profile_matches_or_not_and_what_it_does(tmp_path):
    done = run(tmp_path, POD, command=("explain", "pod"))
    assert done.returncode == 0, done.stderr
    assert "profile spark: applied" in done.stdout
    assert f"qosClass: {names.LABEL_QOS}: absent -> 'BE'" in done.stdout
    assert "resources: translated to koord-batch" in done.stdout
    other = {**POD, "metadata": {"name": "b", "namespace": "batch", "labels": {"app": "web"}}}
    done = run(tmp_path, other, command=("explain", "pod"))
    assert 'profile spark: pod-mismatch: label app must be "spark" and is "web"' in done.stdout
    done = run(tmp_path, POD, command=("explain", "pod"), output="json")
    assert json.loads(done.stdout)["pod"]["spec"]["priority"] == 5000
