"""What a person chooses for one queue, checked where it is made."""

from collections.abc import Collection
from enum import IntEnum
from typing import Annotated, Final

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import SECOND, Duration, milliseconds, seconds
from snowmelt.core.names import queue_name
from snowmelt.protocols.priority.batches import PRIORITIES_MAX

BODY_BYTES_MAX: Final = 64 << 20
HEADER_BYTES_MAX: Final = 64 << 10
REASON_BYTES_MAX: Final = 1_000
REPLICAS_MAX: Final = 7
REPLICAS_USUAL: Final = 3
"""Or as many as there are nodes, where nothing is said."""
LEASE_SHORTEST: Final = milliseconds(100)
LEASE_LONGEST: Final = seconds(12 * 3600)
DELAY_LONGEST: Final = seconds(10 * 365 * 86_400)
REMEMBERED: Final = seconds(600)
"""For how long after its elements are gone an operation is known by its name."""
REDONE: Final = seconds(7 * 86_400)
"""The same for an operation that was begun anew, since elements of the first attempt may come back
with a node that was away."""
ANY: Final = 0
"""Instead of how many priorities there are: they are any numbers of 64 bits (`seap`)."""
_COUNT_MAX: Final = 2**39
_VIEWS: Final = (1 << 63) - 1
_ENCODE: Final = msgspec.msgpack.Encoder().encode

Name = Annotated[str, msgspec.Meta(max_length=100)]


class State(IntEnum):
    """What an element that is there may be."""

    FREE = 0
    LEASED = 1
    HELD = 2
    DEAD = 3
    GONE = 5
    VOID = 6
    """Gone, and there never was one: for whoever asks after the operation, it did not happen."""


class How(IntEnum):
    """What is said of elements that are leased, or dead."""

    DONE = 0
    BACK = 1
    """Given back for no fault of theirs: it doesn't count as a delivery."""
    FAILED = 2
    RENEW = 3
    PURGE = 4
    """Free ones are gone, and dead ones; all others are left alone."""
    REDRIVE = 5
    """Dead ones are free again, as if never delivered."""
    VOID = 6
    """Positions that a door was granted and has no use for."""
    UNWANTED = 9
    """Elements that a phase has taken for a get that does not want them any more (`seap`)."""
    DEAD = 10
    """As `FAILED`, and they are not delivered again."""
    PURGED = 11
    """Which of these a purge has removed, whose answer an earlier view has lost."""


