"""What the anchor asks and what nodes answer: grants and batches of the overlay (rules 3 to 7)."""

from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Final

import msgspec

from snowmelt_lab.machines.select.elements import Element, Window

SURE: Final = 1 << 32
"""The chance that draws every element."""

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
"""Of all elements, or of some; so many nodes may be added up and stay whole numbers of 64 bits."""
Chance = Annotated[int, msgspec.Meta(ge=0, le=SURE)]

# --- answers --------------------------------------------------------------------------------------


class Counts(msgspec.Struct, frozen=True, tag="select.counts", array_like=True):
    """How many nodes there are, and elements."""

    nodes: Count
    elements: Count


class Bounds(msgspec.Struct, frozen=True, tag="select.bounds", array_like=True):
    """Two elements, one on each side, of those that are known; the outermost of several."""

    low: Element | None = None
    high: Element | None = None


class Drawn(msgspec.Struct, frozen=True, tag="select.drawn", array_like=True):
    """How many candidates lie before the narrower window, behind it, and are drawn from it."""

    before: Count
    behind: Count
    drawn: Count


Answer = Counts | Bounds | Drawn

# --- steps ----------------------------------------------------------------------------------------


class Ranks(msgspec.Struct, frozen=True, tag="select.ranks", array_like=True):
    """Tell the candidates round place k c / candidates, c being how many you have (rule 17)."""

    candidates: Window
    k: Count
    count: Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]
    least: Count
    """Who has fewer tells none."""


class EqualRanks(msgspec.Struct, frozen=True, tag="select.equal-ranks", array_like=True):
    """Tell the candidates at these places, the same for all (rule 20)."""

    candidates: Window
    low: Count
    high: Count


class Draw(msgspec.Struct, frozen=True, tag="select.draw", array_like=True):
    """Count what is before and behind the narrower window, and draw from it (rule 4)."""

    candidates: Window
    cut: Window
    chance: Chance
    number: Count


class Sort(msgspec.Struct, frozen=True, tag="select.sort", array_like=True):
    """Sort what you have drawn, and tell what comes to be at these places (rule 5)."""

    number: Count
    """Of the draw."""
    start: Count
    """Your first element's number."""
    total: Count
    low: Count
    high: Count
    """0 when there is no such place to tell."""


class End(Enum):
    """How a selection ended."""

    FOUND = "found"
    NO_SUCH_RANK = "no such rank"
    ENDLESS = "nothing is removed any more"
    LOST = "the rank has left the candidates"


class Done(msgspec.Struct, frozen=True, tag="select.done", array_like=True):
    """No more is asked."""

    end: End
    elements: Count
    value: Element | None = None


Step = Ranks | EqualRanks | Draw | Sort | Done


def combined(answers: Sequence[Answer]) -> Answer:
    """One answer for several to the same step.

    >>> combined([Drawn(1, 2, 3), Drawn(10, 20, 30)])
    Drawn(before=11, behind=22, drawn=33)
    >>> combined([Bounds(), Bounds(Element(1, 1), Element(5, 1)), Bounds(Element(2, 1))]).low
    Element(priority=1, id=1)
    """
    first = answers[0]
    match first:
        case Counts():
            counts = [one for one in answers if isinstance(one, Counts)]
            return Counts(sum(one.nodes for one in counts), sum(one.elements for one in counts))
        case Drawn():
            drawn = [one for one in answers if isinstance(one, Drawn)]
            return Drawn(
                sum(one.before for one in drawn),
                sum(one.behind for one in drawn),
                sum(one.drawn for one in drawn),
            )
        case Bounds():
            bounds = [one for one in answers if isinstance(one, Bounds)]
            lows = [one.low for one in bounds if one.low is not None]
            highs = [one.high for one in bounds if one.high is not None]
            return Bounds(min(lows, default=None), max(highs, default=None))


def decomposed(step: Step, answers: Sequence[Answer]) -> list[Step]:
    """The same for all; of an interval of numbers, each as many as it drew (rule 5).

    >>> [one.start for one in decomposed(Sort(1, 1, 5, 2, 4), [Drawn(0, 0, 3), Drawn(0, 0, 2)])]
    [1, 4]
    """
    if not isinstance(step, Sort):
        return [step] * len(answers)
    shares: list[Step] = []
    start = step.start
    for one in answers:
        assert isinstance(one, Drawn), f"{step} answers {one}"
        shares.append(msgspec.structs.replace(step, start=start))
        start += one.drawn
    return shares
