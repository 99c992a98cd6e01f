"""One run from its start to its verdict."""

import argparse
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec
from benchmarks.chaos.frame import add_options, framed, say
from benchmarks.spark_chaos_parts import table
from benchmarks.spark_chaos_parts.executors import machines
from benchmarks.spark_chaos_parts.feeder import Feeder
from benchmarks.spark_chaos_parts.judging import Judgement, drain, judge
from benchmarks.spark_chaos_parts.plan import SINK, Plan
from benchmarks.spark_chaos_parts.storm import Round, Storm, Ways
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import snowmelt
from snowmelt.cli.local import LocalCluster
from snowmelt.core.errors import Empty
from snowmelt.spark.standalone import Standalone

NODES = 3
UP_SECONDS = 60.0
FEED_SECONDS = 30.0
FEED_LAST_SECONDS = 600.0


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a whole."""

    rounds: int
    seed: int
    nodes_killed: bool
    seconds: float
    batches: int
    """Micro-batches that were seen to end between the kills."""
    early: int
    """Rounds whose kill fell before the first micro-batch."""
    replays: int
    """Batches that were read once more from the checkpoint, and were the same."""
    replayed_rows: int
    forgotten: int
    """Batches taken out of the commit log on purpose, so that they are done again."""
    put_back: int
    """Rounds after which the checkpoint was put back by one or more batches."""
    twins: int
    """Rounds in which two programs ran on one group."""
    refused: list[str]
    """What programs said that were refused, and went on from what was newer."""
    died: list[str]
    """What programs said that ended by themselves, after one of their processes was killed, too."""
    kills: dict[str, int]
    moments: dict[str, int]
    ready_seconds: float
    """From a start to the first micro-batch, on average."""
    judgement: Judgement | None
    broken: list[str]


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Kills a stream at random moments; counts items.")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--items", type=int, default=20_000, help="put at least; more as it runs")
    parser.add_argument("--rows", type=int, default=2000, help="in a micro-batch at most")
    parser.add_argument("--after", type=float, default=3.0, help="seconds to a kill at most")
    parser.add_argument("--nodes", action="store_true", help="kill nodes and masters as well")
    parser.add_argument("--older", action="store_true", help="older checkpoints, and two drivers")
    parser.add_argument("--cluster", action="store_true", help="executors and workers of a master")
    parser.add_argument("--heartbeat", type=float, default=0.5, help="the nodes', in seconds")
    add_options(parser)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    return framed(parsed(arguments), "spark-chaos-", run, table.show)


def run(options: argparse.Namespace, folder: Path) -> Result:
    begin = time.monotonic()
    spark: Standalone | None = None
    with LocalCluster(NODES, folder / "nodes", options.heartbeat) as nodes, ExitStack() as still:
        nodes.start()
        plan = Plan(url=nodes.url, place=str(folder), rows=options.rows, seed=options.seed)
        if options.cluster:
            spark = still.enter_context(machines(folder))
            plan = msgspec.structs.replace(plan, master=spark.url)
        with snowmelt.connect(plan.url) as cluster, Feeder(plan) as feeder:
            with suppress(Empty):  # this makes it
                cluster.fifo(SINK, **plan.kept).get(timeout=0)
            feeder.wait_for_first(FEED_SECONDS)
            ways = Ways(options.after, options.nodes, options.older)
            storm = Storm(plan, nodes, cluster, ways, spark)
            blow(storm, options.rounds)
            broken = list(storm.wrong)
            judgement = None
            if not broken:
                nodes.wait_for([node.name for node in nodes.nodes], UP_SECONDS)
                broken += end(plan, feeder, options.items)
                judgement = judge(plan, cluster, feeder.items)
    return summed(options, storm, judgement, broken, time.monotonic() - begin)


def blow(storm: Storm, rounds: int) -> None:
    """All rounds, with a bar on a terminal and a line for each in any case."""
    console = Console(stderr=True)
    columns = (TextColumn("killed"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=rounds)

        def told(made: Round) -> None:
            progress.console.print(table.line(made), markup=False, highlight=False, soft_wrap=True)
            progress.advance(bar)

        storm.blow(rounds, told)


def end(plan: Plan, feeder: Feeder, items: int) -> list[str]:
    """The feeder puts what is missing, and stops; the stream takes it in as many runs as it needs.

    When the source is full the feeder waits for the stream, so each run makes room for the next.
    """
    say("the last runs: all that is left is put through")
    limit = time.monotonic() + FEED_LAST_SECONDS
    while not feeder.over_at(items):
        if time.monotonic() > limit:
            return [f"the feeder did not end in {FEED_LAST_SECONDS:g} s"]
        wrong = drain(plan)
        if wrong:
            return wrong
    return drain(plan)


def summed(
    options: argparse.Namespace,
    storm: Storm,
    judgement: Judgement | None,
    broken: list[str],
    seconds: float,
) -> Result:
    rounds = storm.rounds
    ready = [made.ready for made in rounds if made.ready is not None]
    return Result(
        rounds=len(rounds),
        seed=options.seed,
        nodes_killed=options.nodes,
        seconds=round(seconds, 1),
        batches=sum(made.batches for made in rounds),
        early=sum(made.batches == 0 for made in rounds),
        replays=sum(made.replayed is not None for made in rounds),
        replayed_rows=sum(made.replayed or 0 for made in rounds),
        forgotten=sum(made.forgotten for made in rounds),
        put_back=sum(made.put_back > 0 for made in rounds),
        twins=sum(made.twin != "" for made in rounds),
        refused=[f"round {made.number}: {words}" for made in rounds for words in made.refused],
        died=[f"round {made.number}, {made.kind}: {made.words}" for made in rounds if made.words],
        kills=dict(sorted(storm.kills.items())),
        moments=dict(Counter(made.moment for made in rounds)),
        ready_seconds=round(sum(ready) / len(ready), 1) if ready else 0.0,
        judgement=judgement,
        broken=[*broken, *(judgement.broken if judgement else [])],
    )
