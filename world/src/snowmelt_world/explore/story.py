"""A story as a script: one move a line, which can be played again, on this code or on another.

A move with `?` behind it is made where it can be, and else passed over: so a script that is kept
bears that a machine begins to write something down that it did not before.
"""

from collections.abc import Iterable

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import spelled
from snowmelt_world.explore.moves import Move, SmallWorld, State
from snowmelt_world.trace import brief

WIDTH = 28
SHOWN = 4


class Told(msgspec.Struct, frozen=True):
    lines: tuple[str, ...]
    broken: str = ""
    """What it broke; nothing when all went well."""
    refused: str = ""
    """The first of its moves that can't be made here."""
    possible: tuple[str, ...] = ()
    """Those that can be made instead."""


def played(world: SmallWorld, words: Iterable[str]) -> Told:
    """Plays a script, as far as it goes."""
    state = world.opening()
    lines: list[str] = []
    for word in words:
        moves = {one.words: one for one in world.moves(state)}
        move = moves.get(word.removesuffix("?"))
        if move is None and word.endswith("?"):
            continue
        if move is None:
            return Told(tuple(lines), refused=word, possible=tuple(moves))
        lines += _lines(state, move)
        if move.state is None:
            return Told(tuple(lines), broken=move.broken)
        state = move.state
    return Told(tuple(lines))


def scripted(text: str) -> tuple[str, ...]:
    r"""The moves of a script; the rest of a line behind `#` is for people.

    >>> scripted("start n1  # it begins\n\n# and so on")
    ('start n1',)
    """
    lines = (line.split("#", 1)[0].strip() for line in text.splitlines())
    words = tuple(line for line in lines if line)
    if not words:
        raise BadOption("script", text[:60], "one move a line, as a story is printed")
    return words


def _lines(state: State, move: Move) -> list[str]:
    lines: list[str] = []
    for step in move.steps:
        effects = [brief(one) for one in step.effects[:SHOWN]]
        more = len(step.effects) - SHOWN
        if more > 0:
            effects.append(f"{more} more")
        came = ", ".join(effects) or "nothing"
        text = f"{spelled(state.now)} {step.process.node}: {brief(step.event)} -> {came}"
        lines.append(f"{'' if lines else move.words:<{WIDTH}}# {text}")
    if not lines:
        lines.append(f"{move.words:<{WIDTH}}# {spelled(state.now)}")
    if move.broken:
        lines.append(f"{'':<{WIDTH}}# broken: {move.broken}")
    return lines
