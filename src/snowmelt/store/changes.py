"""What may be asked of a store: the limits of keys and values, and how much a change weighs."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from snowmelt.core.errors import BadOption
from snowmelt.core.record import BULK, KEY_BYTES_MAX, Change, Erase, Write

Group: TypeAlias = Sequence[Change]
"""The changes of one `Persist`: made together or not at all."""

VALUE_BYTES_MAX: Final = 1 << 30
_BOUND_BYTES_MAX: Final = KEY_BYTES_MAX + 1  # `erase` puts one byte after the longest key
_OVERHEAD: Final = 64  # what a change costs beside its bytes while it waits


def check(changes: Group) -> None:
    """Raises `BadOption` when a store could not carry these out on any disk.

    >>> check([Write(b"", b"1")])
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: a key's length in bytes is 0; allowed: 1 to 400
    """
    for change in changes:
        match change:
            case Write(key, value):
                if not 1 <= len(key) <= KEY_BYTES_MAX:
                    raise BadOption("a key's length in bytes", len(key), f"1 to {KEY_BYTES_MAX}")
                if len(value) > VALUE_BYTES_MAX:
                    raise BadOption(
                        "a value's length in bytes", len(value), f"0 to {VALUE_BYTES_MAX}"
                    )
            case Erase(start, stop):
                longest = max(len(start), len(stop))
                if longest > _BOUND_BYTES_MAX:
                    raise BadOption("an erased key's length", longest, f"0 to {_BOUND_BYTES_MAX}")


def payload(changes: Group) -> int:
    """Bytes of the keys and values in these changes.

    >>> payload([Write(b"view", b"7"), Erase(b"a", b"b")])
    7
    """
    return sum(
        len(change.key) + len(change.value)
        if isinstance(change, Write)
        else len(change.start) + len(change.stop)
        for change in changes
    )


def weight(changes: Group) -> int:
    """Bytes these changes occupy while they wait, roughly.

    >>> weight([Write(b"view", b"7"), Erase(b"a", b"b")])
    135
    """
    return payload(changes) + _OVERHEAD * len(changes)


def writes(changes: Iterable[Change]) -> list[Write]:
    """Those of the changes that need room."""
    return [change for change in changes if isinstance(change, Write)]


def is_bulk(write: Write) -> bool:
    """Whether this is payload rather than a machine's own small state.

    >>> is_bulk(Write(b"~item/1", b"...")), is_bulk(Write(b"view", b"7"))
    (True, False)
    """
    return write.key.startswith(BULK)
