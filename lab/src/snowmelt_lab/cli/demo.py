"""`snowmelt demo`: the main job. A cluster, a pipeline of stages on Spark, and an exact account.

Collisions in a toy tracker are made, reconstructed, tested and written, each stage joined to the
next by a queue on three nodes. In the end every event is accounted for, and the histogram shows
the particle that was hidden in them. `--kill` ends a node in the middle; the account is the same.
With `--spark-cluster` executors do Spark's work, processes of workers apart from the driver.
What is done with an event stands in `examples/ufmulti`.
"""

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import snowmelt
from snowmelt.cli.local import LocalCluster, LocalNode, end_on_sigterm
from snowmelt.cli.node import checked_heartbeat
from snowmelt.cli.page import page_port
from snowmelt.cli.pipeline import shown_on, spark_extra, summary_table
from snowmelt.client.cluster import Cluster, connect
from snowmelt.core.errors import BadOption

KILL_AT: Final = 0.3
"""The share of the events after whose reconstruction `--kill` ends a node."""
SEED: Final = 1
WORKERS: Final = 2
"""Of Spark's, with `--spark-cluster`."""
LOOK_SECONDS: Final = 0.3
T = TypeVar("T")
Session = Any
"""Spark's; its name is known to the Spark layer alone."""


def demo(
    events: Annotated[int, typer.Option(help="How many events to make.")] = 100_000,
    nodes: Annotated[int, typer.Option(help="How many nodes.")] = 3,
    kill: Annotated[bool, typer.Option("--kill", help="Kill a node in the middle.")] = False,
    spark_cluster: Annotated[
        bool, typer.Option(help="Run Spark as a master and two workers, in processes.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Where to make a folder for the results.")] = Path(
        "snowmelt-demo"
    ),
    heartbeat: Annotated[float, typer.Option(help="Seconds between heartbeats.")] = 0.5,
) -> None:
    """Find a particle by a pipeline on Spark. Every event is accounted for."""
    if not 2 <= nodes <= 20:
        raise BadOption("--nodes", nodes, "2 to 20")
    if not 1000 <= events <= 100_000_000:
        raise BadOption("--events", events, "1000 to 100000000")
    checked_heartbeat(heartbeat)
    end_on_sigterm()
    console, http = Console(), page_port()
    begin = time.perf_counter()
    with spark_extra("snowmelt demo", "snowmelt-lab[spark]"):
        _load_example()
    with (
        tempfile.TemporaryDirectory(prefix="snowmelt-demo-") as scratch,
        LocalCluster(nodes, Path(scratch, "nodes"), heartbeat, http=http) as cluster,
    ):
        console.print(f"In the browser, once they run: http://127.0.0.1:{http}/", highlight=False)
        results = _fresh(out)
        apart = Path(scratch, "spark") if spark_cluster else None
        good = _Story(console, cluster, results, events, kill=kill, apart=apart).told()
    console.print(f"All over in {time.perf_counter() - begin:.0f} s.")
    if not good:
        raise typer.Exit(1)


