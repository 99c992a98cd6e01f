"""The workers, as the program that starts, stops and kills them sees them."""

import os
import signal

import msgspec
from benchmarks.baton_chaos_parts.journal import HOLDING, Line, What
from benchmarks.baton_chaos_parts.plan import Plan
from benchmarks.chaos import members
from benchmarks.chaos.journals import last
from benchmarks.chaos.links import Links

from snowmelt.cli.local import HERE, Home


def home_of(number: int) -> str:
    """What all lives of a worker have in common.

    >>> home_of(3)
    'worker-3'
    """
    return f"worker-{number}"


class Life(msgspec.Struct, frozen=True):
    """One process, from its start to its end."""

    number: int
    life: int
    killed: int = 0
    """When, by the clock of the journals; 0 for one that was not."""

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.home}-{self.life}"

    @property
    def home(self) -> str:
        """What all its lives have in common."""
        return home_of(self.number)


class Member(members.Member):
    """A process and its life."""

    life: Life

    def __init__(self, plan: Plan, life: Life, home: Home) -> None:
        super().__init__("benchmarks.baton_chaos_parts.worker", plan, life, home)

    @property
    def started(self) -> bool:
        """Whether it is at work, or was killed before it was."""
        return self.last is not None or self.life.killed > 0

    @property
    def last(self) -> Line | None:
        """What it wrote down last."""
        return last(self.journal, Line)

    @property
    def holds(self) -> bool:
        """Whether it holds a baton, as far as it knows."""
        line = self.last
        return line is not None and line.what in HOLDING

    def has(self, baton: str, fence: int) -> bool:
        """Whether it is this very hold that it has, as far as it knows."""
        line = self.last
        return (
            line is not None and line.what in HOLDING and (line.baton, line.fence) == (baton, fence)
        )

    @property
    def waits(self) -> bool:
        """Whether it waits for one."""
        line = self.last
        return line is not None and line.what is What.ASKED

    def insist(self) -> None:
        """It holds on to what it has."""
        os.kill(self._process.pid, signal.SIGUSR1)


class Crowd(members.Members[Member]):
    """All workers of a run, those that have ended too."""

    def __init__(self, plan: Plan, wires: Links | None = None) -> None:
        super().__init__()
        self._plan = plan
        self._wires = wires

    @property
    def running(self) -> list[Member]:
        """Those that live."""
        return [member for member in self.members if member.running]

    def start(self, number: int, life: int = 0) -> Member:
        """One more process."""
        home = self._wires.home(home_of(number)) if self._wires else HERE
        member = Member(self._plan, Life(number, life), home)
        self.members.append(member)
        return member
