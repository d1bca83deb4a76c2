"""`python -m sandbox.node.fleet`: nodes without machines in any cluster, to try schedulers and controllers at scale.

They register, keep their leases and conditions fresh, and play their pods: bound pods become Running at once and do
nothing. On SIGTERM or SIGINT the nodes are deleted.
"""

import argparse
import asyncio
import contextlib
import signal
import sys
import time

from koord.kube.connection import connect
from koord.kube.errors import NotFound
from koord.kube.resources import NODES
from koord.kube.store import Store
from koord.logs import LEVELS, configure_logging
from sandbox.node import model
from sandbox.node.registration import NodeKeeper
from sandbox.node.simulated import SimulatedNodes, describe_simulated
from sandbox.node.status_writer import StatusWriter

COMPONENT = "koord-fleet"


async def run(options: argparse.Namespace) -> None:
    """Play the nodes until a signal. Raises AccessError, ApiError when they cannot be registered."""
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    names = [f"{options.prefix}-{number}" for number in range(1, options.nodes + 1)]
    async with await connect(options.kubeconfig, user_agent=COMPONENT) as client:
        writer, pods = StatusWriter(client), Store(client, model.PODS)
        simulated = SimulatedNodes(names, writer, time.time)
        simulated.follow(pods)
        keeper = NodeKeeper(
            client, [describe_simulated(name, options.cpu, options.memory) for name in names], time.time
        )
        await keeper.register()
        sys.stdout.write(f"registered {len(names)} nodes\n")
        sys.stdout.flush()
        works = [asyncio.create_task(work) for work in (pods.run(), simulated.run(), keeper.run())]
        works.append(asyncio.create_task(_wait(ending)))
        try:
            done, _ = await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
            for work in done:
                work.result()
        finally:
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)
            for name in names:
                with contextlib.suppress(NotFound):
                    await client.delete(NODES, name)


async def _wait(ending: asyncio.Event) -> None:
    await ending.wait()


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--kubeconfig", help="without it in-cluster credentials, then $KUBECONFIG")
    parser.add_argument("--nodes", type=int, default=1, help="how many")
    parser.add_argument("--prefix", default="simulated", help="of their names")
    parser.add_argument("--cpu", default="32", help="of each, a quantity")
    parser.add_argument("--memory", default="64Gi", help="of each, a quantity")
    parser.add_argument("--log-level", choices=LEVELS, default="info")
    options = parser.parse_args()
    configure_logging(COMPONENT, options.log_level)
    asyncio.run(run(options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
