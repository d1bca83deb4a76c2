"""What the API server is told, and what of an existing configuration is touched."""

from __future__ import annotations

import copy
from datetime import UTC, datetime

import jsonpatch
import pytest

from certs.authority import KeyPair, issue_authority
from certs.bundle import trusts
from koord.api.objects import JsonObject
from webhook.registration import (
    POD_WEBHOOK,
    Target,
    build_configuration,
    build_entry,
    registration_operations,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SERVICE = Target("colo", service="koord-webhook")
URL = Target("colo", url="https://127.0.0.1:9876/")


@pytest.fixture(scope="module")
def authority() -> KeyPair:
    return issue_authority(NOW)


def test_the_entry_cannot_block_the_cluster() -> None:
    entry = build_entry(SERVICE, "")
    assert (entry["failurePolicy"], entry["sideEffects"], entry["timeoutSeconds"]) == ("Ignore", "None", 5)
    (expression,) = entry["namespaceSelector"]["matchExpressions"]
    assert expression == {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["colo", "koordinator-system", "kube-system"],
    }


def test_the_entry_matches_the_creation_of_pods_and_nothing_else() -> None:
    (rule,) = build_entry(SERVICE, "")["rules"]
    assert (rule["apiGroups"], rule["resources"], rule["operations"]) == ([""], ["pods"], ["CREATE"])


def test_it_is_called_again_after_other_webhooks() -> None:
    assert build_entry(SERVICE, "")["reinvocationPolicy"] == "IfNeeded"


def test_a_service_or_a_url_is_named() -> None:
    service = {"namespace": "colo", "name": "koord-webhook", "path": "/mutate-pod", "port": 443}
    assert SERVICE.client_config("/mutate-pod") == {"service": service}
    assert URL.client_config("/mutate-pod") == {"url": "https://127.0.0.1:9876/mutate-pod"}


def test_what_was_created_needs_no_further_write(authority: KeyPair) -> None:
    configuration = build_configuration(SERVICE, authority.certificate_pem, NOW)
    assert registration_operations(configuration, SERVICE, authority.certificate_pem, NOW) == []


def test_only_client_config_of_our_entry_is_written(authority: KeyPair) -> None:
    chart: JsonObject = {
        "webhooks": [
            {"name": "other.example.org", "clientConfig": {"caBundle": "x"}},
            {
                "name": POD_WEBHOOK,
                "clientConfig": {"service": {"name": "old", "namespace": "colo"}},
                "failurePolicy": "Fail",
                "namespaceSelector": {"matchLabels": {"colocation": "strict"}},
            },
        ]
    }
    before = copy.deepcopy(chart)
    after = jsonpatch.apply_patch(chart, registration_operations(chart, URL, authority.certificate_pem, NOW))
    assert after["webhooks"][0] == before["webhooks"][0]
    ours = after["webhooks"][1]
    assert ours["clientConfig"]["url"] == "https://127.0.0.1:9876/mutate-pod"
    assert "service" not in ours["clientConfig"]
    assert trusts(ours["clientConfig"]["caBundle"], authority.certificate_pem)
    del ours["clientConfig"], before["webhooks"][1]["clientConfig"]
    assert ours == before["webhooks"][1]


@pytest.mark.parametrize("webhooks", [None, [], [{"name": "other.example.org"}]])
def test_a_missing_entry_is_added(authority: KeyPair, webhooks: list[JsonObject] | None) -> None:
    configuration: JsonObject = {"metadata": {}} if webhooks is None else {"webhooks": webhooks}
    operations = registration_operations(configuration, SERVICE, authority.certificate_pem, NOW)
    after = jsonpatch.apply_patch(configuration, operations)
    assert [entry["name"] for entry in after["webhooks"]][-1] == POD_WEBHOOK
    assert len(after["webhooks"]) == len(webhooks or []) + 1


def test_a_new_authority_is_added_beside_the_old(authority: KeyPair) -> None:
    configuration = build_configuration(SERVICE, authority.certificate_pem, NOW)
    new = issue_authority(NOW)
    after = jsonpatch.apply_patch(
        configuration, registration_operations(configuration, SERVICE, new.certificate_pem, NOW)
    )
    bundle = after["webhooks"][0]["clientConfig"]["caBundle"]
    assert trusts(bundle, authority.certificate_pem)
    assert trusts(bundle, new.certificate_pem)