class _Story:
    """One run, step after step. The example's modules can be imported by now."""

    def __init__(
        self,
        console: Console,
        cluster: LocalCluster,
        results: Path,
        events: int,
        *,
        kill: bool,
        apart: Path | None,
    ) -> None:
        self._console = console
        self._cluster = cluster
        self._results = results
        self._events = events
        self._kill = kill
        self._apart = apart
        """Where the logs of a cluster of Spark's are; without it Spark works in one process."""

    def told(self) -> bool:
        """All of it; whether the account is as it must be."""
        size = len(self._cluster.nodes)
        self._step(f"Starting {size} nodes, a process each", self._cluster.start)
        with ExitStack() as stack:
            spark = self._spark(stack)
            connection = stack.enter_context(connect(self._cluster.url))
            self._make_events(connection)
            self._run(connection, spark)
            return self._account(connection, spark)

    def _spark(self, stack: ExitStack) -> Session:
        """A session, which ends with the stack; on a cluster of its own where that is wanted."""
        from snowmelt.spark.session import quiet_settings, session
        from snowmelt_world.standalone import Standalone

        where: dict[str, str] = {}
        if self._apart is not None:
            apart = Standalone(self._apart, WORKERS)
            text = f"Starting Spark's master and {WORKERS} workers, a process each"
            url = self._step(text, lambda: stack.enter_context(apart)).url
            where = {**quiet_settings(WORKERS), "master": url}
        spark = self._step("Starting Spark", lambda: session("snowmelt demo", **where))
        stack.callback(spark.stop)
        return spark

    def _make_events(self, connection: Cluster) -> None:
        from ufmulti.feed import feed
        from ufmulti.pipeline import RAW

        raw = connection.fifo(RAW)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=self._console) as progress:
            bar = progress.add_task("Making events, each safe on two disks", total=self._events)
            feed(raw, self._events, SEED, lambda count: progress.update(bar, advance=count))

    def _run(self, connection: Cluster, spark: Session) -> None:
        from ufmulti.pipeline import RAW, pipeline

        stages = pipeline(str(self._results / "pairs"))
        self._console.print(f"\n{stages}\n", highlight=False, markup=False, soft_wrap=True)
        victim = self._victim(connection, RAW) if self._kill else None
        with (
            stages.start(
                self._cluster.url,
                drain=True,
                checkpoints=self._results / "checkpoints",
                session=spark,
            ) as running,
            shown_on(self._console) as show,
        ):
            while not running.over:
                standings = running.look()
                show(standings)
                taken = standings[0].taken
                if victim is not None and taken >= KILL_AT * self._events:
                    victim.kill()
                    words = f"[bold red]Killed {victim.name}[/], {taken:,} events into the work"
                    self._console.print(words)
                    victim = None
                time.sleep(LOOK_SECONDS)
        self._console.print(summary_table(stages.name, running.standings))

    def _victim(self, connection: Cluster, queue: str) -> LocalNode:
        """The queue's leader; another node where that is the one that decides on views."""
        leader = connection.fifo(queue).stats().leader
        _, *others = self._cluster.nodes
        return next((node for node in others if node.name == leader), others[0])

    def _account(self, connection: Cluster, spark: Session) -> bool:
        from ufmulti.account import account, lines
        from ufmulti.histogram import draw

        counted = account(connection, spark, self._results / "pairs", self._events, SEED)
        self._console.print("\n[bold]The account[/]")
        for number, words in lines(counted):
            self._console.print(f"{number:>12}  {words}", highlight=False)
        picture = self._results / "peak.png"
        peak = draw(picture, counted.written.mass, self._events)
        if peak is not None:
            found = f"{peak.position:.2f} ± {peak.sigma:.2f} GeV"
            self._console.print(f"{'':12}  and in their masses is a peak, at {found}")
        wrong = list(counted.wrong())
        for sentence in wrong:
            self._console.print(f"[bold red]WRONG[/] {sentence}")
        self._console.print(f"\nThe picture: {picture}", soft_wrap=True)
        return not wrong

    def _step(self, text: str, act: Callable[[], T]) -> T:
        begin = time.perf_counter()
        with self._console.status(text + " …"):
            done = act()
        self._console.print(f"{text}: {time.perf_counter() - begin:.1f} s", highlight=False)
        return done


def _load_example() -> None:
    """Makes `ufmulti` importable: from beside the package in a checkout, or from within it."""
    from snowmelt.spark.shipping import load

    package = Path(snowmelt.__file__).resolve().parent
    places = [package / "examples", package.parents[1] / "examples"]
    files = [place / "ufmulti" / "pipeline.py" for place in places]
    load(next((file for file in files if file.is_file()), files[0]))
    import ufmulti.account
    import ufmulti.histogram  # noqa: F401


def _fresh(out: Path) -> Path:
    """A folder for this run alone: what Spark writes in one run must not meet another's."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=out))
    except OSError as error:
        allowed = f"a folder that can be written ({error.strerror})"
        raise BadOption("--out", str(out), allowed) from error
