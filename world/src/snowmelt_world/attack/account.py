"""The account of the honest items, from what the honest process wrote down; no node is asked."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

EACH_PRODUCER: Final = 1_000_000_000
"""Numbers of one producer begin at a multiple of it."""
SAID_MOST: Final = 5
"""Of one kind so many are named, and the rest counted."""
HEARD_LATE: Final = 10.0
"""Seconds that a get may be on its way to its leader."""


class Did(StrEnum):
    """What an honest client did, and how it ended."""

    PUT = "put"
    PUT_UNSURE = "put, unsure"
    PUT_REFUSED = "put refused"
    GOT = "got"
    GET_FAILED = "get failed"
    ACKED = "acked"
    ACK_UNSURE = "ack, unsure"
    ACK_REFUSED = "ack refused"
    PROBED = "probed"
    PROBE_FAILED = "probe failed"
    KEPT = "kept"
    KEPT_LOST = "kept, lost"


class Line(msgspec.Struct, frozen=True, array_like=True):
    """One line of the journal."""

    at: float
    did: Did
    number: int = 0
    text: str = ""
    took: float = 0.0


def read(file: Path) -> list[Line]:
    """All lines, but one that was cut off at its end."""
    lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
    return [msgspec.json.decode(one, type=Line) for one in lines if one.endswith(b"\n")]


def wrong_items(lines: Sequence[Line]) -> list[str]:
    """Items lost, doubled, made by nobody, or out of order; a sentence each.

    >>> put, got, acked = (Line(0.0, did, 1) for did in (Did.PUT, Did.GOT, Did.ACKED))
    >>> wrong_items([put, got, acked])
    []
    >>> wrong_items([put])
    ['1 items were put and never came: 1']
    >>> wrong_items([put, got, acked, got])
    ['1 items came again after their acknowledgement: 1']
    >>> wrong_items([got])
    ['1 items came that no honest client has put: 1']

    What a get took whose answer did not come is there again when its lease is over, behind others.
    A queue's leader may hear such a get after its client has given it up, as late as `HEARD_LATE`.

    >>> second, had, got = Line(0.0, Did.PUT, 2), Line(2.0, Did.GOT, 2), Line(3.0, Did.GOT, 1)
    >>> wrong_items([put, second, had, got])
    ['1 items came before others that were put first: 1']
    >>> wrong_items([put, second, Line(-9.0, Did.GET_FAILED), had, got])
    []
    """
    put, maybe = set[int](), set[int]()
    acked, came, again = set[int](), dict[int, float](), list[int]()
    failed, begun = list[float](), dict[int, float]()
    """When gets failed, and when puts began that returned."""
    for line in lines:
        match line.did:
            case Did.PUT:
                put.add(line.number)
                begun[line.number] = line.at - line.took
            case Did.PUT_UNSURE:
                maybe.add(line.number)
            case Did.GOT:
                if line.number in acked:
                    again.append(line.number)
                came.setdefault(line.number, line.at)
            case Did.GET_FAILED:
                failed.append(line.at)
            case Did.ACKED:
                acked.add(line.number)
    strange = [one for one in came if one not in put and one not in maybe]
    firsts = [one for one in came if one in put or one in maybe]
    crossed = [
        two
        for one, two in _in_turn(firsts)
        if two < one
        and two in begun
        and not any(begun[two] - HEARD_LATE <= at <= came[two] for at in failed)
    ]
    found = {
        "items were put and never came": sorted(put - came.keys()),
        "items came again after their acknowledgement": again,
        "items came that no honest client has put": strange,
        "items came before others that were put first": crossed,
    }
    return [_sentence(text, some) for text, some in found.items() if some]


def lost_of_others(lines: Iterable[Line]) -> list[str]:
    """What was laid down before the attack, and is not there any more."""
    return [line.text for line in lines if line.did is Did.KEPT_LOST]


def looked_at_all(lines: Iterable[Line], count: int) -> bool:
    """Whether the account came to its end."""
    return sum(line.did in (Did.KEPT, Did.KEPT_LOST) for line in lines) == count


def rate(lines: Iterable[Line], begin: float, end: float) -> float:
    """Acknowledged items a second."""
    done = sum(line.did is Did.ACKED and begin <= line.at < end for line in lines)
    return done / max(end - begin, 0.001)


def slow_probes(lines: Iterable[Line], begin: float, end: float, limit: float) -> list[str]:
    """Answers of single nodes that did not come in time."""
    found = [
        f"{line.text} after {line.took:.1f} s"
        for line in lines
        if begin <= line.at < end
        and (line.did is Did.PROBE_FAILED or (line.did is Did.PROBED and line.took > limit))
    ]
    rest = len(found) - SAID_MOST
    return [*found[:SAID_MOST], f"and {rest} more"] if rest > 0 else found


def longest_probe(lines: Iterable[Line], begin: float, end: float) -> float:
    some = (
        line.took
        for line in lines
        if line.did in (Did.PROBED, Did.PROBE_FAILED) and begin <= line.at < end
    )
    return round(max(some, default=0.0), 3)


def _in_turn(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """What came one after the other of the same producer."""
    last: dict[int, int] = {}
    for one in numbers:
        producer = one // EACH_PRODUCER
        if producer in last:
            yield last[producer], one
        last[producer] = one


def _sentence(text: str, numbers: Sequence[int]) -> str:
    named = ", ".join(map(str, numbers[:SAID_MOST]))
    return f"{len(numbers)} {text}: {named}{'…' * (len(numbers) > SAID_MOST)}"