class QueueSettings(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One queue's settings, the same for all its users; made with the queue and kept with it."""

    queue: Name
    priorities: int = ANY
    """`ANY`; or priorities are 0 up to, not including, this, and 0 is the most urgent."""
    largest_first: bool = False
    """Whether the largest number is the most urgent instead."""
    replicas: int = 1
    """On how many nodes an element is flushed before its put is answered, or on all there are; 0,
    where nothing is said: as the queue is, or as many as is usual."""
    lease: Duration = seconds(30)
    """How long a consumer holds what it got, unless it extends it."""
    deliveries_max: int = 20
    """After so many failed deliveries an element is set aside as dead."""
    items_max: int = 0
    """The bound in elements; 0 is none."""
    floats: bool = False
    """Whether any priorities are fractions; else they are whole numbers."""

    @property
    def keyed(self) -> bool:
        """Whether its priorities have no number: a key goes with each element (`seap`)."""
        return self.priorities == ANY

    @property
    def kind(self) -> str:
        """What its priorities are, as a person is told.

        >>> QueueSettings(queue="jobs").kind, QueueSettings(queue="jobs", priorities=4).kind
        ('any int', '4')
        """
        return ("any float" if self.floats else "any int") if self.keyed else str(self.priorities)

    @property
    def rows(self) -> int:
        """How many rows of positions it has."""
        return 1 if self.keyed else self.priorities

    @property
    def form(self) -> tuple[int, bool]:
        """What its elements must be like."""
        return self.rows, self.keyed

    def filled(self, said: Collection[str], there: "QueueSettings") -> "QueueSettings":
        """The same in what was said, in all where nothing is named; all else as it is there.

        >>> there = QueueSettings(queue="jobs", priorities=4, replicas=3)
        >>> asked = QueueSettings(queue="jobs", lease=seconds(60)).filled(["lease"], there)
        >>> differences(there, asked)
        'lease=30, asked 60'
        """
        names = said or self.__struct_fields__
        told = {name: getattr(self, name) for name in self.__struct_fields__ if name in names}
        if not self.replicas:
            told["replicas"] = there.replicas
        return msgspec.structs.replace(there, **told)

    def made_on(self, nodes: int) -> "QueueSettings":
        """What a queue is made with, where so many nodes are present.

        >>> QueueSettings(queue="jobs", replicas=0).made_on(5).replicas
        3
        """
        replicas = self.replicas or min(REPLICAS_USUAL, nodes)
        return msgspec.structs.replace(self, replicas=replicas).checked()

    def checked(self) -> "QueueSettings":
        """Itself; raises `BadOption` for a value that can't be had.

        >>> QueueSettings(queue="jobs", priorities=1000).checked()
        Traceback (most recent call last):
        snowmelt.core.errors.BadOption: priorities is 1000; allowed: 1 to 256
        """
        queue_name(self.queue)
        if self.floats and not self.keyed:
            raise BadOption("floats", "true", "only with any priorities, not with a number of them")
        bounds = (
            ("priorities", self.rows, 1, PRIORITIES_MAX),
            ("replicas", self.replicas or 1, 1, REPLICAS_MAX),
            ("lease", self.lease, LEASE_SHORTEST, LEASE_LONGEST),
            ("max_deliveries", self.deliveries_max, 1, 1_000_000),
            ("max_items", self.items_max, 0, _COUNT_MAX),
        )
        for name, value, lowest, highest in bounds:
            if not lowest <= value <= highest:
                raise BadOption(name, value, f"{lowest} to {highest}")
        return self


class Registered(QueueSettings, frozen=True, array_like=True, kw_only=True):
    """What a node keeps of a queue that there is: `queues.py`, rule 3."""

    since: Annotated[int, msgspec.Meta(ge=-_VIEWS, le=_VIEWS)] = 0
    """In which view all its members have known it first; below 0, in which it was to be made, and
    nobody has said yet that all know it. 0 where it was made before this was kept."""

    @classmethod
    def of(cls, settings: QueueSettings, since: int) -> "Registered":
        """A queue with these settings.

        >>> Registered.of(QueueSettings(queue="jobs"), 7).settings
        QueueSettings(queue='jobs', priorities=0, largest_first=False, replicas=1, ...)
        """
        return cls(since=since, **{name: getattr(settings, name) for name in _FIELDS})

    @property
    def settings(self) -> QueueSettings:
        """What clients are told of it."""
        return QueueSettings(**{name: getattr(self, name) for name in _FIELDS})

    @property
    def rank(self) -> tuple[bool, int, bytes]:
        """Of several with one name the least counts; by their encoding where nothing tells."""
        return self.since < 0, self.since, _ENCODE(self)


_FIELDS: Final = QueueSettings.__struct_fields__
OPTIONS: Final = {
    "replicas": "replicas",
    "lease": "lease",
    "max_deliveries": "deliveries_max",
    "max_items": "items_max",
}
"""What a person calls each setting of a fifo."""
OF_PRIORITIES: Final = {"priorities": "priorities", "largest_first": "largest_first"}
"""And what else a queue with priorities has."""


def differences(there: QueueSettings, asked: QueueSettings) -> str:
    """Which options differ, as a person gave them.

    >>> there, asked = QueueSettings(queue="jobs"), QueueSettings(queue="jobs", lease=seconds(60))
    >>> differences(there, asked)
    'lease=30, asked 60'
    """
    rows = [
        (option, _shown(option, there, name), _shown(option, asked, name))
        for option, name in {**OF_PRIORITIES, **OPTIONS}.items()
    ]
    return "; ".join(
        f"{option}={one}, asked {other}" for option, one, other in rows if one != other
    )


def _shown(option: str, settings: QueueSettings, name: str) -> str:
    value = getattr(settings, name)
    if option == "lease":
        return f"{value / SECOND:g}"
    if option == "priorities":
        return settings.kind
    return "none" if option == "max_items" and not value else str(value)
