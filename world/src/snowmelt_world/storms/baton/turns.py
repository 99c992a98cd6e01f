"""All journals together, turn by turn."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from snowmelt_world.storms.baton.journal import BatonLine, BatonStep
from snowmelt_world.storms.crowd import ClientLife
from snowmelt_world.storms.journals import read

NEVER: Final = 1 << 63


class ValueChange(msgspec.Struct, frozen=True):
    """A holder set a value."""

    value: str
    sure: bool
    """Whether it was told so; otherwise it may have been heard, or not."""
    saved: bool


class GuardRefusal(msgspec.Struct, frozen=True):
    """The guard knew a larger fence."""

    checked: int
    at: int


class HeldTurn(msgspec.Struct, kw_only=True):
    """One wish, and the hold that came of it; times are 0 for what never came."""

    who: str
    baton: str
    asked: int
    granted: int = 0
    fence: int = 0
    made: int = 0
    value: str = ""
    changes: list[ValueChange] = []
    believed: list[int] = []
    """Moments at which it asked whether it holds, and was told so."""
    refusals: list[GuardRefusal] = []
    forks: int = 0
    let_go: int = 0
    """When it began to give the baton up, or learnt that it had lost it."""
    ended: int = 0
    end: BatonStep | None = None
    """None for one whose worker was killed before."""

    @property
    def waited_until(self) -> int:
        """When the waiting was over, one way or the other."""
        return self.granted or self.ended or NEVER

    @property
    def held_until(self) -> int:
        """When the hold was over, as its worker had it."""
        return self.let_go or self.ended or NEVER


def read_turns(folder: Path, lives: Iterable[ClientLife]) -> list[HeldTurn]:
    """Every turn of everybody."""
    return [
        turn
        for life in lives
        for turn in turns_of(life, read(folder / f"{life.name}.jsonl", BatonLine))
    ]


def turns_of(life: ClientLife, lines: Iterable[BatonLine]) -> Iterator[HeldTurn]:
    """One worker's."""
    turn: HeldTurn | None = None
    begun: BatonLine | None = None
    for line in lines:
        if line.what is BatonStep.ASKED:
            turn = HeldTurn(who=life.name, baton=line.baton, asked=line.at)
            continue
        if turn is None:
            continue
        begins = line.what in {BatonStep.SAVING, BatonStep.RELEASING}
        begun = line if begins else _settle(turn, begun, line)
        if _over(turn, line):
            yield turn
            turn = None
    if turn is not None:
        if begun is not None:
            turn.changes.append(ValueChange(begun.value, sure=False, saved=False))
        turn.ended = life.killed
        yield turn


def _settle(turn: HeldTurn, begun: BatonLine | None, line: BatonLine) -> BatonLine | None:
    """A save or a release that had begun is over."""
    if begun is None or line.what not in {
        BatonStep.SAVED,
        BatonStep.RELEASED,
        BatonStep.UNSURE,
        BatonStep.LOST,
    }:
        return begun
    sure = line.what in {BatonStep.SAVED, BatonStep.RELEASED}
    turn.changes.append(ValueChange(begun.value, sure=sure, saved=line.what is BatonStep.SAVED))
    if sure:
        turn.believed.append(begun.at)
    return None


def _over(turn: HeldTurn, line: BatonLine) -> bool:
    """Takes a line in; whether it was the turn's last."""
    match line.what:
        case BatonStep.GRANTED:
            turn.granted, turn.fence = line.at, line.fence
            turn.made, turn.value = line.made, line.value
        case BatonStep.ACTED:
            turn.believed.append(line.checked)
        case BatonStep.REFUSED:
            turn.believed.append(line.checked)
            turn.refusals.append(GuardRefusal(line.checked, line.at))
        case BatonStep.FORKED:
            turn.forks += 1
        case BatonStep.RELEASING:
            turn.let_go = line.at
        case (
            BatonStep.DENIED
            | BatonStep.FAILED
            | BatonStep.RELEASED
            | BatonStep.UNSURE
            | BatonStep.LOST
        ):
            turn.ended, turn.end = line.at, line.what
            return True
        case _:
            pass
    return False


def by_fence(turns: Iterable[HeldTurn]) -> dict[str, list[HeldTurn]]:
    """The holds of each baton, in the order of their fences."""
    found: dict[str, list[HeldTurn]] = {}
    for turn in sorted((one for one in turns if one.granted), key=lambda one: one.fence):
        found.setdefault(turn.baton, []).append(turn)
    return found
