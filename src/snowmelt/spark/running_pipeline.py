"""A pipeline at work: all its stages at the same time, watched from one place.

How a stage stands is read from the queues: what waits in its source, what its group holds, and how
many items its group is done with. So a stage counts alike wherever it runs.

A drain ends by one look at the queues, in the order in which items flow. An item stays in its
source, held by the stage's group, until its results are in the next queue. So when a queue is
empty, with nothing left to fill it, the next one has all that ever came through.

All stages run together until then. A small batch costs Spark about 0.3 s of planning and writing
down, whatever is in it; one stage's passes while another computes.
"""

import logging
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from snowmelt.client.cluster import Cluster
from snowmelt.client.connection.url import pinned
from snowmelt.core.errors import BadOption, OutcomeUnknown, StateError
from snowmelt.runtime.signals import BorrowedSignals
from snowmelt.spark.failing import StageFailed
from snowmelt.spark.graph import in_order, upstream
from snowmelt.spark.pipeline_folder import SPARK, PipelineFolder, check_places, make_sink
from snowmelt.spark.queries import SparkRun
from snowmelt.spark.shipping import ship
from snowmelt.spark.stages import SparkStage, Stage
from snowmelt.spark.standing import Show, Standing, State
from snowmelt.spark.workers import PATIENCE, WorkerRun
from snowmelt.store.folder import private

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from snowmelt.spark.pipeline import Pipeline, RunOptions
from dataclasses import replace

from snowmelt.spark.standing import ItemRate

_STDERR: Final = 2
_ECHO: Final = "DataFrameQueryContextLogger"
"""By this logger pyspark writes each error to the terminal that it raises anyway."""
TICK: Final = 0.5


StageRun: TypeAlias = SparkRun | WorkerRun
"""One stage at work in this process."""


@contextmanager
def errors_into(log: Path) -> Iterator[None]:
    """Standard error goes into a file meanwhile, and for ever that of processes begun meanwhile."""
    logging.getLogger(_ECHO).setLevel(logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    sys.stderr.flush()
    log.parent.mkdir(parents=True, exist_ok=True)
    before = os.dup(_STDERR)
    with private(log) as file:
        os.dup2(file.fileno(), _STDERR)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, _STDERR)
        os.close(before)


class StageView:
    """One stage, its run if that is in this process, and how it stood at the last look."""

    def __init__(self, stage: Stage, state: State) -> None:
        self.stage = stage
        self.state = state
        self.run: StageRun | None = None
        self.drained = False
        self._rate = ItemRate()
        self._begin = time.monotonic()
        self._first: int | None = None
        self._seen = Standing(stage.name, state, 0, None, 0.0, 0.0, 0, 0, None, 0)

    @property
    def standing(self) -> Standing:
        """How it stands, as far as is known."""
        return replace(
            self._seen,
            state=self.state,
            made=self.run.made if self.run is not None else None,
            lost=self.run.lost if self.run is not None else 0,
        )

    def see(self, done: int, backlog: int, held: int, *, closed: bool) -> None:
        """Its queue was looked at; `closed` says that nothing can come into it any more."""
        now = time.monotonic()
        if self._first is None:
            self._first = done
        taken = done - self._first
        self.drained = self.drained or (closed and backlog + held == 0)
        self._seen = replace(
            self._seen,
            taken=taken,
            seconds=now - self._begin if taken != self._seen.taken else self._seen.seconds,
            rate=self._rate.at(now, taken),
            backlog=backlog,
            held=held,
            total=taken + backlog + held if closed else None,
        )

    def begin(self, run: StageRun) -> None:
        """Starts a run of it in this process."""
        self.run = run
        self._begin = time.monotonic()
        run.start()
        self.state = State.RUNNING

    def halt(self) -> None:
        """Stops its run, if it has one that goes on."""
        if self.run is not None and self.state in (State.STARTING, State.RUNNING, State.FAILED):
            self.run.stop()
            if self.state is not State.FAILED:
                self.state = State.DONE if self.drained else State.STOPPED


