"""Blizzard's own figure: the time for 100 operations, by clients and by nodes.

    python benchmarks/blizzard_scale.py [--nodes 6,12,24,57] [--clients 1,2,4,8,16,32,64]
        [--share 0.03] [--operations 100] [--figure FILE] [--csv FILE] [--json]

The paper (section 3.3) lets 1 to 64 clients put 100 values each and get them, on 6 to 57 data
nodes, beside a queue on one node. Here every node has the same small share of one core, as a small
machine of its own (`shares.py`); so has the single node, which keeps its queue in memory and
flushes nothing. Clients are not bounded. The cluster is measured twice: with its usual settings,
where small bodies lie with the leader and two followers, and with `inline_max=0`, where bodies lie
on data nodes, as in the paper. One queue has three copies. Needs Linux, and root.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from multiprocessing import active_children
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.peers.starting import progress
from msgspec.structs import replace

from snowmelt.cli.local import LocalCluster, end_on_sigterm
from snowmelt_lab.output import write_csv
from snowmelt_lab.scale.client import Job
from snowmelt_lab.scale.gates import timed
from snowmelt_lab.scale.grid import HEAD, Point, row
from snowmelt_lab.scale.plain import plain_queue
from snowmelt_world.shares import Shares, Unbounded

HEARTBEAT: Final = 3.0
"""Seconds, as in the paper."""
KINDS: Final = {"usual settings": ("usual", 1 << 20), "bodies on data nodes": ("elsewhere", 0)}
"""The name of each one's queue, and its `inline_max`."""
ALONE: Final = "one node, in memory"
Curves = dict[str, list[Point]]


@contextmanager
def cluster(nodes: int, share: float, shares: Shares) -> Iterator[str]:
    """So many nodes, each with its share once all of them are there."""
    with (
        tempfile.TemporaryDirectory(prefix="snowmelt-blizzard-") as folder,
        LocalCluster(nodes, Path(folder), HEARTBEAT) as started,
    ):
        started.start()
        for node in started.nodes:
            shares.bound(node.pid, share)
        yield started.url
    shares.sweep()


@contextmanager
def single(share: float, shares: Shares) -> Iterator[str]:
    """The queue on one node, with the same share."""
    before = {child.pid for child in active_children()}
    with plain_queue() as url:
        for child in active_children():
            if child.pid is not None and child.pid not in before:
                shares.bound(child.pid, share)
        yield url
    shares.sweep()


def measured(
    nodes: Sequence[int], clients: Sequence[int], share: float, job: Job, curves: Curves
) -> None:
    """Fills in point by point, so that what was measured is kept when the last one fails.

    For each number of nodes both kinds are measured on one cluster, in turn.
    """
    shares = Shares(f"snowmelt-blizzard-{os.getpid()}")
    try:
        for count in (0, *nodes):
            with cluster(count, share, shares) if count else single(share, shares) as url:
                for number, kind in product(clients, KINDS if count else [ALONE]):
                    progress(f"{count or 1} nodes, {number} clients, {kind}")
                    name, inline_max = KINDS.get(kind, ("", 0))
                    here = replace(job, url=url, queue=name, inline_max=inline_max)
                    curves.setdefault(kind, []).append(Point(count, number, timed(here, number)))
    finally:
        progress("")
        shares.close()


def draw(curves: Curves, share: float, path: Path) -> None:
    """A panel for each kind, both beside the single node."""
    from snowmelt_lab.drawing import INK, canvas, save, shades  # noqa: PLC0415  # the extra
    from snowmelt_lab.scale.picture import scale  # noqa: PLC0415

    title = f"100 operations, each node on {share:.0%} of a core: clients help, nodes do not"
    figure, panels = canvas(2, title)
    single_node = curves[ALONE]
    for axes, kind in zip(panels, KINDS, strict=True):
        counts = sorted({point.nodes for point in curves[kind]})
        for count, shade in zip(counts, shades(len(counts)), strict=True):
            mine = [point for point in curves[kind] if point.nodes == count]
            seconds = [point.times.seconds_per_100 for point in mine]
            clients = [point.clients for point in mine]
            axes.plot(clients, seconds, "o-", color=shade, markersize=4, label=f"{count} nodes")
        clients = [point.clients for point in single_node]
        seconds = [point.times.seconds_per_100 for point in single_node]
        axes.plot(clients, seconds, "s--", color=INK, markersize=4, label=ALONE)
        scale(axes, clients)
        axes.set_title(kind)
        axes.set_xlabel("clients")
    panels[0].set_ylabel("seconds for 100 operations")
    lowest, highest = zip(*(axes.get_ylim() for axes in panels), strict=True)
    for axes in panels:
        axes.set_ylim(min(lowest), max(highest))
    panels[1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    save(figure, path)


def rows(curves: Curves) -> list[tuple[object, ...]]:
    return [(kind, *row(point)) for kind, points in curves.items() for point in points]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", default="6,12,24,57")
    parser.add_argument("--clients", default="1,2,4,8,16,32,64")
    parser.add_argument("--share", type=float, default=0.03, help="of one core, for each node")
    parser.add_argument("--operations", type=int, default=100, help="puts of each client")
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    nodes, clients = (
        [int(word) for word in text.split(",")] for text in (told.nodes, told.clients)
    )
    end_on_sigterm()
    curves: Curves = {}
    job = Job(url="", operations=told.operations, timeout=120.0)
    try:
        measured(nodes, clients, told.share, job, curves)
    except Unbounded as error:
        sys.exit(str(error))
    finally:
        if told.csv is not None and curves:
            write_csv(told.csv, ("kind", *HEAD), rows(curves))
        if told.figure is not None and set(KINDS) < set(curves):
            draw(curves, told.share, told.figure)
    if told.json:
        print(json.dumps([dict(zip(("kind", *HEAD), line, strict=True)) for line in rows(curves)]))
        return
    for kind, *numbers in rows(curves):
        print(f"{kind:22}", *(f"{number:>10.4g}" for number in numbers))


if __name__ == "__main__":
    main()
