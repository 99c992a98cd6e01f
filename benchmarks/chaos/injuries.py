"""What a storm does to processes, links and disks, and how each of it ends."""

import os
import signal
from contextlib import suppress
from enum import StrEnum
from random import Random
from typing import Final

import msgspec


class Kind(StrEnum):
    """The kinds of injuries."""

    KILL = "kill"
    """A node is killed, and started again half a second later."""
    STOP = "stop"
    """A node stands still, mostly for longer than it takes to be missed, and goes on."""
    FREEZE = "freeze"
    """A process of clients stands still for longer than a lease, and goes on."""
    CUT = "cut"
    """Two nodes don't hear each other, or one does not hear the other; all else passes."""
    SEVER = "sever"
    """A process of clients hears only some of the nodes."""
    FULL = "full"
    """A node's disk is full to the last byte."""
    FAIL = "fail"
    """A node's disk refuses every write; the node must end by itself, and is started again."""


SECONDS: Final = {
    Kind.KILL: (0.5, 0.5),
    Kind.STOP: (0.5, 15.0),
    Kind.FREEZE: (6.0, 12.0),
    Kind.CUT: (1.0, 30.0),
    Kind.SEVER: (1.0, 20.0),
    Kind.FULL: (2.0, 10.0),
    Kind.FAIL: (15.0, 15.0),
}
"""For how long at least and at most; of a failing disk, until it must have been noticed."""
ONE_WAY: Final = 0.3


class Injury(msgspec.Struct, frozen=True, kw_only=True):
    """One that is on: what, whose, with what, and until when by the clock of the program."""

    kind: Kind
    whose: str
    until: float
    pid: int = 0
    cuts: tuple[tuple[str, str], ...] = ()


def lasting(kind: Kind, chance: Random) -> float:
    """For how many seconds one of this kind lasts."""
    return chance.uniform(*SECONDS[kind])


def stop(pid: int) -> None:
    """The process stands still."""
    os.kill(pid, signal.SIGSTOP)


def go_on(pid: int) -> None:
    """It goes on, if it was not killed meanwhile."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
