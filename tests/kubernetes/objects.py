"""Pods, profiles and deployments as users write them."""

from __future__ import annotations

from typing import Any

from tests.contract.api import JsonObject

NATIVE = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}


def pod(name: str, namespace: str, *, labels: dict[str, str] | None = None, **spec: Any) -> JsonObject:
    """A pod labelled app=spark that wants half a CPU."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "spark", **(labels or {})}},
        "spec": {"containers": [{"name": "main", "image": "i", "resources": NATIVE}], **spec},
    }


def profile(name: str, **spec: Any) -> JsonObject:
    """A profile that makes pods labelled app=spark batch."""
    chosen: JsonObject = {
        "selector": {"matchLabels": {"app": "spark"}},
        "qosClass": "BE",
        "priorityClassName": "koord-batch",
    }
    return {
        "apiVersion": "config.koordinator.sh/v1alpha1",
        "kind": "ClusterColocationProfile",
        "metadata": {"name": name},
        "spec": chosen | spec,
    }


def deployment(name: str, namespace: str, replicas: int) -> JsonObject:
    """A Deployment of such pods."""
    template = pod(name, namespace)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "spark"}},
            "template": {"metadata": {"labels": {"app": "spark"}}, "spec": template["spec"]},
        },
    }


def report(cpu: str, memory: str, at: str) -> JsonObject:
    """The status of a NodeMetric: the node's usage and no pod."""
    return {
        "updateTime": at,
        "nodeMetric": {
            "nodeUsage": {"resources": {"cpu": cpu, "memory": memory}},
            "systemUsage": {"resources": {"cpu": cpu, "memory": memory}},
        },
        "podsMetric": [],
    }
