"""What clients saw: the only input of every check.

An operation is one call, seen from outside: who called, what was asked, when the call began and
when it ended, and how. All times are nanoseconds of one clock, that of whoever recorded; only their
order matters, and two operations of which neither ended before the other began are concurrent.

How an operation ended decides what may be concluded from it:

- `SUCCEEDED`: it took effect at some instant between `called` and `returned`.
- `FAILED`: it did not take effect and never will.
- `UNKNOWN`: it may have taken effect at any instant from `called` on, even long after the caller
  gave up, or never.

One call may carry many values (a batch), and a get that found nothing carries none. Within one call
the order of the values is the order of the items.

Of a priority queue more may be known, value by value: `priorities`, `positions`, `orders`; and of a
get, under which `token` its values are leased and until when they are `held`.

On the disk a history is JSON lines, one operation a line. Such a file may come from anywhere, so
each line is checked against the types below before anything is done with it.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Annotated, Final

import msgspec

from snowmelt.core.errors import BadHistory

Value = str | int
Time = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

NEVER: Final = 2**63
"""Later than any time a history can hold."""


class Kind(Enum):
    """What was asked."""

    PUT = "put"
    GET = "get"
    ACK = "ack"
    BACK = "back"
    """Given back, or come back otherwise; with `orders`, from then on it was there to be got."""
    DRAIN = "drain"
    """Whoever recorded made sure that nothing was left, neither waiting nor leased."""
    VIEW = "view"
    """A process saw a view: `position` is its epoch, `values` its members."""


class Ended(Enum):
    """How a call ended, as `core.outcome` has it but without the answer."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Operation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One call. `position` is its place in the order that the product itself says it used.

    >>> Operation("p1", Kind.PUT, ("a",), 10, 20)
    p1 put 'a' [10, 20]
    >>> Operation("p2", Kind.GET, (), 10, 20)
    p2 get nothing [10, 20]
    >>> Operation("p1", Kind.PUT, ("a", "b"), 10, None, Ended.UNKNOWN)
    p1 put 'a' 'b' [10, never] unknown
    """

    process: str
    kind: Kind
    values: tuple[Value, ...]
    called: Time
    returned: Time | None
    ended: Ended = Ended.SUCCEEDED
    position: Time | None = None
    priorities: tuple[int, ...] = ()
    """Of each value; the smaller one is the more urgent."""
    positions: tuple[Time, ...] = ()
    """Where each value stands among those of its priority."""
    orders: tuple[Time, ...] = ()
    """Of each value, when, in the one order of all operations that the product says it used; of a
    get that found nothing, its own."""
    token: Time | None = None
    """Under which lease the values are; none where nothing is leased."""
    held: Time | None = None
    """Until then the lease lasts for certain, unless something is said of it."""
    keys: tuple[str, ...] = ()
    """Of each value that was put, its key; empty for none (`by_key.py`)."""
    over: int = 0
    """So many more a get may have had for a moment, next in the order, and given back; without an
    order, at any moment while it lasted."""

    def __post_init__(self) -> None:
        if self.returned is None:
            if self.ended is not Ended.UNKNOWN:
                raise ValueError(f"an operation that {self.ended.value} must have returned")
        elif self.returned < self.called:
            raise ValueError(f"returned at {self.returned}, before it was called at {self.called}")
        if self.kind is Kind.VIEW and self.position is None:
            raise ValueError("a view needs its epoch as position")
        for name in ("priorities", "positions", "orders", "keys"):
            told = getattr(self, name)
            alone = name == "orders" and self.kind is Kind.GET and not self.values
            if told and len(told) != (1 if alone else len(self.values)):
                raise ValueError(f"{len(told)} {name} for {len(self.values)} values")

    def __repr__(self) -> str:
        nothing = "nothing" if self.ended is Ended.SUCCEEDED else "?"
        what = " ".join(map(repr, self.values[:3])) or nothing
        more = f" and {len(self.values) - 3} more" if len(self.values) > 3 else ""
        when = f"[{self.called}, {'never' if self.returned is None else self.returned}]"
        end = "" if self.ended is Ended.SUCCEEDED else f" {self.ended.value}"
        place = "" if self.position is None else f" at {self.position}"
        order = f" order {self.orders[0]}" if self.orders else ""
        return f"{self.process} {self.kind.value} {what}{more} {when}{end}{place}{order}"

    @property
    def until(self) -> int:
        """The last instant at which it can have taken effect.

        >>> Operation("p1", Kind.GET, (), 10, 20, Ended.UNKNOWN).until == NEVER
        True
        """
        if self.ended is Ended.UNKNOWN or self.returned is None:
            return NEVER
        return self.returned


class History(msgspec.Struct, frozen=True):
    """Operations on one queue, or views of one cluster, in any order.

    >>> history = History.read([
    ...     '{"process": "p1", "kind": "put", "values": ["a"], "called": 1, "returned": 2}',
    ...     '{"process": "p2", "kind": "get", "values": ["a"], "called": 3, "returned": 4}',
    ... ])
    >>> len(history), history.succeeded(Kind.GET)
    (2, [p2 get 'a' [3, 4]])
    >>> History.read(history.lines()) == history
    True
    >>> History.read(['{"process": "p1", "kind": "put"}'])
    Traceback (most recent call last):
        ...
    snowmelt.core.errors.BadHistory: line 1 of the history is no operation: Object missing \
required field `values`
    """

    operations: tuple[Operation, ...]

    @classmethod
    def of(cls, operations: Iterable[Operation]) -> "History":
        """A history of these operations."""
        return cls(tuple(operations))

    @classmethod
    def read(cls, lines: Iterable[bytes | str]) -> "History":
        """Reads JSON lines, such as an open file; raises `BadHistory` for the first bad one.

        Empty lines are passed over.
        """
        decoder = msgspec.json.Decoder(Operation)
        operations = []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                operations.append(decoder.decode(line))
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
                raise BadHistory(
                    f"line {number} of the history is no operation: {error}"
                ) from error
        return cls(tuple(operations))

    def lines(self) -> Iterator[bytes]:
        """As it is written: one line an operation, each with its end."""
        encoder = msgspec.json.Encoder()
        return (encoder.encode(operation) + b"\n" for operation in self.operations)

    def __len__(self) -> int:
        return len(self.operations)

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)

    def succeeded(self, kind: Kind) -> list[Operation]:
        """The operations of a kind that took effect."""
        return [one for one in self if one.kind is kind and one.ended is Ended.SUCCEEDED]

    def unknown(self, kind: Kind) -> list[Operation]:
        """The operations of a kind that may have taken effect."""
        return [one for one in self if one.kind is kind and one.ended is Ended.UNKNOWN]

    def attempted(self, kind: Kind) -> list[Operation]:
        """The operations of a kind that took effect or may have."""
        return [one for one in self if one.kind is kind and one.ended is not Ended.FAILED]


def rows(operations: Iterable[Operation]) -> Iterator[tuple[Value, Operation]]:
    """Each value with the operation that carried it, in their order.

    >>> list(rows([Operation("p1", Kind.PUT, ("a", "b"), 1, 2)]))
    [('a', p1 put 'a' 'b' [1, 2]), ('b', p1 put 'a' 'b' [1, 2])]
    """
    return ((value, operation) for operation in operations for value in operation.values)
