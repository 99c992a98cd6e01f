"""Homes of queues from the folders of those who kept copies: the coordinator's disk is lost.

Rules:

1. Who keeps a copy has written down of which home it is, how far it is, and the latest term it
   was fenced for. The latest home that one of the folders knows is where the queue goes on from.
2. A home is active, and a step safe, only with `copies_needed` of its keepers. So where fewer disks
   are lost than that, a folder has a copy of the latest home that ever was active, all its safe
   steps are in the folders together, and each body is in one: nothing is missing. Such a queue is
   *whole*. A folder that has lost the record to a bad block counts as lost for that queue.
3. Where as many are lost, what lay on these disks alone is lost, be it some items, or all that was
   done since the queue went on without the folders that are named. Such a queue is *in part* there.
4. Of what no folder keeps a copy nothing is left but, perhaps, bodies, by which its name is
   known: it is *lost*. A queue with one replica at home on a lost disk may leave no trace at all.
5. The next home has a term far above all that the folders know. It is not active: its master, which
   has the newest copy of those named, seeks the newest of all who kept the last one, as after any
   failure (`queue/takeover.py`). So what it goes on with is decided where it always is, and leases,
   whose tokens begin with the term, are never given twice.
6. What a folder knows as deleted (`erasing.py`) stays so, unless another has a copy of a later
   queue of that name. A queue that was deleted while a folder was away, and of which none has heard
   that, comes back. A folder that had a copy, and was left out of a home, has none: but it knows
   that home.
7. Queues that are made from now on begin with a term above all of these, for one of that name may
   have been lost without a trace, and its leases still be in somebody's hands.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

import msgspec

from snowmelt.core.errors import StoreDamaged
from snowmelt.core.record import BULK, Change, Record, Write, decoded
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.messages.home_words import Assignment, buried
from snowmelt.protocols.queue.store.copy import COPY, HOME, RECORD, TWIN, kept_in
from snowmelt.protocols.queue.streams import node_of

TERMS_LEFT_OUT: Final = 1 << 12
"""By so many a term leaps. There is room for a thousand such leaps (`messages.TERM_MAX`)."""
FIRST_TERM: Final = (b"f", b"g")
"""The records, twice, of the term with which new queues begin; 1 where there is none."""


class CopyCondition(Enum):
    WHOLE = "whole"
    PART = "in part"
    LOST = "lost"
    DELETED = "deleted"


class Trace(msgspec.Struct, frozen=True):
    """What one folder has of one queue."""

    queue: str
    keeper: str
    run: str
    """The last run of the node that this is the folder of."""
    term: int = 0
    step: int = 0
    fence: int = 0
    home: Assignment | None = None
    hurt: bool = False
    deleted: bool = False
    left: bool = False


class Housed(msgspec.Struct, frozen=True):
    """What becomes of one queue; `home` is None when it is lost."""

    queue: str
    left: CopyCondition
    last_term: int
    home: Assignment | None = None


def traces(
    keeper: str, run: str, records: Sequence[Record], damaged: Sequence[bytes]
) -> dict[str, Trace]:
    """By queue, from the small records of a disk; raises `StoreVersion` for another form."""
    found: dict[str, Trace] = {}
    for key in damaged:
        if key[:1] in (COPY, TWIN, RECORD):
            queue = key[1:].partition(b"\0")[0].decode()
            found[queue] = Trace(queue, keeper, run, hurt=True)
    for record in records:
        kind, (name, _, key) = record.key[:1], record.key[1:].partition(b"\0")
        queue = name.decode(errors="replace")
        trace = found.get(queue, Trace(queue, keeper, run))
        if kind in (COPY, TWIN):
            try:
                kept = kept_in(queue, record.value)
            except StoreDamaged:
                found[queue] = msgspec.structs.replace(trace, hurt=True)
                continue
            how_far = {
                "term": kept.head.term,
                "step": kept.head.step,
                "fence": kept.fence,
                "deleted": kept.deleted,
                "left": kept.left,
            }
            found[queue] = msgspec.structs.replace(trace, **how_far)
        elif kind == RECORD and key == HOME:
            try:
                home: Assignment = decoded(record.value, Assignment)
            except StoreDamaged:
                found[queue] = msgspec.structs.replace(trace, hurt=True)
            else:
                found[queue] = msgspec.structs.replace(trace, home=home)
    return found


def kept_at(found: Sequence[Trace]) -> dict[str, str]:
    """Nodes that the latest homes name as keepers, each with a queue that it keeps."""
    named: dict[str, str] = {}
    for trace in _by_queue(found).values():
        home = _latest(trace)
        if home is not None:
            named |= {node_of(one): home.queue for one in home.keepers}
    return named


def housed(
    found: Sequence[Trace],
    keepers: Sequence[str],
    lost: int,
    bodies: Sequence[str] = (),
) -> tuple[Housed, ...]:
    """Rules 1 to 5: of every queue that the folders know.

    `keepers` are those who will be there, the new coordinator's last; so many disks are lost;
    `bodies` are the queues of which some are left.
    """
    by_queue = _by_queue(found)
    there = [_housed(queue, by_queue[queue], keepers, lost) for queue in sorted(by_queue)]
    rest = sorted({*bodies} - {*by_queue})
    return (*there, *(Housed(queue, CopyCondition.LOST, 0) for queue in rest))


def first_term(houses: Sequence[Housed], known: int = 1) -> int:
    # Rule 7.
    return max([known, *(house.last_term for house in houses)]) + TERMS_LEFT_OUT


def written(houses: Sequence[Housed], first: int) -> tuple[Change, ...]:
    """As the coordinator's disk keeps homes (`homes.py`)."""
    changes: list[Change] = [Write(key, msgspec.msgpack.encode(first)) for key in FIRST_TERM]
    for house in houses:
        if house.home is not None:
            name, value = house.queue.encode(), msgspec.msgpack.encode(house.home)
            changes += [Write(b"h" + name, value), Write(b"i" + name, value)]
    return tuple(changes)