class RunningPipeline:
    """Stages that run in this process; `Pipeline.start` makes it. Use it in a `with`.

    A program with a display of its own looks by itself:

        with pipeline.start(url, drain=True) as running:
            while not running.over:
                for standing in running.look():
                    print(standing.stage, standing.taken, standing.rate)
                time.sleep(0.5)
    """

    def __init__(self, pipeline: "Pipeline", url: str, options: "RunOptions") -> None:
        here = pipeline.chosen(options.get("stages"))
        token = options.get("token")
        self._pipeline = pipeline
        self._cluster = Cluster(url, token)
        self._where = {"url": url} | ({"token": token} if token else {})
        self._drain = options.get("drain", False)
        self._places = PipelineFolder(pipeline.name, options.get("checkpoints", "checkpoints"))
        self._places.check(here)
        self._given = options.get("session")
        self._asked_of_spark = asked_of_spark(options)
        self._own: SparkSession | None = None
        self._cores = 1
        self._asked = threading.Event()
        self._answered = time.monotonic()
        self._watched = [
            StageView(stage, State.STARTING if stage in here else State.ELSEWHERE)
            for stage in in_order(pipeline.stages) or pipeline.stages
        ]

    def __enter__(self) -> Self:
        try:
            self._begin()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self.ask_to_stop()  # a second Ctrl-C: not in order, but now
            return
        self.stop()
        if self._own is not None:
            self._own.stop()
            self._own = None
        self._cluster.close()

    @property
    def session(self) -> "SparkSession | None":
        """The Spark session the stages run in; None where none of them needs Spark."""
        return self._given

    @property
    def over(self) -> bool:
        """Whether there is nothing left to do: all is drained, or it was asked to stop."""
        here = [one for one in self._watched if one.run is not None]
        return self._asked.is_set() or (self._drain and all(one.drained for one in here))

    @property
    def standings(self) -> tuple[Standing, ...]:
        """How every stage stood at the last look, in the order in which items flow."""
        return tuple(one.standing for one in self._watched)

    def wait(self, show: Show | None = None) -> tuple[Standing, ...]:
        """Waits until it is over, looking twice a second; returns how all stood in the end."""
        show = show or (lambda _: None)
        with _heeding_signals(self.ask_to_stop):
            while not self.over:
                show(self.look())
                if not self.over:
                    self._asked.wait(TICK)
            self.stop()
        show(self.standings)
        return self.standings

    def look(self) -> tuple[Standing, ...]:
        """Looks at every stage and every queue. Raises `StageFailed`."""
        for one in self._watched:
            self._check(one)
        try:
            self._look_at_queues()
            self._answered = time.monotonic()
        except (StateError, OutcomeUnknown):  # a node may have died; another will answer
            if time.monotonic() - self._answered > PATIENCE:
                raise
        return self.standings

    def ask_to_stop(self) -> None:
        """Ends `wait`, from another thread or from a signal's handler; does not wait."""
        self._asked.set()
        for one in self._watched:
            if one.run is not None:
                one.run.ask_to_stop()

    def stop(self) -> None:
        """Stops all stages in order, and waits for that."""
        self.ask_to_stop()
        for one in self._watched:
            one.halt()

    # --- the beginning ----------------------------------------------------------------------------

    def _begin(self) -> None:
        for one in self._watched:
            make_sink(self._cluster, one.stage)
        self._look_at_queues()  # what was done before does not count
        here = [one for one in self._watched if one.state is State.STARTING]
        if any(isinstance(one.stage, SparkStage) for one in here):
            self._open_session(here)
        for one in reversed(here):  # who empties a queue is there before who fills it
            one.begin(self._run_of(one.stage))

    def _open_session(self, here: Sequence[StageView]) -> None:
        from pyspark.sql import SparkSession  # noqa: PLC0415  only where Spark is needed

        from snowmelt.spark.parquet import check_folder  # noqa: PLC0415
        from snowmelt.spark.session import register, session  # noqa: PLC0415
        from snowmelt.spark.where import at_once  # noqa: PLC0415

        stages = [one.stage for one in here if isinstance(one.stage, SparkStage)]
        if self._given is None:
            active = SparkSession.getActiveSession()
            with errors_into(self._places.log(SPARK)) if active is None else nullcontext():
                self._given = session(f"snowmelt {self._pipeline.name}", **self._asked_of_spark)
            self._own = self._given if active is None else None
        else:
            register(self._given)
        check_places(self._given, self._cluster, self._places, stages)
        for stage in stages:
            check_folder(self._given, stage, self._places.checkpoint(stage.name))
        self._cores = at_once(self._given)
        functions = [each for one in stages for each in (one.transform, one.arrow, one.write)]
        ship(function for function in functions if function is not None)

    def _run_of(self, stage: Stage) -> StageRun:
        group, log = self._pipeline.group(stage), self._places.log(stage.name)
        if not isinstance(stage, SparkStage):
            folder = self._places.folder(stage.name)
            return WorkerRun(stage, group, self._cluster, folder, log)
        assert self.session is not None
        checkpoint = self._places.checkpoint(stage.name)
        url = pinned(self._where["url"], self._cluster.identity)
        where = {**self._where, "url": url}
        return SparkRun(stage, group, self.session, where, checkpoint, log, self._cores)

    # --- looking ----------------------------------------------------------------------------------

    def _check(self, one: StageView) -> None:
        if one.run is None or one.state is not State.RUNNING:
            return
        try:
            one.run.check()
        except StageFailed:
            one.state = State.FAILED
            raise

    def _look_at_queues(self) -> None:
        """Every stage's source, upstream first; that order is what makes a drain's end certain."""
        dry: list[Stage] = []
        for one in self._watched:
            queue = self._cluster.fifo(one.stage.source)
            told = queue.stats()  # first: what is given to a group afterwards is seen there
            groups = {group.name: group for group in queue.groups()}
            sharing = [other for other in self._watched if other.stage.source == one.stage.source]
            names = [self._pipeline.group(other.stage) for other in sharing]
            held = sum(groups[name].given - groups[name].done for name in names if name in groups)
            mine = groups.get(self._pipeline.group(one.stage))
            feeding = upstream(one.stage, self._pipeline.stages)
            one.see(
                mine.done if mine is not None else 0,
                told.ready + told.delayed + told.leased,
                held,
                closed=self._drain and all(other in dry for other in feeding),
            )
            if one.drained:
                dry.append(one.stage)
                one.halt()


def asked_of_spark(options: "RunOptions") -> dict[str, str]:
    """The settings for a session of its own; refused beside a session that is given."""
    asked = {name: str(options[name]) for name in ("master", "remote") if options.get(name)}
    settings = {**options.get("conf", {}), **asked}
    if settings and options.get("session") is not None:
        allowed = "none of master, remote and conf with a session, which has its own"
        raise BadOption("session", ", ".join(settings), allowed)
    return settings


@contextmanager
def _heeding_signals(stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM asks to stop in order, the second ends the program at once."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    seen: list[int] = []

    def heed(number: int) -> None:
        if seen:
            logging.disable(logging.CRITICAL)  # whoever is cut off has nothing more to say
            raise KeyboardInterrupt
        seen.append(number)
        stop()

    with BorrowedSignals(heed):
        yield
