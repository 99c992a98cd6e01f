"""A stage as it is seen through its queue, wherever it runs."""

import time
from dataclasses import replace
from typing import Protocol

from snowmelt.spark.stages import Stage
from snowmelt.spark.standing import ItemRate, Standing, State


class StageRun(Protocol):
    """One stage at work in this process."""

    made: int | None
    """How many items came of what it took; None where that is not counted."""
    lost: int
    """How many items could not be read from any copy."""

    def start(self) -> None: ...

    def check(self) -> None:
        """Raises what went wrong, if anything did."""

    def ask_to_stop(self) -> None:
        """Tells it to stop, and does not wait for it."""

    def stop(self) -> None:
        """Stops it, and waits until it has."""


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
