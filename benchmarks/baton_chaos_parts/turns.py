"""All journals together, turn by turn."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.baton_chaos_parts.crowd import Life
from benchmarks.baton_chaos_parts.journal import Line, What
from benchmarks.chaos.journals import read

NEVER: Final = 1 << 63


class Change(msgspec.Struct, frozen=True):
    """A holder set a value."""

    value: str
    sure: bool
    """Whether it was told so; otherwise it may have been heard, or not."""
    saved: bool


class Refusal(msgspec.Struct, frozen=True):
    """The guard knew a larger fence."""

    checked: int
    at: int


class Turn(msgspec.Struct, kw_only=True):
    """One wish, and the hold that came of it; times are 0 for what never came."""

    who: str
    baton: str
    asked: int
    granted: int = 0
    fence: int = 0
    made: int = 0
    value: str = ""
    changes: list[Change] = []
    believed: list[int] = []
    """Moments at which it asked whether it holds, and was told so."""
    refusals: list[Refusal] = []
    forks: int = 0
    let_go: int = 0
    """When it began to give the baton up, or learnt that it had lost it."""
    ended: int = 0
    end: What | None = None
    """None for one whose worker was killed before."""

    @property
    def waited_until(self) -> int:
        """When the waiting was over, one way or the other."""
        return self.granted or self.ended or NEVER

    @property
    def held_until(self) -> int:
        """When the hold was over, as its worker had it."""
        return self.let_go or self.ended or NEVER


def read_turns(folder: Path, lives: Iterable[Life]) -> list[Turn]:
    """Every turn of everybody."""
    return [
        turn for life in lives for turn in turns_of(life, read(folder / f"{life.name}.jsonl", Line))
    ]


def turns_of(life: Life, lines: Iterable[Line]) -> Iterator[Turn]:
    """One worker's."""
    turn: Turn | None = None
    begun: Line | None = None
    for line in lines:
        if line.what is What.ASKED:
            turn = Turn(who=life.name, baton=line.baton, asked=line.at)
            continue
        if turn is None:
            continue
        begins = line.what in {What.SAVING, What.RELEASING}
        begun = line if begins else _settle(turn, begun, line)
        if _over(turn, line):
            yield turn
            turn = None
    if turn is not None:
        if begun is not None:
            turn.changes.append(Change(begun.value, sure=False, saved=False))
        turn.ended = life.killed
        yield turn


def _settle(turn: Turn, begun: Line | None, line: Line) -> Line | None:
    """A save or a release that had begun is over."""
    if begun is None or line.what not in {What.SAVED, What.RELEASED, What.UNSURE, What.LOST}:
        return begun
    sure = line.what in {What.SAVED, What.RELEASED}
    turn.changes.append(Change(begun.value, sure=sure, saved=line.what is What.SAVED))
    if sure:
        turn.believed.append(begun.at)
    return None


def _over(turn: Turn, line: Line) -> bool:
    """Takes a line in; whether it was the turn's last."""
    match line.what:
        case What.GRANTED:
            turn.granted, turn.fence = line.at, line.fence
            turn.made, turn.value = line.made, line.value
        case What.ACTED:
            turn.believed.append(line.checked)
        case What.REFUSED:
            turn.believed.append(line.checked)
            turn.refusals.append(Refusal(line.checked, line.at))
        case What.FORKED:
            turn.forks += 1
        case What.RELEASING:
            turn.let_go = line.at
        case What.DENIED | What.FAILED | What.RELEASED | What.UNSURE | What.LOST:
            turn.ended, turn.end = line.at, line.what
            return True
        case _:
            pass
    return False


def by_fence(turns: Iterable[Turn]) -> dict[str, list[Turn]]:
    """The holds of each baton, in the order of their fences."""
    found: dict[str, list[Turn]] = {}
    for turn in sorted((one for one in turns if one.granted), key=lambda one: one.fence):
        found.setdefault(turn.baton, []).append(turn)
    return found
