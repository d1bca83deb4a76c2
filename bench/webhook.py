"""What one admission costs: decode, match against 20 profiles, mutate, encode; beside decode and encode alone.

    python -m bench.webhook [--seconds 2] [--json]

A realistic batch pod of about 8 KB and a production pod that no profile matches, each in process CPU time, best
of several rounds so that a busy machine does not blur them. The floor decodes the same bytes into the same
structs and encodes the same answer. Budget (docs/webhook.md): 50 us for the batch pod. Exit code 1 when missed.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable

import msgspec

from koord.api.objects import JsonObject, PriorityClass
from koord.api.profiles import ClusterColocationProfile
from webhook.context import Context
from webhook.mutate import decide
from webhook.profiles import ProfileSet
from webhook.review import decode_review, encode_answer

BUDGET_US = 50.0
PROFILES = 20
_ROUNDS = 10


def make_review(labels: dict[str, str], *, bulk: int = 70) -> bytes:
    """A review of a pod with two containers and an init container; `bulk` environment variables make its size."""
    variables = [{"name": f"SPARK_SETTING_{number}", "value": f"value-of-setting-{number}"} for number in range(bulk)]
    resources = {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"cpu": "2", "memory": "4Gi"}}
    mounts = [{"name": f"volume-{number}", "mountPath": f"/data/{number}"} for number in range(4)]
    containers = [
        {"name": name, "image": f"registry.example.org/{name}:1", "resources": resources, "volumeMounts": mounts}
        for name in ("executor", "metrics")
    ]
    pod: JsonObject = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "spark-exec-",
            "namespace": "analytics",
            "labels": labels,
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "4040"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "spark", "uid": "9f", "controller": True}
            ],
        },
        "spec": {
            "initContainers": [{"name": "fetch", "image": "registry.example.org/fetch:1", "resources": resources}],
            "containers": [{**containers[0], "env": variables}, containers[1]],
            "volumes": [{"name": f"volume-{number}", "emptyDir": {}} for number in range(4)],
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            "schedulerName": "default-scheduler",
            "serviceAccountName": "spark",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}],
        },
        "status": {},
    }
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "analytics",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": pod,
        "oldObject": None,
        "dryRun": False,
    }
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def make_context() -> Context:
    """Twenty profiles: some for other namespaces, some for other apps, two that match the batch pod."""
    batch = {
        "selector": {"matchLabels": {"app": "spark"}},
        "qosClass": "BE",
        "priorityClassName": "koord-batch",
        "koordinatorPriority": 1000,
        "labels": {"colocation": "batch"},
        "annotations": {"koord.example.org/by": "batch"},
    }
    specs: list[JsonObject] = [
        batch,
        {"selector": {"matchLabels": {"app": "spark", "tier": "exec"}}, "labels": {"x": "1"}},
    ]
    for number in range(PROFILES - 2):
        if number % 3:
            specs.append({"selector": {"matchLabels": {"app": f"other-{number}"}}, "labels": {"n": str(number)}})
        else:
            specs.append({"namespaceSelector": {"matchLabels": {"team": f"t{number}"}}, "labels": {"n": str(number)}})
    raw = [{"metadata": {"name": f"profile-{number:02}"}, "spec": spec} for number, spec in enumerate(specs)]
    profiles = msgspec.json.decode(msgspec.json.encode(raw), type=list[ClusterColocationProfile])
    return Context(
        profiles=ProfileSet(profiles),
        namespaces={"analytics": {"team": "analytics"}},
        priority_classes={"koord-batch": PriorityClass(value=5000, preemption_policy="Never")},
    )


def best_us(work: Callable[[], object], seconds: float) -> float:
    """CPU microseconds of one call: the best of several rounds."""
    budget = seconds / _ROUNDS
    calls = 1
    while True:
        spent = _spend(work, calls)
        if spent > budget / 4:
            break
        calls *= 2
    return min(_spend(work, calls) / calls for _ in range(_ROUNDS)) * 1e6


def _spend(work: Callable[[], object], calls: int) -> float:
    started = time.process_time()
    for _ in range(calls):
        work()
    return time.process_time() - started


def measure(seconds: float) -> JsonObject:
    """All numbers, in microseconds of CPU time."""
    context = make_context()
    result: JsonObject = {"profiles": PROFILES, "budget_us": BUDGET_US}
    pods = {"batch": {"app": "spark", "tier": "exec"}, "production": {"app": "web", "tier": "front"}}
    for name, labels in pods.items():
        body = make_review(labels)
        submission = decode_review(body)
        decision = decide(submission, context)

        def floor(body: bytes = body) -> object:
            return encode_answer(decode_review(body), decision)  # noqa: B023 - called within this turn

        def whole(body: bytes = body) -> object:
            submission = decode_review(body)
            return encode_answer(submission, decide(submission, context))

        floor_us, whole_us = best_us(floor, seconds), best_us(whole, seconds)
        result[name] = {
            "bytes": len(body),
            "operations": len(decision.operations),
            "floor_us": round(floor_us, 1),
            "whole_us": round(whole_us, 1),
            "ratio": round(whole_us / floor_us, 2),
        }
    return result


def main() -> int:
    """Print the numbers; 1 when the budget is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="CPU seconds for each number")
    parser.add_argument("--json", action="store_true")
    flags = parser.parse_args()
    result = measure(flags.seconds)
    if flags.json:
        print(json.dumps(result))
    else:
        for name in ("batch", "production"):
            row = result[name]
            print(
                f"{name:10} {row['bytes']:6} bytes {row['operations']:3} operations:"
                f" {row['whole_us']:6.1f} us, decode and encode alone {row['floor_us']:6.1f} us (x {row['ratio']})"
            )
    return 0 if result["batch"]["whole_us"] <= BUDGET_US else 1


if __name__ == "__main__":
    sys.exit(main())
