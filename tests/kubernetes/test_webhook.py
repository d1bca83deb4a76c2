"""The webhook called by a real API server through a real MutatingWebhookConfiguration."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from koord.api import names
from tests.contract.api import JsonObject
from tests.kubernetes import objects
from tests.kubernetes.control_plane import free_port
from tests.kubernetes.harness import NAMESPACE, Cluster, eventually
from tests.kubernetes.sidecar_webhook import CONFIGURATION, SidecarWebhook

OUR_CONFIGURATION = "koordinator-mutating-webhook-configuration"
BATCH = {names.BATCH_CPU: "500", names.BATCH_MEMORY: "1Gi"}


@pytest.fixture
def profile(cluster: Cluster) -> Iterator[Callable[..., None]]:
    """Makes profiles that end with the test."""
    made: list[str] = []

    def make(name: str, **spec: Any) -> None:
        cluster.apply(objects.profile(name, **spec))
        made.append(name)

    yield make
    for name in made:
        cluster.kubectl("delete", "clustercolocationprofile", name)
    cluster.kubectl("delete", "mutatingwebhookconfiguration", OUR_CONFIGURATION, "--ignore-not-found")


def resources_of(pod: JsonObject, container: str = "main") -> JsonObject:
    found = next(item for item in pod["spec"]["containers"] if item["name"] == container)
    resources: JsonObject = found.get("resources", {})
    return resources


def until_batch(cluster: Cluster, namespace: str) -> None:
    """Wait until the API server has taken the registration in and the webhook the profile."""

    def asked() -> bool:
        answer = cluster.create_pod(objects.pod("probe", namespace), dryRun="All")
        assert answer.status == 201, answer.body
        return names.BATCH_CPU in resources_of(answer.body).get("requests", {})

    eventually(asked, "pods become batch")


def test_a_pod_becomes_batch_and_an_accepted_best_effort_pod(
    cluster: Cluster, profile: Callable[..., None], make_namespace: Callable[..., str]
) -> None:
    profile("spark", labels={"team": "data"})
    cluster.start_webhook()
    namespace = make_namespace()
    until_batch(cluster, namespace)
    answer = cluster.create_pod(objects.pod("a", namespace))
    assert answer.status == 201, answer.body
    pod = answer.body
    assert pod["metadata"]["labels"] == {"app": "spark", "team": "data", names.LABEL_QOS: "BE"}
    assert (pod["spec"]["priorityClassName"], pod["spec"]["priority"]) == ("koord-batch", 5000)
    assert resources_of(pod) == {"requests": BATCH, "limits": {names.BATCH_CPU: "1k", names.BATCH_MEMORY: "1Gi"}}
    annotation = json.loads(pod["metadata"]["annotations"][names.ANNOTATION_EXTENDED_RESOURCE_SPEC])
    assert annotation["containers"]["main"]["requests"] == BATCH
    assert pod["status"]["qosClass"] == "BestEffort"


def test_a_dry_run_gives_the_same_pod_and_creates_none(
    cluster: Cluster, profile: Callable[..., None], make_namespace: Callable[..., str]
) -> None:
    profile("spark")
    cluster.start_webhook()
    namespace = make_namespace()
    until_batch(cluster, namespace)
    assert cluster.get("pods", "-n", namespace) is None


def test_namespace_selectors_choose_and_protected_namespaces_are_never_touched(
    cluster: Cluster, profile: Callable[..., None], make_namespace: Callable[..., str]
) -> None:
    profile("spark", namespaceSelector={"matchLabels": {"colocation": "on"}})
    cluster.start_webhook()
    chosen, other = make_namespace(colocation="on"), make_namespace()
    until_batch(cluster, chosen)
    cluster.kubectl("label", "namespace", "kube-system", "koordinator-system", "colocation=on", "--overwrite")
    for namespace in (other, "kube-system", "koordinator-system"):
        answer = cluster.create_pod(objects.pod("a", namespace), dryRun="All")
        assert resources_of(answer.body)["requests"] == objects.NATIVE["requests"], namespace


def test_a_sidecar_that_another_webhook_adds_later_is_translated_too(
    cluster: Cluster, profile: Callable[..., None], make_namespace: Callable[..., str], tmp_path: Path
) -> None:
    """The API server asks us again because our entry says IfNeeded; the name sorts the other webhook behind ours."""
    profile("spark", labelSuffixes={"team": "-batch"})
    cluster.start_webhook()
    namespace = make_namespace(sidecars="on")
    until_batch(cluster, namespace)
    with SidecarWebhook(tmp_path) as sidecar:
        cluster.apply(sidecar.configuration("zzz-" + CONFIGURATION))
        try:

            def asked() -> JsonObject | None:
                answer = cluster.create_pod(objects.pod("a", namespace, labels={"team": "data"}), dryRun="All")
                pod: JsonObject = answer.body
                return pod if len(pod["spec"]["containers"]) == 2 else None

            pod = eventually(asked, "a sidecar is added")
        finally:
            cluster.kubectl("delete", "mutatingwebhookconfiguration", "zzz-" + CONFIGURATION)
    assert resources_of(pod)["requests"] == BATCH
    assert resources_of(pod, "proxy") == {"requests": {names.BATCH_CPU: "100", names.BATCH_MEMORY: "64Mi"}}
    assert pod["metadata"]["labels"]["team"] == "data-batch"


def test_without_the_webhook_pods_are_created_as_they_are(
    cluster: Cluster, profile: Callable[..., None], make_namespace: Callable[..., str]
) -> None:
    profile("spark")
    port = free_port()
    webhook = cluster.start_webhook(port=port)
    namespace = make_namespace()
    until_batch(cluster, namespace)
    webhook.end(signal.SIGKILL)
    answer = cluster.create_pod(objects.pod("a", namespace))
    assert answer.status == 201, answer.body
    assert resources_of(answer.body)["requests"] == objects.NATIVE["requests"]
    cluster.start_webhook(port=port)
    until_batch(cluster, namespace)


def test_a_bundle_that_somebody_spoils_is_put_right_and_a_new_authority_is_trusted_before_it_serves(
    cluster: Cluster, profile: Callable[..., None], make_namespace: Callable[..., str]
) -> None:
    profile("spark")
    port = free_port()
    webhook = cluster.start_webhook(port=port)
    namespace = make_namespace()
    until_batch(cluster, namespace)

    def bundle() -> str:
        found = cluster.get("mutatingwebhookconfiguration", OUR_CONFIGURATION)
        return str(found["webhooks"][0]["clientConfig"]["caBundle"])

    good = bundle()
    patch = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    cluster.kubectl(
        "patch", "mutatingwebhookconfiguration", OUR_CONFIGURATION, "--type=json", "-p", json.dumps(patch)
    )
    eventually(lambda: bundle() == good, "the bundle is back")
    until_batch(cluster, namespace)
    webhook.end()
    shutil.rmtree(cluster.folder / "webhook-certs")
    cluster.start_webhook(port=port)
    until_batch(cluster, namespace)
    assert len(bundle()) > len(good), "the old authority stays until it expires"


def test_the_webhooks_own_rights_are_enough_and_nothing_is_denied(
    cluster: Cluster, profile: Callable[..., None], make_namespace: Callable[..., str]
) -> None:
    profile("spark")
    profile("broken", priorityClassName="nowhere", selector={"matchLabels": {"app": "other"}})
    webhook = cluster.start_webhook("--feature-gates", "MultiQuotaTree=true")
    until_batch(cluster, make_namespace())
    assert not [record for record in webhook.records() if "orbidden" in json.dumps(record)]


def test_the_certificates_secret_needs_no_more_rights_than_the_rules_give(
    cluster: Cluster, profile: Callable[..., None], make_namespace: Callable[..., str]
) -> None:
    profile("spark")
    webhook = cluster.start_webhook("--cert-mode", "secret", "--cert-secret", "shared")
    until_batch(cluster, make_namespace())
    secret = cluster.get("secret", "shared", "-n", NAMESPACE)
    assert sorted(secret["data"]) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
    assert not [record for record in webhook.records() if "orbidden" in json.dumps(record)]
    assert "PRIVATE KEY" not in webhook.tail()
    cluster.kubectl("delete", "secret", "shared", "-n", NAMESPACE)
    eventually(lambda: cluster.get("secret", "shared", "-n", NAMESPACE), "the deleted Secret is made again")
    until_batch(cluster, make_namespace())


def test_a_pod_that_contradicts_itself_is_refused_and_told_what_would_do(
    cluster: Cluster, make_namespace: Callable[..., str]
) -> None:
    cluster.start_webhook()
    namespace = make_namespace()

    def refused() -> str:
        answer = cluster.create_pod(objects.pod("a", namespace, labels={names.LABEL_QOS: "BE"}), dryRun="All")
        return "" if answer.status == 201 else str(answer.message)

    said = eventually(refused, "the validating configuration is in force")
    assert "vpod.koordinator.sh" in said
    assert "BE goes with koord-mid or koord-batch or koord-free" in said
