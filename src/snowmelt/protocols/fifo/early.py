"""Puts that are admitted before they are copied: one flush on all disks instead of two in a row.

Where the node that takes a put in is its queue's master, and the mirrors can keep the body, nobody
has to wait for copies before the put is admitted. Rules:

1. Such a put is offered at once (`Offer`), as lying with this node and the mirrors. It is admitted
   in that very turn, or goes the usual way (`TooEarly`). The step that admits it carries its body
   to the mirrors, and each of them writes both in one flush.
2. It is told when its step is safe, and `copies_needed` of its keepers have said that they flushed
   the body: `Copied` speaks of the body, `Mirrored` of the step, and neither stands for the other.
   A mirror may have the step without the body: it had no room, or caught up.
3. Until all of them have said so, where it lies is in *doubt* (`doubts.py`). Every step tells
   below which position nothing is (`KeptStatus.whole`), so a new master knows what to doubt.
4. Who has not said so in time, and each that was named when the master is new, is asked to copy
   what is in doubt from the others (`doubting.py`): whoever has it has it from itself.
5. While something is in doubt, no repetition of it is told as put; it is to the node that stored
   it, once enough of those that are named have told that node.
   That node, too, is told nothing by a step that becomes safe after it has stopped waiting for
   those that were named: a step that is sent again has no bodies with it.
6. What is in doubt and nobody has was told to nobody, as long as fewer disks than `copies_needed`
   were lost. Its producer's number is forgotten with it, so that whoever asks again puts it anew.
   It counts as lost only where so many of its disks are lost, or have what can't be read.
7. Nothing is given from the first position on that too few are known to have; what lies behind it
   waits, or the order would be another. What nobody turns out to have comes anew under other
   positions, and a part of it may not have been acknowledged before. Nor would a group forget it:
   to that it would be lost. What enough have is known to a new master when it has asked them.
8. Where its master finds no room for the body after all, mirrors may have both body and step. So
   that it was not put is told when the step that takes it back is safe; until then nobody knows.
"""

from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.protocols.fifo.calls import Put
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.messages import Copy, Entry, Home

EARLY_BYTES: Final = 64 << 10
"""So much of a put travels with a step; what is larger has a message of its own."""
BODIES_BYTES: Final = 4 << 20
"""Of bodies that travel with one step: it must fit a frame."""
SAID_WITHIN: Final = milliseconds(300)
"""So long a keeper that was named may take to say that it has the body (rule 4)."""
LATE_FOR: Final = seconds(5)
"""So long nothing is put early where a keeper did not say so in time."""


class Offer(msgspec.Struct, frozen=True):
    """From this node to its own master: admit this, and send its body with the step (rule 1)."""

    queue: str
    stream: str
    entry: Entry
    low: int
    """As in `Admit`."""
    body: Copy


class TooEarly(msgspec.Struct, frozen=True):
    """It can't be admitted now: it is to be copied first, as usual."""

    queue: str
    first: int


class Enough(msgspec.Struct, frozen=True):
    """As many have said that they keep it as must: it is told, and may be given."""

    queue: str
    stream: str
    first: int


class Confirmed(msgspec.Struct, frozen=True):
    """These have said that they keep what was put early; nobody else will be waited for."""

    queue: str
    stream: str
    first: int
    keepers: tuple[str, ...]


class Unstored(msgspec.Struct, frozen=True):
    """From this node to itself: what was offered before it was flushed found no room."""

    queue: str
    stream: str
    first: int
    reason: str


class Promptness:
    """Whether bodies can be put early: their keepers said in time that they had the last ones."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._late: dict[str, Instant] = {}

    def late(self, keepers: tuple[str, ...]) -> None:
        until = later(self._desk.now, LATE_FOR)
        self._late.update(dict.fromkeys(keepers, until))

    def keepers(self, put: Put, home: Home, linger: Duration) -> tuple[str, ...]:
        """On whom else this put may be early; on nobody when it must go the usual way."""
        desk, settings, presence = self._desk, home.settings, self._desk.presence
        if home.master != desk.keeper or presence is None or linger or put.hold or desk.full:
            return ()
        if put.size > EARLY_BYTES:
            return ()
        here = [one for one in home.mirrors if one in presence.keepers]
        if any(self._late.get(one, Instant(0)) > desk.now for one in here):
            return ()
        return tuple(here) if len(here) + 1 >= settings.copies_needed else ()


def riding(bodies: list[Copy]) -> tuple[tuple[Copy, ...], list[Copy]]:
    """As many as fit a step; and the rest, each to be sent by itself."""
    size = 0
    for at, body in enumerate(bodies):
        size += len(body.body)
        if size > BODIES_BYTES:
            return tuple(bodies[:at]), bodies[at:]
    return tuple(bodies), []
