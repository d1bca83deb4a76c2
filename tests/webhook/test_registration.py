"""What the API server is told, and what of an existing configuration is touched."""

from __future__ import annotations

import copy
from datetime import UTC, datetime

import jsonpatch
import pytest

from certs.authority import KeyPair, issue_authority
from certs.bundle import trusts
from koord.api.objects import JsonObject
from webhook.context import FeatureGates
from webhook.registration import (
    POD_WEBHOOK,
    Configuration,
    Target,
    build_configuration,
    build_entry,
    configurations,
    registration_operations,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SERVICE = Target("colo", service="koord-webhook")
MUTATING, VALIDATING = configurations(FeatureGates())
URL = Target("colo", url="https://127.0.0.1:9876/")


@pytest.fixture(scope="module")
def authority() -> KeyPair:
    return issue_authority(NOW)


def test_the_entry_cannot_block_the_cluster() -> None:
    entry = build_entry(MUTATING.entries[0], SERVICE, "")
    assert (entry["failurePolicy"], entry["sideEffects"], entry["timeoutSeconds"]) == ("Ignore", "None", 5)
    (expression,) = entry["namespaceSelector"]["matchExpressions"]
    assert expression == {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["colo", "koordinator-system", "kube-system"],
    }


def test_the_entry_matches_the_creation_of_pods_and_nothing_else() -> None:
    (rule,) = build_entry(MUTATING.entries[0], SERVICE, "")["rules"]
    assert (rule["apiGroups"], rule["resources"], rule["operations"]) == ([""], ["pods"], ["CREATE"])


def test_it_is_called_again_after_other_webhooks() -> None:
    assert build_entry(MUTATING.entries[0], SERVICE, "")["reinvocationPolicy"] == "IfNeeded"


def test_a_service_or_a_url_is_named() -> None:
    service = {"namespace": "colo", "name": "koord-webhook", "path": "/mutate-pod", "port": 443}
    assert SERVICE.client_config("/mutate-pod") == {"service": service}
    assert URL.client_config("/mutate-pod") == {"url": "https://127.0.0.1:9876/mutate-pod"}


def test_what_was_created_needs_no_further_write(authority: KeyPair) -> None:
    configuration = build_configuration(MUTATING, SERVICE, authority.certificate_pem, NOW)
    assert registration_operations(configuration, MUTATING, SERVICE, authority.certificate_pem, NOW) == []


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
    after = jsonpatch.apply_patch(
        chart, registration_operations(chart, MUTATING, URL, authority.certificate_pem, NOW)
    )
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
    operations = registration_operations(configuration, MUTATING, SERVICE, authority.certificate_pem, NOW)
    after = jsonpatch.apply_patch(configuration, operations)
    assert [entry["name"] for entry in after["webhooks"]][-1] == POD_WEBHOOK
    assert len(after["webhooks"]) == len(webhooks or []) + 1


def test_a_new_authority_is_added_beside_the_old(authority: KeyPair) -> None:
    configuration = build_configuration(MUTATING, SERVICE, authority.certificate_pem, NOW)
    new = issue_authority(NOW)
    after = jsonpatch.apply_patch(
        configuration, registration_operations(configuration, MUTATING, SERVICE, new.certificate_pem, NOW)
    )
    bundle = after["webhooks"][0]["clientConfig"]["caBundle"]
    assert trusts(bundle, authority.certificate_pem)
    assert trusts(bundle, new.certificate_pem)


def paths(configuration: Configuration) -> list[str]:
    return [entry.path for entry in configuration.entries]


def test_what_is_validated_by_default_and_by_gate() -> None:
    assert [entry.path for entry in VALIDATING.entries] == [
        "/validate-pod",
        "/validate-profile",
        "/validate-configmap",
    ]
    gates = FeatureGates.parse("NodeMutatingWebhook=true,NodeValidatingWebhook=true,PodValidatingWebhook=false")
    mutating, validating = configurations(gates)
    assert [entry.path for entry in mutating.entries] == ["/mutate-pod", "/mutate-node-status"]
    assert [entry.path for entry in validating.entries] == [
        "/validate-profile",
        "/validate-configmap",
        "/validate-node",
    ]


def test_the_configuration_map_is_judged_in_its_namespace_only(authority: KeyPair) -> None:
    built = build_configuration(VALIDATING, SERVICE, authority.certificate_pem, NOW)
    (entry,) = [entry for entry in built["webhooks"] if entry["rules"][0]["resources"] == ["configmaps"]]
    (expression,) = entry["namespaceSelector"]["matchExpressions"]
    assert (expression["operator"], expression["values"]) == ("In", ["koordinator-system"])
    assert registration_operations(built, VALIDATING, SERVICE, authority.certificate_pem, NOW) == []


def test_several_missing_entries_are_added_behind_what_is_there(authority: KeyPair) -> None:
    found: JsonObject = {"webhooks": [{"name": "other.example.org"}, {"name": "vprofile.koordinator.sh"}]}
    operations = registration_operations(found, VALIDATING, SERVICE, authority.certificate_pem, NOW)
    after = jsonpatch.apply_patch(found, operations)
    assert [entry["name"] for entry in after["webhooks"]] == [
        "other.example.org",
        "vprofile.koordinator.sh",
        "vpod.koordinator.sh",
        "vconfigmap.koordinator.sh",
    ]
    assert after["webhooks"][1]["clientConfig"]["service"]["path"] == "/validate-profile"
