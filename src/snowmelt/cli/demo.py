"""`snowmelt demo`: what there is to see, on this machine, in half a minute."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from snowmelt.cli.local import LocalCluster, LocalNode, end_on_sigterm
from snowmelt.cli.node import checked_heartbeat
from snowmelt.cli.show import standing_table
from snowmelt.core.errors import BadOption
from snowmelt.protocols.membership import View


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(demo)


def demo(
    nodes: Annotated[int, typer.Option(help="How many nodes.")] = 3,
    heartbeat: Annotated[float, typer.Option(help="Seconds between heartbeats.")] = 0.5,
) -> None:
    """Start a cluster, kill a node, watch the view change, start it again, end clean."""
    if not 2 <= nodes <= 20:
        raise BadOption("--nodes", nodes, "2 to 20")
    checked_heartbeat(heartbeat)
    end_on_sigterm()
    console = Console()
    begin = time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="snowmelt-demo-") as folder,
        LocalCluster(nodes, Path(folder), heartbeat) as cluster,
    ):
        names = [node.name for node in cluster.nodes]
        victim = cluster.nodes[-1]
        _step(console, cluster, f"Starting {nodes} nodes, a process each", cluster.start)

        victim.kill()
        others = names[:-1]
        text = f"Killed {victim.name}; waiting until it is missed"
        _step(console, cluster, text, lambda: cluster.wait_for(others, 60.0))

        victim.start()
        text = f"Started {victim.name} again, on its old disk"
        _step(console, cluster, text, lambda: cluster.wait_for(names, 60.0))

        codes = [_stopped(console, node) for node in reversed(cluster.nodes)]
    console.print(f"All over in {time.perf_counter() - begin:.1f} s.")
    if any(codes):
        raise typer.Exit(1)


def _step(console: Console, cluster: LocalCluster, text: str, wait: Callable[[], View]) -> None:
    begin = time.perf_counter()
    with console.status(text + " …"):
        view = wait()
    console.print(f"\n[bold]{text}[/]: {view}, after {time.perf_counter() - begin:.1f} s")
    rows = [(node.name, f"127.0.0.1:{node.port}", node.status()) for node in cluster.nodes]
    console.print(standing_table(rows))


def _stopped(console: Console, node: LocalNode) -> int:
    code = node.stop()
    console.print(
        f"{node.name} stopped in order" if code == 0 else f"{node.name} ended with {code}"
    )
    return code
