"""What the anchor asks of all homes in a phase, and what they answer (rules 6 to 9)."""

from collections.abc import Sequence
from heapq import merge
from itertools import islice, pairwise
from typing import Annotated, Final

import msgspec

from snowmelt.protocols.select import steps
from snowmelt.protocols.select.elements import Element
from snowmelt.protocols.select.steps import Bounds, Count, Draw, Drawn, Ranks, Sort

SHOWN_MAX: Final = 64
"""So many elements one message carries (rule 7)."""
SAMPLE: Final = 64
"""So many are sorted at once (rule 8)."""

Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
"""Of a phase, or of a rank: what is counted on from it is a number of 64 bits still."""
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
    hungry: bool = False
    """Whether somebody waits for more than there were."""
    count: Count | None = None
    """Where one home has everything: so many, the least of them, or all there are (rule 6)."""
    patient: bool = False
    """Then: whether somebody waits if there are fewer."""


class Release(msgspec.Struct, frozen=True, tag="seap.release", array_like=True):
    """The phase is over, and nothing is taken."""

    hungry: bool = False


Step = Begin | Ranks | Draw | Sort | Choose | Assign | Release

# --- answers --------------------------------------------------------------------------------------


class Least(msgspec.Struct, frozen=True, tag="seap.least", array_like=True):
    """How many homes and elements there are, and the least of them: as many as were asked for."""

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
    if len(answers) == 1:  # of the one home that there is
        return first
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


def follows(step: Step, last: Answer | None) -> bool:
    """Whether it may be asked of homes that answered this to the step before.

    >>> follows(Begin(7, 1), None), follows(Release(), None), follows(Release(), Heard())
    (True, False, False)
    """
    match step:
        case Begin():
            return True
        case Sort():
            return isinstance(last, Drawn)
        case Assign():
            return isinstance(last, Least | Chosen)
        case _:
            return last is not None and not isinstance(last, Heard)


def answers(answer: Answer, step: Step) -> bool:
    """Whether it is an answer to this step.

    >>> answers(Heard(), Release()), answers(Chosen(3), Release())
    (True, False)
    >>> row = (Element(1, 1), Element(1, 2))
    >>> [answers(Least(1, 5, 2, some), Begin(7, 2)) for some in (row, row[::-1], row[:1])]
    [True, False, False]
    """
    match step, answer:
        case Begin(_, limit), Least(nodes, elements, told, least):
            rising = all(one < other for one, other in pairwise(least))
            return nodes > 0 and told == limit and len(least) == min(limit, elements) and rising
        case Sort(), Sample(elements):
            return all(one < other for one, other in pairwise(elements))
        case (
            (Ranks(), Bounds())
            | (Draw(), Drawn())
            | (Choose(), Chosen())
            | ((Assign() | Release()), Heard())
        ):
            return True
        case _:
            return False


def decomposed(step: Step, answers: Sequence[Answer]) -> list[Step]:
    """The same for all; of the ranks each as many as it has elements up to the bound (rule 9).

    >>> rows = [Least(1, 3, 2, (Element(1, 1), Element(4, 2))), Least(1, 1, 2, (Element(3, 3),))]
    >>> [one.start for one in decomposed(Assign(10, Element(3, 3)), rows)]
    [10, 11]
    """
    if type(step) is not Assign:
        return [step] * len(answers)
    parts: list[Step] = []
    start = step.start
    for one in answers:
        parts.append(msgspec.structs.replace(step, start=start))
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
