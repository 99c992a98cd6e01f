"""How long puts and gets took, all their tries together."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from snowmelt_world.check import Ended, Kind, Operation
from snowmelt_world.storms.events import SECOND, Done

BACK: Final = 3 * SECOND
"""So many nanoseconds who was hit needs to be there again: a process starts, and is sent what it
lacks."""


class ClientWait(msgspec.Struct, frozen=True):
    """One call: a put, or a get that brought something."""

    kind: Kind
    called: int
    seconds: float


def is_put(one: Operation) -> bool:
    return one.kind is Kind.PUT and one.ended is Ended.SUCCEEDED


def waits_of(recorded: Iterable[Operation]) -> list[ClientWait]:
    """Of all that was recorded.

    A get of unknown outcome goes on with the same client's next; one that found the queue empty
    ends there, and tells nothing.
    """
    waits: list[ClientWait] = []
    begun: dict[str, int] = {}
    for one in sorted(recorded, key=_returned):
        if is_put(one):
            waits.append(ClientWait(Kind.PUT, one.called, (_returned(one) - one.called) / SECOND))
        if one.kind is not Kind.GET:
            continue
        since = begun.setdefault(one.process, one.called)
        if one.ended is Ended.SUCCEEDED:
            del begun[one.process]
            if one.values:
                waits.append(ClientWait(Kind.GET, since, (_returned(one) - since) / SECOND))
    return waits


def longest(waits: Iterable[ClientWait], *kinds: Kind) -> float:
    return round(max((one.seconds for one in waits if one.kind in kinds), default=0.0), 2)


def untouched(waits: Iterable[ClientWait], hurts: Sequence[Done]) -> list[ClientWait]:
    """Those that met nothing that was done, nor the time in which who was hit comes back."""
    return [
        one
        for one in waits
        if all(
            one.called > hurt.span.stop + BACK
            or one.called + one.seconds * SECOND < hurt.span.start
            for hurt in hurts
        )
    ]


def _returned(one: Operation) -> int:
    return one.called if one.returned is None else one.returned