def body_range(after: str) -> tuple[bytes, bytes]:
    """Where the bodies lie of queues whose names come after this one."""
    begin = after.encode() + b"\1" if after else b"\1"
    return BULK + begin, BULK + b"\x7f"


def queue_of(body_key: bytes) -> str:
    return body_key.removeprefix(BULK).partition(b"\0")[0].decode(errors="replace")


def _by_queue(found: Sequence[Trace]) -> dict[str, list[Trace]]:
    queues: dict[str, list[Trace]] = {}
    for trace in found:
        queues.setdefault(trace.queue, []).append(trace)
    return queues


def _latest(found: Sequence[Trace]) -> Assignment | None:
    homes = [one.home for one in found if one.home is not None]
    return max(homes, key=lambda home: home.term, default=None)


def _housed(queue: str, found: list[Trace], keepers: Sequence[str], lost: int) -> Housed:
    last, home = max(max(one.term, one.fence) for one in found), _latest(found)
    deleted = max([one.fence for one in found if one.deleted], default=-1)
    if deleted >= (0 if home is None else home.since):  # rule 6
        grave = buried(queue, last + TERMS_LEFT_OUT)
        return Housed(queue, CopyCondition.DELETED, last, grave)
    copies = [one for one in found if one.home is not None and not (one.hurt or one.left)]
    if home is None or not copies:
        return Housed(queue, CopyCondition.LOST, last)
    last = max(last, home.term)
    best = max(copies, key=lambda one: (one.term, one.step))
    gone = lost + sum(one.hurt for one in found)
    left = CopyCondition.WHOLE if home.settings.copies_needed > gone else CopyCondition.PART
    mirrors = _mirrors(best.keeper, home.keepers, keepers, home.settings)
    term = last + TERMS_LEFT_OUT
    next_home = Assignment(
        queue,
        term,
        best.keeper,
        mirrors,
        home.settings,
        best.run,
        before=home.keepers,
        before_term=home.term,
        since=home.since,
        wanted=home.wanted,
        maker=home.maker,
    )
    return Housed(queue, left, last, next_home)


def _mirrors(
    master: str, old: tuple[str, ...], keepers: Sequence[str], settings: QueueSettings
) -> tuple[str, ...]:
    """Who mirrored and is there, then the others."""
    wanted = [*(one for one in old if one in keepers), *keepers, *old]
    return tuple(dict.fromkeys(one for one in wanted if one != master))[: settings.replicas - 1]
