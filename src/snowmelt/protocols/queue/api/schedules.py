"""What is put into a queue again and again: schedules, as calls, as state, and as records.

A schedule has a name, a body, and times. `scheduling.py` has the rules by which it fires.
"""

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from snowmelt.core.ahead import MANY, Count, Label, Whole
from snowmelt.core.batch import ONE
from snowmelt.core.headers import Headers, headers_in
from snowmelt.core.instant import Duration, seconds
from snowmelt.core.keys import KEY_BYTES
from snowmelt.core.names import is_plain_name
from snowmelt.protocols.queue.api.cron import Cron, shown
from snowmelt.protocols.queue.api.labels import Labels, pack
from snowmelt.protocols.queue.api.settings import DELAY_LONGEST, KEY_BYTES_MAX, PRIORITIES_MAX

WHAT: Final = b"q"
MOMENTS: Final = b"m"
SCHEDULES_MAX: Final = 256
"""Of one queue."""
BODY_MAX: Final = 64 << 10
HEADERS_MAX: Final = 4 << 10
EVERY_SHORTEST: Final = seconds(1)
EVERY_LONGEST: Final = seconds(3650 * 86_400)
SIGN: Final = "@"
"""So begins the producer of what a schedule puts; clients can't take such a name."""
NAME_HEADER: Final = "schedule"
NEVER: Final = 1 << 62
"""In place of the next moment where none comes."""
MOMENT_HEADER: Final = "scheduled-at"
"""With these headers an item comes that a schedule put: its name, and for which moment."""
NAME_MAX: Final = 64
_ENCODE: Final = msgspec.msgpack.Encoder().encode

Name = Annotated[str, msgspec.Meta(max_length=NAME_MAX)]


