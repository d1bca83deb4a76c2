"""What a watching store costs: per event, per listed object, and in memory.

    python -m bench.store [--pods 20000] [--events 20000] [--json]

Pods of 5-10 KB as an API server writes them (managed fields, status, volumes). Once decoding alone, and once all
the way: a real HTTP server in a process of its own, the client's session, lines, decoding, indexes and a
subscriber. Times are cpu seconds of this process. Budgets: 50 us per event all the way, 60 us per listed pod,
6 KB of memory per pod. Exit code 1 when one is missed.
"""

import argparse
import asyncio
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from aiohttp import web

from koord.api.objects import Pod
from koord.kube.changes import Change
from koord.kube.client import Client
from koord.kube.codec import codec_for
from koord.kube.connection import connect
from koord.kube.resources import PODS
from koord.kube.store import Store

BUDGET_EVENT_US = 50.0
BUDGET_LISTED_US = 60.0
BUDGET_POD_KB = 6.0
PAGE = 500


def make_pod(number: int, version: int) -> dict[str, Any]:
    """A pod with two containers and all that an API server and a kubelet add."""
    labels = {"app": f"app-{number % 97}", "koordinator.sh/qosClass": "BE", "pod-template-hash": f"{number % 9973:x}"}
    mounts = [{"name": f"volume-{i}", "mountPath": f"/var/data/{i}", "readOnly": i % 2 == 0} for i in range(6)]
    environment = [{"name": f"VARIABLE_{i}", "value": f"value of variable {i}"} for i in range(12)]
    container = {
        "image": "registry.example/team/application:1.27.4",
        "command": ["/bin/application", "--listen=:8080", "--config=/etc/application/config.yaml"],
        "env": environment,
        "volumeMounts": mounts,
        "resources": {
            "requests": {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "2Gi"},
            "limits": {"kubernetes.io/batch-cpu": "3000", "kubernetes.io/batch-memory": "2Gi"},
        },
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10},
    }
    owned: dict[str, Any] = {f"f:field-{i}": {".": {}, "f:name": {}, "f:value": {}} for i in range(40)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{number}",
            "namespace": f"team-{number % 50}",
            "uid": f"0b9f2a4e-0000-4000-8000-{number:012d}",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T12:00:00Z",
            "labels": labels,
            "annotations": {"node.koordinator.sh/extended-resource-spec": "{}", "checksum/config": "a" * 64},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
            ],
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": owned}],
        },
        "spec": {
            "nodeName": f"node-{number % 500}",
            "priority": 5500,
            "containers": [container | {"name": "main"}, container | {"name": "sidecar"}],
            "volumes": [{"name": f"volume-{i}", "configMap": {"name": f"config-{i}"}} for i in range(6)],
        },
        "status": {
            "phase": "Running",
            "qosClass": "BestEffort",
            "podIP": "10.1.2.3",
            "conditions": [{"type": t, "status": "True"} for t in ("Ready", "PodScheduled", "Initialized")],
            "containerStatuses": [
                {"name": name, "ready": True, "restartCount": 0, "containerID": f"containerd://{number:064x}"}
                for name in ("main", "sidecar")
            ],
        },
    }


def encode_event(number: int, version: int) -> bytes:
    """One line of a watch."""
    return (
        json.dumps({"type": "MODIFIED", "object": make_pod(number, version)}, separators=(",", ":")).encode() + b"\n"
    )


async def serve(pods: int, events: int, pipe: Connection) -> None:
    """List `pods` in pages; once told to, send `events` over the watch."""
    loop = asyncio.get_running_loop()

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return list_page(request)
        response = web.StreamResponse()
        await response.prepare(request)
        lines = [encode_event(number % pods, 1_000_000 + number) for number in range(events)]
        pipe.send("ready")
        await loop.run_in_executor(None, pipe.recv)
        for start in range(0, events, 50):
            await response.write(b"".join(lines[start : start + 50]))
        await asyncio.Event().wait()
        return response

    def list_page(request: web.Request) -> web.Response:
        start = int(request.query.get("continue", "0"))
        items = [make_pod(number, number + 1) for number in range(start, min(start + PAGE, pods))]
        meta = {"resourceVersion": "999999"} | ({"continue": str(start + PAGE)} if start + PAGE < pods else {})
        return web.json_response({"metadata": meta, "items": items})

    app = web.Application()
    app.router.add_get("/api/v1/pods", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    pipe.send(runner.addresses[0][1])
    await asyncio.Event().wait()


def run_server(pods: int, events: int, pipe: Connection) -> None:
    """The server's process."""
    asyncio.run(serve(pods, events, pipe))


def resident_kb() -> float:
    """Memory of this process now, in KB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1024


async def connect_to(port: int) -> Client:
    """A client of the server on `port`."""
    user = {"name": "c", "context": {"cluster": "c"}}
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    config = {"current-context": "c", "contexts": [user], "clusters": [cluster], "users": []}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config, file)
        file.flush()
        return await connect(file.name)


async def measure_store(events: int, port: int, pipe: Connection) -> dict[str, float]:
    """List and follow with a real store; cpu seconds of this process alone."""
    heard = 0
    done = asyncio.Event()

    def hear(change: Change[Pod]) -> None:
        nonlocal heard
        if change.kind == "updated":
            heard += 1
            if heard == events:
                done.set()

    async with await connect_to(port) as client:
        store = Store(client, PODS, page_size=PAGE)
        store.add_index("node", lambda pod: pod.spec.node_name)
        store.subscribe(hear)
        memory_kb, started = resident_kb(), time.process_time()
        running = asyncio.ensure_future(store.run())
        await store.wait_synced()
        listed_s = time.process_time() - started
        memory_kb = resident_kb() - memory_kb
        await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
        started = time.process_time()
        pipe.send("go")
        await done.wait()
        followed_s = time.process_time() - started
        running.cancel()
        await asyncio.wait({running})
        return {
            "listed_us_per_pod": listed_s / len(store) * 1e6,
            "memory_kb_per_pod": memory_kb / len(store),
            "followed_us_per_event": followed_s / events * 1e6,
        }


def measure_decoding() -> dict[str, float]:
    """The codec alone."""
    lines = [encode_event(number, number) for number in range(2_000)]
    codec = codec_for(PODS)
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        for line in lines:
            codec.decode_event(line)
        best = min(best, time.process_time() - started)
    return {
        "event_bytes": sum(map(len, lines)) / len(lines),
        "decoded_us_per_event": best / len(lines) * 1e6,
    }


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    flags = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=run_server, args=(flags.pods, flags.events, theirs), daemon=True)
    server.start()
    try:
        results = measure_decoding() | asyncio.run(measure_store(flags.events, ours.recv(), ours))
    finally:
        server.terminate()
        server.join()
    budgets = {
        "followed_us_per_event": BUDGET_EVENT_US,
        "listed_us_per_pod": BUDGET_LISTED_US,
        "memory_kb_per_pod": BUDGET_POD_KB,
    }
    missed = [name for name, budget in budgets.items() if results[name] > budget]
    if flags.json:
        print(json.dumps({"results": results, "budgets": budgets, "missed": missed}))
    else:
        for name, value in results.items():
            limit = f"  (budget {budgets[name]:g})" if name in budgets else ""
            print(f"{name:24} {value:10.2f}{limit}{'  MISSED' if name in missed else ''}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
