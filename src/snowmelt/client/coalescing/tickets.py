"""What callers ask, and how it is cut into calls (rule 3)."""

from collections.abc import Hashable, Sequence
from typing import Any

import msgspec

from snowmelt.core.instant import Instant


class Ticket(msgspec.Struct, frozen=True, eq=False):
    number: int
    what: Any
    key: Hashable
    weight: int
    until: Instant
    """When its time is over."""


class Bundle(msgspec.Struct, frozen=True, eq=False):
    number: int
    key: Hashable
    tickets: tuple[Ticket, ...]


def cut(waiting: Sequence[Ticket], worth: int, *, ordered: bool) -> list[list[Ticket]]:
    """Calls of one key each and no more than a call's worth, unless one ticket is."""
    calls: list[list[Ticket]] = []
    weights: dict[Hashable, int] = {}
    ends: dict[Hashable, list[Ticket]] = {}
    before: Hashable = None
    for each in waiting:
        key = each.key
        call = ends.get(key)
        joins = call is not None and weights[key] + each.weight <= worth
        if call is None or not joins or (ordered and key != before):
            calls.append([each])
            ends[key], weights[key] = calls[-1], each.weight
        else:
            call.append(each)
            weights[key] += each.weight
        before = key
    return calls
