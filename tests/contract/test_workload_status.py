"""What the controllers write into the status of workloads that have nothing to do."""

from __future__ import annotations

from tests.contract import bodies
from tests.contract.api import Api


def test_a_deployment_counts_pods_that_are_going(api: Api, namespace: str) -> None:
    deployment = f"/apis/apps/v1/namespaces/{namespace}/deployments/d"
    api.post(deployment.removesuffix("/d"), bodies.deployment("d", replicas=0))
    found = api.wait(deployment, lambda answer: "observedGeneration" in answer.body.get("status", {})).body["status"]
    assert set(found) == {"observedGeneration", "conditions", "terminatingReplicas"}
    assert found["terminatingReplicas"] == 0


def test_a_job_counts_pods_that_are_ready_going_or_uncounted(api: Api, namespace: str) -> None:
    job = f"/apis/batch/v1/namespaces/{namespace}/jobs/j"
    pod = {**bodies.pod("p", restartPolicy="Never")["spec"]}
    made = api.post(job.removesuffix("/j"), {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}}})
    assert made.status == 201, made.body
    found = api.wait(job, lambda answer: answer.body["status"].get("active") == 1).body["status"]
    assert {key: value for key, value in found.items() if key != "startTime"} == {
        "active": 1,
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
    }
    api.delete(job, propagationPolicy="Background")
