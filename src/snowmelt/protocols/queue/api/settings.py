"""What a person chooses for one queue, checked where it is made."""

from collections.abc import Mapping
from shlex import quote
from typing import Annotated, Any, Final

import msgspec

from snowmelt.core.ahead import Number
from snowmelt.core.errors import BadOption
from snowmelt.core.instant import SECOND, Duration, Length, milliseconds, seconds

BODY_BYTES_MAX: Final = 64 << 20
INLINE_MAX: Final = 4 << 20
"""What is larger never goes with its step."""
REPLICAS_MAX: Final = 7
REPLICAS_USUAL: Final = 3
"""Or as many as there are nodes, where nothing is said."""
HEADER_BYTES_MAX: Final = 64 << 10
"""Of the headers of a put, or of one item's own."""
PUT_BYTES_MAX: Final = BODY_BYTES_MAX + HEADER_BYTES_MAX
"""Of a put's bodies and headers: its copies, and any answer with it, fit a frame."""
LEASE_SHORTEST: Final = milliseconds(100)
LEASE_LONGEST: Final = seconds(12 * 3600)
LINGER_LONGEST: Final = seconds(10)
DELAY_LONGEST: Final = seconds(10 * 365 * 86_400)
RETENTION_LONGEST: Final = DELAY_LONGEST
PRIORITIES_MAX: Final = 256
PARTITIONS_MAX: Final = 64
ANY: Final = 0
"""In place of how many priorities there are: each item has a key of 64 bits, the least first."""
HOLD_LONGEST: Final = seconds(7 * 86_400)
"""For how long a staged put may wait to be published."""
FOR_EVER: Final = (
    "what order a queue has is settled when it is made: make another of a new name, and move there "
    "what is here (snowmelt move OLD NEW --delete)"
)
_COUNT_MAX: Final = 2**62
KEY_BYTES_MAX: Final = 256
"""Of a key by which a queue has its items in order, or within limits (`by_key.py`)."""
KEYS_MAX: Final = 1_000_000
"""So many keys have items in one queue."""
UNIQUE_BYTES_MAX: Final = 256
"""Of a uniqueness key (`uniques.py`)."""
PER_SECOND_MAX: Final = 1_000_000
WEIGHT_MAX: Final = 1_000
WEIGHTS_MAX: Final = 100
"""So many keys have another weight than 1: they go with each word that names settings."""
Weights = tuple[
    tuple[Annotated[bytes, msgspec.Meta(min_length=1, max_length=KEY_BYTES_MAX)], Number], ...
]
"""Keys with their weights, in the order of the keys."""


