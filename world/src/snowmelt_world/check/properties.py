"""Every property that can be checked, by name."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt_world.check import fifo, fifo_leased, fifo_witness, heap, leases, sequence
from snowmelt_world.check.conservation import check_conservation
from snowmelt_world.check.fifo import check_fifo
from snowmelt_world.check.fifo_leased import check_fifo_leased
from snowmelt_world.check.fifo_witness import check_fifo_witness
from snowmelt_world.check.heap import check_heap
from snowmelt_world.check.history import History, Operation
from snowmelt_world.check.leases import check_leases
from snowmelt_world.check.rules import Rule
from snowmelt_world.check.sequence import check_linear, check_sequence
from snowmelt_world.check.verdict import Undecided, Valid, Verdict
from snowmelt_world.check.views import (
    AGREEMENT,
    MONOTONY,
    check_view_agreement,
    check_view_monotony,
)

Found = TypeVar("Found")


class Property(msgspec.Struct, frozen=True):
    """A check and what it asks, in a line."""

    check: Callable[[History], Verdict]
    description: str
    rules: tuple[Rule, ...] = ()
    """The check in parts. Only conservation has none: it counts, and counts add up."""


PROPERTIES: Final[dict[str, Property]] = {
    "conservation": Property(
        check_conservation,
        "nothing is lost, invented, or delivered after it was acknowledged",
    ),
    "fifo": Property(
        check_fifo,
        "first in, first out, as seen from outside; values are distinct and got once",
        fifo.RULES,
    ),
    "fifo_leased": Property(
        check_fifo_leased,
        "first in, first out, up to each item's first delivery, and again once it was given back",
        fifo_leased.RULES,
    ),
    "fifo_witness": Property(
        check_fifo_witness,
        "first in, first out, in the order of the positions that the product gave",
        fifo_witness.RULES,
    ),
    "sequence": Property(
        check_sequence,
        "in the order that the product told, each client's own operations are in its own order",
        sequence.RULES,
    ),
    "linear": Property(
        check_linear,
        "in the order that the product told, what was answered comes before what was called then",
        sequence.LINEAR_RULES,
    ),
    "heap": Property(
        check_heap,
        "most urgent first, in the order that the product told; what comes again is exempt",
        heap.RULES,
    ),
    "leases": Property(
        check_leases,
        "each element stands at one place, and has one holder at a time",
        leases.RULES,
    ),
    "view_agreement": Property(
        check_view_agreement,
        "whoever saw an epoch saw the same members in it",
        AGREEMENT,
    ),
    "view_monotony": Property(
        check_view_monotony,
        "no process saw an earlier epoch after a later one",
        MONOTONY,
    ),
}


USUAL: Final = ("conservation", "fifo")
USUAL_OF_PRIORITIES: Final = ("conservation", "sequence", "heap", "leases")


def usual(history: History) -> tuple[str, ...]:
    """What is judged of a history of which nobody says what to judge.

    >>> usual(History.of([]))
    ('conservation', 'fifo')
    """
    return usual_if(ordered=any(one.priorities or one.orders for one in history))


def usual_if(*, ordered: bool) -> tuple[str, ...]:
    return USUAL_OF_PRIORITIES if ordered else USUAL


def check_history(history: History, properties: Iterable[str]) -> list[Verdict]:
    """One verdict for each property named, in that order.

    >>> check_history(History.of([]), ["fifo", "conservation"])[0]
    Valid(property='fifo', report=None)
    >>> check_history(History.of([]), ["lifo"])
    Traceback (most recent call last):
        ...
    snowmelt.core.errors.BadOption: property is 'lifo'; allowed: conservation, fifo, \
fifo_leased, fifo_witness, sequence, linear, heap, leases, view_agreement, view_monotony
    """
    checks = {name: PROPERTIES[name].check for name in known(properties)}
    return [shown_once(unbroken(name, check, history)) for name, check in checks.items()]


def known(properties: Iterable[str]) -> list[str]:
    """These, if all are."""
    names = list(properties)
    for name in names:
        if name not in PROPERTIES:
            raise BadOption("property", name, ", ".join(PROPERTIES))
    return names


def unbroken(name: str, check: Callable[[History], Found], history: History) -> Found | Undecided:
    """A check that broke has judged nothing."""
    try:
        return check(history)
    except Exception as error:
        return Undecided(name, f"the check broke: {type(error).__name__}: {error}")


def shown_once(verdict: Verdict) -> Verdict:
    """An operation that breaks a rule alone is shown once."""
    if isinstance(verdict, Valid):
        return verdict
    example: list[Operation] = []
    for one in verdict.example:
        if not any(one is other for other in example):
            example.append(one)
    return msgspec.structs.replace(verdict, example=tuple(example))