class What(msgspec.Struct, frozen=True, array_like=True):
    """What a schedule puts, and when: by an interval, or by an expression."""

    body: Annotated[bytes, msgspec.Meta(max_length=BODY_MAX)]
    every: Annotated[str, msgspec.Meta(max_length=100)]
    """As a person said it."""
    zone: Annotated[str, msgspec.Meta(max_length=100)] = ""
    interval: Annotated[Duration, msgspec.Meta(ge=0, le=EVERY_LONGEST)] = Duration(0)
    cron: Cron | None = None
    skip: bool = False
    """Whether what was missed is skipped, and not made up for."""
    headers: Annotated[bytes, msgspec.Meta(max_length=HEADERS_MAX)] = b""
    delay: Annotated[Duration, msgspec.Meta(ge=0, le=DELAY_LONGEST)] = Duration(0)
    priority: Annotated[int, msgspec.Meta(ge=0, lt=PRIORITIES_MAX)] = 0
    keys: Annotated[bytes, msgspec.Meta(max_length=KEY_BYTES)] = b""
    name: Annotated[bytes, msgspec.Meta(max_length=KEY_BYTES_MAX)] = b""
    """The key of its items (`by_key.py`); none where it is empty."""

    def __post_init__(self) -> None:
        if (self.cron is None) == (self.interval < EVERY_SHORTEST):
            raise ValueError("a schedule has an interval of a second or more, or an expression")
        if self.headers:
            headers_in(self.headers)

    def after(self, moment: int, at: int) -> int | None:
        """The first of its moments after `at`; one of them is `moment`. None where none comes.

        >>> What(b"", "90s", interval=seconds(90)).after(seconds(100), seconds(1000)) // 10**9
        1090
        """
        if self.cron is None:
            found = max(moment, at - (at - moment) % self.interval) + self.interval
            return found if found < NEVER else None
        second = self.cron.after(at // 10**9)
        return None if second is None else second * 10**9

    def labels(self, name: str, moment: int) -> bytes:
        """The headers, and the key, of the item that it puts for a moment."""
        given = headers_in(self.headers) if self.headers else {}
        headers: Headers = {**given, NAME_HEADER: name, MOMENT_HEADER: shown(moment)}
        return pack(Labels(headers, (self.name,))) if self.name else _ENCODE(headers)

    @property
    def offsets(self) -> bytes:
        return ONE.pack(0, len(self.body))


class Moments(msgspec.Struct, frozen=True, array_like=True):
    """When it fires next, and when it did, in nanoseconds since 1970."""

    next: Count
    last: Count = 0
    """The moment for which it fired last; 0 if it never did."""
    fired_at: Count = 0
    """When that was, by the clock of who led."""
    fired: Count = 0
    """How often it fired."""


class Schedule(msgspec.Struct, frozen=True, tag="queue.schedule", array_like=True):
    """Makes a schedule, or alters it; one that is so already stays as it is."""

    queue: Label
    name: Name
    what: What


class Scheduled(msgspec.Struct, frozen=True, tag="queue.scheduled", array_like=True):
    """It is so."""

    moments: Moments


class Unschedule(msgspec.Struct, frozen=True, tag="queue.unschedule", array_like=True):
    """Removes a schedule; what it has put stays."""

    queue: Label
    name: Name


class ListSchedules(msgspec.Struct, frozen=True, tag="queue.list-schedules", array_like=True):
    """Asks which schedules a queue has."""

    queue: Label


class ScheduleRow(msgspec.Struct, frozen=True, array_like=True):
    """One of them."""

    name: Name
    every: Label
    zone: Label
    skip: bool
    bytes: Whole
    """Of its body."""
    moments: Moments


class ScheduleRows(msgspec.Struct, frozen=True, tag="queue.schedules", array_like=True):
    """All of them, by name."""

    rows: Annotated[tuple[ScheduleRow, ...], MANY]


class Schedules:
    """Of one queue.

    >>> changed = {}; some = Schedules(changed)
    >>> some.make("report", What(b"go", "90s", interval=seconds(90)), Moments(5))
    >>> sorted(changed), some.rows()[0].every, some.end("report"), some.end("report")
    ([b'mreport', b'qreport'], '90s', True, False)
    """

    def __init__(self, changed: dict[bytes, None]) -> None:
        self._changed = changed
        self.what: dict[str, What] = {}
        self.moments: dict[str, Moments] = {}

    def make(self, name: str, what: What, moments: Moments) -> None:
        """It is so from now on."""
        self.what[name] = what
        self._changed[WHAT + name.encode()] = None
        self.move(name, moments)

    def move(self, name: str, moments: Moments) -> None:
        """It fires next at another moment."""
        self.moments[name] = moments
        self._changed[MOMENTS + name.encode()] = None

    def end(self, name: str) -> bool:
        """It is over; whether there was one."""
        self.moments.pop(name, None)
        self._changed |= {WHAT + name.encode(): None, MOMENTS + name.encode(): None}
        return self.what.pop(name, None) is not None

    def fire(self, producer: str, moment: int, wall: int) -> bool:
        """Its item for a moment comes in now; whether it still waits for that one.

        What else was missed until now is made up for by this item.
        """
        name = producer.removeprefix(SIGN)
        known, what = self.moments.get(name), self.what.get(name)
        if known is None or what is None or known.next != moment:
            return False
        after = what.after(moment, max(moment, wall))
        self.move(name, Moments(after or NEVER, moment, wall, known.fired + 1))
        return True

    def take_back(self, producer: str, moment: int) -> None:
        """Its item found no room, and nobody was told of it: it is to fire again."""
        name = producer.removeprefix(SIGN)
        known = self.moments.get(name)
        if known is not None and known.fired and known.last in (0, moment):
            self.move(name, Moments(moment, fired=known.fired - 1))

    def rows(self) -> tuple[ScheduleRow, ...]:
        """All of them, as they are told."""
        return tuple(
            [
                ScheduleRow(name, one.every, one.zone, one.skip, len(one.body), self.moments[name])
                for name, one in sorted(self.what.items())
            ]
        )

    # --- as it is written down --------------------------------------------------------------------

    def keys(self) -> Iterator[bytes]:
        yield from (WHAT + name.encode() for name in self.what)
        yield from (MOMENTS + name.encode() for name in self.moments)

    def record(self, key: bytes) -> bytes | None:
        """As it is written down; None when it is over."""
        some = self.what if key[:1] == WHAT else self.moments
        found = some.get(key[1:].decode())
        return None if found is None else _ENCODE(found)

    def restore(self, key: bytes, value: bytes) -> None:
        """From a record; that of its moments comes first (`records.py`)."""
        name = key[1:].decode()
        if not known_schedule(name) or len(self.moments) > SCHEDULES_MAX:
            raise ValueError(f"no schedule is {name!r}, or there are too many")
        if key[:1] == MOMENTS:
            self.moments[name] = msgspec.msgpack.decode(value, type=Moments)
        else:
            self.what[name] = msgspec.msgpack.decode(value, type=What)
            self.moments.setdefault(name, Moments(0))


def known_schedule(name: str) -> bool:
    """Whether a schedule may be called so.

    >>> known_schedule("report-7"), known_schedule("two words")
    (True, False)
    """
    return is_plain_name(name, NAME_MAX)