class QueueSettings(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One queue's settings, the same for all its users; made with the queue and kept with it."""

    replicas: Number = 1
    """How many copies of the queue there are to be; 0, where nothing is said: as the queue is, or
    as many as is usual."""
    durable_copies: Number = 0
    """How many of them must have flushed before `put` returns; 0 stands for a majority."""
    linger: Length = Duration(0)
    """How long a flush may be put off; 0 has every reply wait for its flush."""
    lease: Length = seconds(30)
    """How long a consumer holds what it got, unless it extends it."""
    deliveries_max: Number = 20
    """After so many failed deliveries an item is set aside as dead."""
    items_max: Number = 0
    """Items at most; 0: no limit."""
    bytes_max: Number = 0
    """The bound in bytes of bodies and headers; 0 is none."""
    priorities: Number = 1
    """They are 0 up to, not including, this; 0 is the most urgent. With one it is a fifo."""
    inline_max: Number = 1 << 20
    """A put with more bytes lies on data nodes, where there are more nodes than copies."""
    floats: bool = False
    """Whether any priorities are fractions; else they are whole numbers. Nodes order ranks."""
    largest_first: bool = False
    """Whether the largest number is the most urgent; clients turn it into ranks, and back."""
    partitions: Number = 1
    """Of how many partitions it is, each a queue of its own with these settings
    (`partition_names.py`)."""
    grows: bool = False
    """Whether nobody said how many copies there are: then there are more as nodes join."""
    in_order_by_key: Number = 0
    """Whether the items of one key are given one after the other; 1 for yes (`by_key.py`)."""
    at_once_by_key: Number = 0
    """So many items of one key are in consumers' hands at most; 0 is no limit."""
    at_once: Number = 0
    """The same of all items."""
    per_second_by_key: Number = 0
    """So many items of one key are given out in a second at most; 0 is no limit."""
    per_second: Number = 0
    """The same of all items."""
    fair: Number = 0
    """Whether the key with the least in hand comes next; 1 for yes."""
    retention: Length = Duration(0)
    """What waits for longer ends (`retention.py`); 0 is for ever."""
    weights: Annotated[Weights, msgspec.Meta(max_length=WEIGHTS_MAX)] = ()
    """Of keys that do not count as all others for `fair`."""

    @property
    def by_key(self) -> bool:
        """Whether it is known of which key each item is.

        >>> QueueSettings().by_key, QueueSettings(at_once=3).by_key
        (False, True)
        """
        return any(getattr(self, name) for name in OF_KEYS.values())

    @property
    def kind(self) -> str:
        """What its priorities are, as a person is told.

        >>> QueueSettings(priorities=ANY).kind, QueueSettings(priorities=4).kind
        ('any int', '4')
        """
        if self.priorities != ANY:
            return str(self.priorities)
        return "any float" if self.floats else "any int"

    @property
    def items_each(self) -> int:
        """The bound of each partition in items; 0 is none.

        >>> QueueSettings(items_max=10, partitions=4).items_each
        3
        """
        return -(-self.items_max // self.partitions)

    @property
    def bytes_each(self) -> int:
        return -(-self.bytes_max // self.partitions)

    @property
    def at_once_each(self) -> int:
        """How many items of one partition are in hand at most: together never more than all may.

        >>> QueueSettings(at_once=10, partitions=4).at_once_each
        2
        """
        return self.at_once // self.partitions

    @property
    def per_second_each(self) -> int:
        return self.per_second // self.partitions

    @property
    def copies_needed(self) -> int:
        """How many copies must be safe before a put is told so.

        >>> QueueSettings(replicas=3).copies_needed, QueueSettings().copies_needed
        (2, 1)
        """
        return self.durable_copies or self.replicas // 2 + 1

    def made_on(self, nodes: int) -> "QueueSettings":
        """What a queue is made with, where so many nodes are present; raises `BadOption`.

        >>> QueueSettings(replicas=0).made_on(2).replicas, QueueSettings().made_on(5).replicas
        (2, 1)
        """
        replicas = self.replicas or min(REPLICAS_USUAL, nodes)
        if replicas > nodes:
            raise BadOption("replicas", replicas, f"at most {nodes}, the nodes present")
        grows = self.grows or not self.replicas
        made = msgspec.structs.replace(self, replicas=replicas, grows=grows)
        return made.checked()

    def grown(self, nodes: int) -> "QueueSettings":
        """With one copy more, where so many nodes are to stay and there are to be more.

        >>> QueueSettings(grows=True).grown(2).replicas, QueueSettings().grown(2).replicas
        (2, 1)
        """
        more = self.grows and self.replicas < min(REPLICAS_USUAL, nodes)
        return msgspec.structs.replace(self, replicas=self.replicas + 1) if more else self

    @property
    def fewest(self) -> int:
        """With how few nodes it can do, if others leave in order.

        >>> QueueSettings(replicas=3).fewest, QueueSettings(replicas=3, grows=True).fewest
        (2, 1)
        """
        return self.durable_copies or 1 if self.grows else self.copies_needed

    def altered(
        self, some: Mapping[str, int], nodes: int, weights: Weights = ()
    ) -> "QueueSettings":
        """The same but for these, where so many nodes are present; raises `BadOption`.

        A key whose weight is not named has the one of before.

        >>> QueueSettings(lease=seconds(60)).altered({"items_max": 9}, nodes=1).items_max
        9
        >>> QueueSettings().altered({"priorities": 3}, nodes=1)
        Traceback (most recent call last):
        snowmelt.core.errors.BadOption: option is 'priorities'; allowed: replicas, durable_copies...
        """
        for name in some:
            if name not in OPTIONS.values() or name == "weights":
                raise BadOption("option", name, f"{', '.join(OPTIONS)}; {FOR_EVER}")
        said: dict[str, Any] = {"grows": False} if "replicas" in some else {}
        if weights:
            said["weights"] = weights_of(dict(self.weights) | dict(weights))
        wanted = msgspec.structs.replace(self, **some, **said)
        if weights and not wanted.fair:
            raise BadOption("weights", shown_weights(weights), "only with fair=True")
        return wanted.checked() if wanted.replicas == self.replicas else wanted.made_on(nodes)

    @property
    def told(self) -> "QueueSettings":
        """The same, with how many copies a put waits for in place of its default.

        >>> QueueSettings(replicas=3).told.durable_copies
        2
        """
        return msgspec.structs.replace(self, durable_copies=self.copies_needed)

    def quorum(self, copies: int) -> int:
        """How many of a set of copies must have what is told (`queue/in_sync.py`).

        >>> few = QueueSettings(replicas=3, durable_copies=1)
        >>> [few.quorum(copies) for copies in (3, 2, 1)], QueueSettings(replicas=3).quorum(3)
        ([2, 2, 1], 2)
        """
        least = self.copies_needed
        return least if least > self.replicas // 2 else max(least, copies // 2 + 1)

    @property
    def answers_needed(self) -> int:
        """Of how many copies the newest must be sought, to miss nothing that was told."""
        return self.replicas - self.copies_needed + 1

    def checked(self) -> "QueueSettings":
        """Itself; raises `BadOption` for a value that can't be had."""
        bounds = (
            ("replicas", self.replicas or 1, 1, REPLICAS_MAX),
            ("durable_copies", self.durable_copies, 0, self.replicas or REPLICAS_MAX),
            ("flush", self.linger, 0, LINGER_LONGEST),
            ("lease", self.lease, LEASE_SHORTEST, LEASE_LONGEST),
            ("max_deliveries", self.deliveries_max, 1, 1_000_000),
            ("max_items", self.items_max, 0, _COUNT_MAX),
            ("max_bytes", self.bytes_max, 0, _COUNT_MAX),
            ("priorities", self.priorities, ANY, PRIORITIES_MAX),
            ("inline_max", self.inline_max, 0, INLINE_MAX),
            ("partitions", self.partitions, 1, PARTITIONS_MAX),
            ("in_order_by_key", self.in_order_by_key, 0, 1),
            ("at_once_by_key", self.at_once_by_key, 0, _COUNT_MAX),
            ("at_once", self.at_once, 0, _COUNT_MAX),
            ("per_second_by_key", self.per_second_by_key, 0, PER_SECOND_MAX),
            ("per_second", self.per_second, 0, PER_SECOND_MAX),
            ("fair", self.fair, 0, 1),
            ("retention", self.retention, 0, RETENTION_LONGEST),
        )
        for name, value, lowest, highest in bounds:
            if not lowest <= value <= highest:
                raise BadOption(name, value, f"{lowest} to {highest}")
        for key, weight in self.weights:
            if not 1 <= weight <= WEIGHT_MAX:
                raise BadOption(f"the weight of {key!r}", weight, f"1 to {WEIGHT_MAX}")
        if len(self.weights) > WEIGHTS_MAX:
            raise BadOption("weights", f"{len(self.weights)} keys", f"at most {WEIGHTS_MAX}")
        if self.floats and self.priorities != ANY:
            raise BadOption("floats", "true", "only with any priorities, not with a number of them")
        for name, value in (("at_once", self.at_once), ("per_second", self.per_second)):
            if 0 < value < self.partitions:
                allowed = f"{self.partitions} or more, since each partition has its share of it"
                raise BadOption(name, value, allowed)
        if self.partitions > 1 and (self.fair or (self.by_key and self.priorities != 1)):
            said = ", ".join([option for option, name in OF_KEYS.items() if getattr(self, name)])
            allowed = f"1 in a queue with {'fair' if self.fair else 'priorities and ' + said}"
            raise BadOption("partitions", self.partitions, allowed)
        return self


OF_KEYS: Final = {
    "in_order_by_key": "in_order_by_key",
    "at_once_by_key": "at_once_by_key",
    "at_once": "at_once",
    "per_second_by_key": "per_second_by_key",
    "per_second": "per_second",
    "fair": "fair",
}
"""What a person calls order, limits and fairness by key."""
FLAGS: Final = ("in_order_by_key", "fair")
TIMES: Final = ("flush", "lease", "retention")
"""What a person gives in seconds."""
OPTIONS: Final = {
    "replicas": "replicas",
    "durable_copies": "durable_copies",
    "flush": "linger",
    "lease": "lease",
    "max_deliveries": "deliveries_max",
    "max_items": "items_max",
    "max_bytes": "bytes_max",
    "inline_max": "inline_max",
    "retention": "retention",
    **OF_KEYS,
    "weights": "weights",
}
"""What a person calls each setting of a fifo."""
OF_PRIORITIES: Final = {"priorities": "priorities", "largest_first": "largest_first"}
"""And what else a queue with priorities has."""
OF_PARTITIONS: Final = {"partitions": "partitions"}
"""And what any queue is made with, for good."""


def weights_of(some: Mapping[bytes, int]) -> Weights:
    """As they are kept: a weight of 1 is as none.

    >>> weights_of({b"b": 3, b"c": 1, b"a": 2})
    ((b'a', 2), (b'b', 3))
    """
    return tuple(sorted([one for one in some.items() if one[1] != 1]))


def shown_weights(weights: Weights) -> dict[str, int]:
    """As a person reads them."""
    return {key.decode(errors="backslashreplace"): weight for key, weight in weights}


def differences(there: QueueSettings, asked: QueueSettings) -> str:
    """Which options differ, as a person gave them; none where the queue is as it was asked for.

    >>> differences(QueueSettings(), QueueSettings(lease=seconds(60), replicas=3))
    'replicas=1, asked 3; durable_copies=1, asked 2; lease=30, asked 60'
    >>> differences(QueueSettings(replicas=3), QueueSettings(replicas=0))
    ''
    >>> differences(QueueSettings(), QueueSettings(partitions=8))
    'partitions=1, asked 8'
    >>> differences(QueueSettings(priorities=ANY), QueueSettings(priorities=ANY, floats=True))
    'priorities=any int, asked any float'
    >>> differences(QueueSettings(weights=((b"a", 3),)), QueueSettings())
    "weights={'a': 3}, asked none"
    """
    there, asked = there.told, _beside(there, asked).told
    return "; ".join(
        f"{option}={one}, asked {other}"
        for option, name in {**OPTIONS, **OF_PRIORITIES, **OF_PARTITIONS}.items()
        if (one := _shown(option, there, name)) != (other := _shown(option, asked, name))
    )


def _beside(there: QueueSettings, asked: QueueSettings) -> QueueSettings:
    """What is asked for, with as many copies as there are where nothing is said of them."""
    if asked.replicas:
        return asked
    copies = asked.durable_copies or there.durable_copies
    return msgspec.structs.replace(asked, replicas=there.replicas, durable_copies=copies)


def otherwise(queue: str, there: QueueSettings, asked: QueueSettings) -> str:
    """The same as a sentence, with what is to be done.

    >>> otherwise("jobs", QueueSettings(), QueueSettings(lease=seconds(60)))
    "queue 'jobs' is there with other settings: lease=30, asked 60; leave them out to ...
    >>> otherwise("jobs", QueueSettings(weights=((b"a", 3),)), QueueSettings(weights=((b"b", 2),)))
    "... alter it: snowmelt alter jobs --weight a=1 --weight b=2"
    """
    text = f"queue {queue!r} is there with other settings: {differences(there, asked)}"
    asked = _beside(there, asked)
    of_order = "priorities", "floats", "largest_first", "partitions"
    if any(getattr(there, name) != getattr(asked, name) for name in of_order):
        return f"{text}; {FOR_EVER}"
    words = " ".join(
        _word(option, there, asked)
        for option, name in OPTIONS.items()
        if getattr(there, name) != getattr(asked, name)
    )
    return (
        f"{text}; leave them out to take it as it is, or alter it: snowmelt alter {queue} {words}"
    )


def _word(option: str, there: QueueSettings, asked: QueueSettings) -> str:
    """As a command has it."""
    name, value = option.replace("_", "-"), getattr(asked, OPTIONS[option])
    if option == "weights":
        weights = shown_weights(
            tuple((dict.fromkeys(dict(there.weights), 1) | dict(value)).items())
        )
        return " ".join([f"--weight {quote(f'{key}={one}')}" for key, one in weights.items()])
    if option in FLAGS:
        return f"--{name}" if value else f"--no-{name}"
    return f"--{name} {_said(option, value)}"


def _said(option: str, value: int) -> str:
    """As a person gives it."""
    if option == "flush" and not value:
        return "always"
    return f"{value / SECOND:.12g}" if option in TIMES else str(value)


def _shown(option: str, settings: QueueSettings, name: str) -> str:
    value = getattr(settings, name)
    if option == "priorities":
        return settings.kind
    if option == "flush" and not value:
        return '"always"'
    if option in FLAGS:
        return str(bool(value))
    if option == "weights" and value:
        return str(shown_weights(value))
    limits = "max_items", "max_bytes", "retention", "weights", *OF_KEYS
    return "none" if option in limits and not value else _said(option, value)
