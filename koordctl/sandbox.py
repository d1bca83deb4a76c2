"""`koordctl sandbox`: a cluster with Koord on this machine, to try things with kubectl."""

from typing import NoReturn

import click


@click.command()
def sandbox() -> None:
    """Run a cluster with Koord on this machine until Ctrl-C, to try things with kubectl.

    An API server, this machine as its node, webhook, manager and koordlet. Pods are processes of this machine
    (their image is not pulled: the command runs as it is) in cgroups below one of the sandbox's own. Without root
    or writable cgroups the node is a simulated one. Nothing is left behind.
    """
    from koordctl.interrupt import until_signal
    from sandbox.demo.cluster_process import ClusterFailed

    try:
        until_signal(_run, click.echo)
    except click.exceptions.Exit:
        return
    except ClusterFailed as failure:
        raise click.ClickException(f"{failure}\n{failure.log_tail}".rstrip()) from failure


async def _run() -> NoReturn:
    import asyncio
    import shutil
    import tempfile
    from pathlib import Path

    from sandbox.demo.cgroup_values import of_this_machine, why_not_writable
    from sandbox.demo.cluster_process import ClusterProcess
    from sandbox.demo.cluster_view import ClusterView
    from sandbox.demo.components import Workplace
    from sandbox.demo.stand_in import keep_reporting

    why_not = why_not_writable(of_this_machine())
    place = Workplace(Path(tempfile.mkdtemp(prefix="koord-sandbox-")))
    cluster = ClusterProcess(place.root, _tell_start)
    try:
        if why_not:
            click.echo(f"{why_not}: the node is a simulated one and its usage made up")
        await cluster.start(confined=not why_not)
        click.echo(f"The cluster is up; logs are in {place.logs}. In another shell:")
        click.echo(f"  export KUBECONFIG={place.kubeconfig}")
        click.echo("Ctrl-C ends it and removes everything.")
        if not why_not:
            await cluster.failed()
        async with ClusterView(place.kubeconfig) as view:
            reporting = asyncio.ensure_future(keep_reporting(view))
            try:
                await cluster.failed()
            finally:
                reporting.cancel()
    finally:
        await cluster.stop()
        shutil.rmtree(place.root, ignore_errors=True)


def _tell_start(component: str, pid: int, at_s: float, reason: str) -> None:
    del at_s
    click.echo(f"{component} {reason}: started again as process {pid}" if reason else f"{component} is ready")
