"""What the anchor asks of all nodes in a phase, and what they answer (rules 6 to 9)."""

from collections.abc import Sequence
from heapq import merge
from itertools import islice
from typing import Annotated, Final

import msgspec

from snowmelt_lab.machines.select import steps
from snowmelt_lab.machines.select.elements import Element
from snowmelt_lab.machines.select.steps import Bounds, Count, Draw, Drawn, Ranks, Sort

SHOWN_MAX: Final = 64
"""So many elements one message carries (rule 7)."""
SAMPLE: Final = 64
"""So many are sorted at once (rule 8)."""

Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
"""Of a phase, or of a rank."""
Shown = Annotated[tuple[Element, ...], msgspec.Meta(max_length=4 * SHOWN_MAX)]

# --- steps ----------------------------------------------------------------------------------------


class Begin(msgspec.Struct, frozen=True, tag="seap.begin", array_like=True):
    """Nothing comes in from now on; tell how many you have, and the least of them."""

    phase: Number
    least: Annotated[int, msgspec.Meta(ge=0, le=SHOWN_MAX)]


class Choose(msgspec.Struct, frozen=True, tag="seap.choose", array_like=True):
    """Tell how many you have up to this one."""

    upto: Element


class Assign(msgspec.Struct, frozen=True, tag="seap.assign", array_like=True):
    """Those up to this one, or all, are taken, and have their ranks from here on."""

    start: Number
    upto: Element | None = None


class Release(msgspec.Struct, frozen=True, tag="seap.release", array_like=True):
    """The phase is over, and nothing is taken."""


Step = Begin | Ranks | Draw | Sort | Choose | Assign | Release

# --- answers --------------------------------------------------------------------------------------


class Least(msgspec.Struct, frozen=True, tag="seap.least", array_like=True):
    """How many nodes and elements there are, and the least of them: as many as were asked for."""

    nodes: Count
    elements: Count
    limit: Annotated[int, msgspec.Meta(ge=0, le=SHOWN_MAX)]
    least: Shown = ()


class Sample(msgspec.Struct, frozen=True, tag="seap.sample", array_like=True):
    """What was drawn, in its order (rule 8)."""

    elements: Shown = ()


class Chosen(msgspec.Struct, frozen=True, tag="seap.chosen", array_like=True):
    """So many are not above the bound."""

    count: Count


class Heard(msgspec.Struct, frozen=True, tag="seap.heard", array_like=True):
    """It is so."""


Answer = Least | Bounds | Drawn | Sample | Chosen | Heard


def combined(answers: Sequence[Answer]) -> Answer:
    """One answer for several to the same step.

    >>> rows = [Least(1, 5, 2, (Element(1, 1), Element(4, 2))), Least(1, 1, 2, (Element(3, 3),))]
    >>> told = combined(rows); told.elements, [one.priority for one in told.least]
    (6, [1, 3])
    """
    first = answers[0]
    match first:
        case Least():
            rows = [one for one in answers if isinstance(one, Least)]
            least = islice(merge(*[one.least for one in rows]), first.limit)
            nodes, elements = sum(one.nodes for one in rows), sum(one.elements for one in rows)
            return Least(nodes, elements, first.limit, tuple(least))
        case Sample():
            samples = [one.elements for one in answers if isinstance(one, Sample)]
            return Sample(tuple(merge(*samples)))
        case Chosen():
            return Chosen(sum(one.count for one in answers if isinstance(one, Chosen)))
        case Heard():
            return first
        case Bounds() | Drawn():
            both = [one for one in answers if isinstance(one, Bounds | Drawn)]
            answer = steps.combined(both)
            assert isinstance(answer, Bounds | Drawn), f"{both} make {answer}"
            return answer


def decomposed(step: Step, answers: Sequence[Answer]) -> list[Step]:
    """The same for all; of the ranks each as many as it has elements up to the bound (rule 9).

    >>> rows = [Least(1, 3, 2, (Element(1, 1), Element(4, 2))), Least(1, 1, 2, (Element(3, 3),))]
    >>> [one.start for one in decomposed(Assign(10, Element(3, 3)), rows)]
    [10, 11]
    """
    if not isinstance(step, Assign):
        return [step] * len(answers)
    parts: list[Step] = []
    start = step.start
    for one in answers:
        parts.append(Assign(start, step.upto))
        start += _taken(step.upto, one)
    return parts


def _taken(upto: Element | None, answer: Answer) -> int:
    match answer:
        case Chosen(count):
            return count
        case Least():
            if upto is None:
                return answer.elements
            return sum(one <= upto for one in answer.least)
        case _:
            raise AssertionError(f"ranks are given after {answer}")
