"""Walks a small world breadth first: every state once, so the first story that breaks is short."""

from collections.abc import Callable
from typing import Final

import msgspec

from snowmelt_world.explore.moves import Move, SmallWorld, State

STATES_MAX: Final = 1_000_000
TELL_EVERY: Final = 2_000

Progress = Callable[[int, int, int], None]
"""How many states were met, how deep, and how many of them are still to be looked at."""


class Found(msgspec.Struct, frozen=True):
    """A story that breaks something, by the words of its moves."""

    sentence: str
    words: tuple[str, ...]


class Exploration(msgspec.Struct, frozen=True):
    states: int
    moves: int
    machines: int
    """How many states of single machines there were."""
    depth: int
    """How many moves the longest of the shortest ways has."""
    complete: bool
    """Whether there are no other states."""
    bad: tuple[Found, ...] = ()


class Walk:
    def __init__(self, world: SmallWorld, *, depth_max: int | None, states_max: int) -> None:
        self._world = world
        self._depth_max = depth_max
        self._states_max = states_max
        self._met: dict[State, int] = {}
        self._from: list[tuple[int, str]] = []
        self._moves = 0

    def explore(self, tell: Progress | None = None) -> Exploration:
        """Goes to the end, to a bound, or to what breaks first."""
        self._meet(self._world.opening(), 0, "")
        level, depth = [self._world.opening()], 0
        while level and (self._depth_max is None or depth < self._depth_max):
            deeper: list[State] = []
            for done, state in enumerate(level):
                if tell is not None and done % TELL_EVERY == 0:
                    tell(len(self._met), depth, len(level) - done + len(deeper))
                at = self._met[state]
                for move in self._world.moves(state):
                    self._moves += 1
                    if move.state is None:
                        return self._came_to(depth + 1, found=self._found(at, move))
                    if move.state not in self._met:
                        self._meet(move.state, at, move.words)
                        deeper.append(move.state)
                if len(self._met) >= self._states_max:
                    return self._came_to(depth + 1)
            level, depth = deeper, depth + bool(deeper)
        return self._came_to(depth, complete=not level)

    def _meet(self, state: State, before: int, words: str) -> None:
        self._met[state] = len(self._from)
        self._from.append((before, words))

    def _found(self, at: int, last: Move) -> Found:
        words = [last.words]
        while at:
            at, word = self._from[at]
            words.append(word)
        return Found(last.broken, tuple(reversed(words)))

    def _came_to(
        self, depth: int, *, complete: bool = False, found: Found | None = None
    ) -> Exploration:
        return Exploration(
            states=len(self._met),
            moves=self._moves,
            machines=self._world.machines.count,
            depth=depth,
            complete=complete,
            bad=() if found is None else (found,),
        )


def explored(
    world: SmallWorld,
    *,
    depth_max: int | None = None,
    states_max: int = STATES_MAX,
    tell: Progress | None = None,
) -> Exploration:
    return Walk(world, depth_max=depth_max, states_max=states_max).explore(tell)
