"""The account of turns: who held a baton and when, which numbers a counter gave, what was saved.

It is kept in a file, so that programs and their children write into one. A line is one word of one
process; each is written at once. In the end: no fence twice, no two hold at one time who both
believed in it until they let go, no number twice, and each value that was passed on is one that
somebody before left.
"""

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import snowmelt

PROMPT = 4.0
"""Seconds after which a baton that nobody holds is had again: less than a lease."""


class Turns:
    """The file, as one process writes and reads it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.touch()

    def _say(self, *words: object) -> None:
        line = " ".join(map(str, words)) + "\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    @contextmanager
    def within(self, held: Any) -> Iterator[Self]:
        """Somebody works under a baton, and believes in it until it is done."""
        begin, fence = time.monotonic_ns(), held.fence
        got = int(held.value or b"0")
        self._say("begin", fence, got)
        yield self
        held.value = b"%d" % (got + 1)
        held.check()
        self._say("held", fence, begin, time.monotonic_ns(), got)

    def passed(self, fence: int) -> None:
        """The release of this turn returned."""
        self._say("passed", fence)

    def took(self, numbers: Iterable[int]) -> None:
        """A counter gave these."""
        self._say("took", *numbers)

    def lines(self, word: str) -> list[list[int]]:
        """What was said of this."""
        found = [line.split() for line in self.path.read_text().splitlines()]
        return [list(map(int, rest)) for first, *rest in found if first == word]

    @property
    def numbers(self) -> list[int]:
        """All that a counter gave."""
        return [number for line in self.lines("took") for number in line]

    def check(self) -> None:
        """The account is exact."""
        twice = [number for number, count in Counter(self.numbers).items() if count > 1]
        assert twice == [], f"numbers that came twice: {twice[:10]}"
        held = sorted(self.lines("held"), key=lambda one: one[1])
        fences = [fence for fence, *_ in self.lines("begin")]
        assert len(set(fences)) == len(fences), "one fence for two"
        for before, after in pairwise(held):
            assert before[2] <= after[1], "two held it at a time, and both believed in it"
            assert before[0] < after[0], "fences grow"
        self._check_values()

    def _check_values(self) -> None:
        """Each turn that was passed on is in what comes after it."""
        got = {line[0]: line[1] for line in self.lines("begin")}
        passed = {fence for (fence,) in self.lines("passed")}
        least = 0
        for fence in sorted(got):
            assert got[fence] >= least, f"at {fence} a value was lost that had been passed on"
            if fence in passed:
                least = got[fence] + 1


def turn(baton: Any, turns: Turns) -> None:
    """One turn, in good order."""
    with baton as held, turns.within(held):
        fence = held.fence
    turns.passed(fence)


def had_soon(cluster: snowmelt.Cluster, name: str) -> None:
    """Nobody holds it who does not know."""
    begin = time.monotonic()
    with cluster.baton(name, timeout=20):
        assert time.monotonic() - begin < PROMPT, "nobody had it, and nobody could have it"
