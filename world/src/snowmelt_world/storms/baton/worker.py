"""A worker: wants one baton after the other, and acts on the file that each guards.

It acts several times while it holds one, each time after making sure that the baton is still its
own. All is written down before and after. On SIGUSR1 it holds on to what it has, for longer than a
lease, or until it is told that it is lost. When it forks, the child must leave alone what its
parent holds, and may have a turn of its own at a baton.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Final

import snowmelt
from snowmelt import BatonLost, NotGranted
from snowmelt.core.errors import SnowmeltError, Unreachable
from snowmelt_world.storms.baton.guard import Guard
from snowmelt_world.storms.baton.journal import BatonLine, BatonStep
from snowmelt_world.storms.baton.load import FENCE, OLD, ORDER, VALUE, BatonLoad
from snowmelt_world.storms.forks import Forks, allowed
from snowmelt_world.storms.journals import Journal, now
from snowmelt_world.storms.words import StdinWords

PLANTED: Final = 3
"""Every so many turns of one worker a fault is planted."""
EARLIER: Final = 3_000_000_000
"""By so many nanoseconds."""
CHILD_WAITS: Final = 0.2
"""For so many seconds a child waits for the baton that its parent holds."""
INSIST_SECONDS: Final = 6.5
"""So long it holds on."""


class BatonWorker:
    """One life."""

    def __init__(
        self, load: BatonLoad, number: int, life: int, cluster: snowmelt.Cluster, journal: Journal
    ) -> None:
        who = f"worker-{number}-{life}"
        self._load = load
        self._cluster = cluster
        self._journal = journal
        self._guards = {name: Guard(load.setting.folder, name, who) for name in load.batons}
        self._chance = Random(f"{load.setting.seed}/{who}")
        self._forks = Forks(load.fork_every, self._chance)
        self._plant = load.setting.plant if number == 0 else ""
        self._turns = number  # so that they do not all begin with the same baton
        self._old = dict.fromkeys(load.batons, 0)
        self._insists = 0.0

    def insist(self, *_: object) -> None:
        """It is not to give up soon."""
        self._insists = time.monotonic() + INSIST_SECONDS

    def run(self, words: StdinWords) -> None:
        self._journal.add(BatonLine(now(), BatonStep.STARTED))
        while not words.stop.wait(self._chance.expovariate(1 / self._load.settings.pause)):
            self._turns += 1
            self._want(self._load.batons[self._turns % len(self._load.batons)])

    def _want(self, baton: str) -> None:
        at = now() - (EARLIER if self._planted(ORDER) else 0)
        self._journal.add(BatonLine(at, BatonStep.ASKED, baton))
        try:
            held = self._cluster.baton(baton).acquire(timeout=self._load.settings.timeout)
        except NotGranted as error:
            self._journal.add(BatonLine(now(), BatonStep.DENIED, baton, value=str(error)))
        except SnowmeltError as error:
            self._journal.add(BatonLine(now(), BatonStep.FAILED, baton, value=repr(error)))
        else:
            fence = held.fence + self._planted(FENCE)
            self._hold(WorkerTurn(self._journal, baton, fence, held))

    def _hold(self, turn: "WorkerTurn") -> None:
        self._insists = 0.0
        turn.note(BatonStep.GRANTED, made=turn.held.made, value=turn.held.value.decode())
        end = time.monotonic() + self._load.held(self._chance)
        try:
            while True:
                self._act(turn)
                if self._forks.now_and_then(lambda: self._in_child(turn)):
                    turn.note(BatonStep.FORKED)
                if time.monotonic() >= max(end, self._insists):
                    break
                time.sleep(self._chance.uniform(0, self._load.settings.between))
            if self._chance.random() < self._load.settings.save:
                turn.save()
            turn.release(unsaid=self._planted(VALUE))
        except BatonLost as error:
            turn.note(BatonStep.LOST, value=str(error))
        except SnowmeltError as error:
            turn.note(BatonStep.UNSURE, value=repr(error))
        finally:
            with suppress(SnowmeltError):
                turn.held.release()  # of one that was lost, this ends what it has
        self._old[turn.baton] = turn.fence

    def _act(self, turn: "WorkerTurn") -> None:
        checked = now()
        turn.held.check()
        time.sleep(
            self._chance.uniform(0, self._load.settings.between)
        )  # to do something takes time
        guard = self._guards[turn.baton]
        turn.acts += 1
        if self._old[turn.baton] and self._planted(OLD):
            guard.pass_by(self._old[turn.baton], turn.acts)
        accepted = guard.act(turn.fence, checked, turn.acts)
        turn.note(BatonStep.ACTED if accepted else BatonStep.REFUSED, checked=checked)

    def _in_child(self, turn: "WorkerTurn") -> Iterator[str]:
        held = turn.held
        if not held.lost:
            yield f"{turn.baton} is not lost to the child"
        yield from allowed(check=held.check, save=lambda: held.save(b"a child's"))
        if self._chance.random() < 1 / 2:
            yield from allowed(release=held.release)
        with suppress(NotGranted, Unreachable):  # its node may be stopped, or slow, at this moment
            own = self._cluster.baton(turn.baton).acquire(timeout=CHILD_WAITS)
            if own.fence <= turn.fence:
                yield f"{turn.baton} has fence {own.fence} in the child, {turn.fence} before"
            with suppress(BatonLost):
                own.release()

    def _planted(self, plant: str) -> bool:
        return self._plant == plant and self._turns % PLANTED == 0


class WorkerTurn:
    """One hold of one baton."""

    def __init__(self, journal: Journal, baton: str, fence: int, held: snowmelt.Held) -> None:
        self.baton = baton
        self.fence = fence
        self.held = held
        self.acts = 0
        self._journal = journal
        self._changes = 0

    def note(self, what: BatonStep, *, made: int = 0, value: str = "", checked: int = 0) -> None:
        """Writes down what happened to it."""
        self._journal.add(BatonLine(now(), what, self.baton, self.fence, made, value, checked))

    def save(self) -> None:
        """Another value, on a disk."""
        value = self._next()
        self.note(BatonStep.SAVING, value=value)
        self.held.save(value.encode())
        self.note(BatonStep.SAVED, value=value)

    def release(self, *, unsaid: bool) -> None:
        """Another value, for whoever is next."""
        value = self._next()
        self.note(BatonStep.RELEASING, value=value)
        self.held.value = (f"{value}0" if unsaid else value).encode()
        self.held.release()
        self.note(BatonStep.RELEASED, value=value)

    def _next(self) -> str:
        """A value that nobody else ever sets."""
        self._changes += 1
        return f"{self.fence}.{self._changes}"
