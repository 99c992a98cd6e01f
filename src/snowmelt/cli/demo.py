"""`snowmelt demo`: a queue that loses its master and no item, on this machine, in half a minute."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from snowmelt.cli.local import LocalCluster, LocalNode, end_on_sigterm
from snowmelt.cli.node import checked_heartbeat
from snowmelt.cli.show import standing_table
from snowmelt.client.cluster import connect
from snowmelt.client.fifo import Fifo
from snowmelt.core.errors import BadOption

BATCH = 1000
WAIT_SECONDS = 60.0
T = TypeVar("T")


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(demo)


def demo(
    nodes: Annotated[int, typer.Option(help="How many nodes.")] = 3,
    items: Annotated[int, typer.Option(help="How many items.")] = 200_000,
    heartbeat: Annotated[float, typer.Option(help="Seconds between heartbeats.")] = 0.5,
) -> None:
    """Fill a queue, kill its master in the middle of taking from it, and count what comes."""
    if not 2 <= nodes <= 20:
        raise BadOption("--nodes", nodes, "2 to 20")
    if not 2 * BATCH <= items <= 10_000_000:
        raise BadOption("--items", items, f"{2 * BATCH} to 10000000")
    checked_heartbeat(heartbeat)
    end_on_sigterm()
    console = Console()
    begin = time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="snowmelt-demo-") as folder,
        LocalCluster(nodes, Path(folder), heartbeat) as cluster,
    ):
        _step(console, f"Starting {nodes} nodes, a process each", cluster.start)
        _show(console, cluster)
        with connect(cluster.url) as connection:
            queue = _queue(connection.fifo, min(3, nodes))
            good = _story(console, cluster, queue, items // BATCH)
        codes = [_stopped(console, node) for node in reversed(cluster.nodes)]
    console.print(f"All over in {time.perf_counter() - begin:.1f} s.")
    if any(codes) or not good:
        raise typer.Exit(1)


def _queue(fifo: Callable[..., Fifo], replicas: int) -> Fifo:
    """A queue whose master is not the node that decides on views: n1 must see the other missed."""
    for number in range(1, 50):
        queue = fifo(f"demo-{number}", replicas=replicas)
        queue.put(b"0")
        queue.get(timeout=WAIT_SECONDS).ack()
        if queue.stats().master != "n1":
            return queue
    return queue


def _story(console: Console, cluster: LocalCluster, queue: Fifo, batches: int) -> bool:
    came: list[int] = []
    replicas = queue.stats().settings.replicas
    text = f"Putting {batches * BATCH:,} items, each safe on {replicas} disks"
    _step(console, text, lambda: _put(queue, batches))
    _step(console, "Taking half of them", lambda: _take(queue, came, batches * BATCH // 2))

    held = queue.get_many(BATCH, timeout=WAIT_SECONDS)
    victim = next(node for node in cluster.nodes if node.name == queue.stats().master)
    victim.kill()
    console.print(f"\n[bold]Killed {victim.name}[/], the queue's master, with a lease in our hands")
    came += [int(item.body) for item in held]
    _step(console, "Acknowledging that lease with whoever is master now", held.ack)
    status = queue.stats()
    console.print(f"{status.master} is master, in term {status.term}")
    _step(console, "Taking the rest", lambda: _take(queue, came, batches * BATCH))

    victim.start()
    names = [node.name for node in cluster.nodes]
    text = f"Starting {victim.name} again, on its old disk"
    _step(console, text, lambda: cluster.wait_for(names, WAIT_SECONDS))
    _show(console, cluster)
    lost = batches * BATCH - len(set(came))
    ordered = "in order" if came == sorted(came) else "NOT in order"
    twice = len(came) - len(set(came))
    console.print(f"\n[bold]{len(came):,} items came, {ordered}: {lost} lost, {twice} twice.[/]")
    return lost == 0 and came == sorted(came)


def _put(queue: Fifo, batches: int) -> None:
    for batch in range(batches):
        queue.put_many([b"%d" % number for number in range(batch * BATCH, (batch + 1) * BATCH)])


def _take(queue: Fifo, came: list[int], until: int) -> None:
    before = None
    while len(came) < until:
        before = queue.get_many(min(BATCH, until - len(came)), timeout=WAIT_SECONDS, ack=before)
        came += [int(item.body) for item in before]
    if before is not None:
        before.ack()


def _step(console: Console, text: str, act: Callable[[], T]) -> T:
    begin = time.perf_counter()
    with console.status(text + " …"):
        done = act()
    console.print(f"\n[bold]{text}[/]: {time.perf_counter() - begin:.1f} s")
    return done


def _show(console: Console, cluster: LocalCluster) -> None:
    rows = [(node.name, f"127.0.0.1:{node.port}", node.status()) for node in cluster.nodes]
    console.print(standing_table(rows))


def _stopped(console: Console, node: LocalNode) -> int:
    code = node.stop()
    console.print(
        f"{node.name} stopped in order" if code == 0 else f"{node.name} ended with {code}"
    )
    return code
