"""How the partitions of a queue are named: those of "log" are "log/0", "log/1" and so on.

No person's name has a "/" in it, so none of these is ever a queue that a person made.
"""

from functools import lru_cache
from typing import Annotated
from zlib import crc32

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.names import queue_name
from snowmelt.protocols.queue.api.settings import PARTITIONS_MAX

Name = Annotated[str, msgspec.Meta(max_length=103, pattern=r"^[A-Za-z0-9._-]+(/[0-9]{1,2})?\Z")]
"""Of a queue, or of a partition. It is part of keys on the disk."""


def is_name(text: str) -> bool:
    """Whether a queue can have this name, or a partition.

    >>> [is_name(name) for name in ("orders", "orders/3", "or ders", "")]
    [True, True, False, False]
    """
    try:
        msgspec.convert(text, Name)
    except msgspec.ValidationError:
        return False
    return True


def part_name(queue: str, part: int) -> str:
    """The name of one partition of a queue.

    >>> part_name("log", 3)
    'log/3'
    """
    return f"{queue}/{part}"


def part_names(queue: str, partitions: int) -> list[str]:
    """The names of all of them."""
    return [part_name(queue, part) for part in range(partitions)]


def whole_of(name: str) -> str:
    """Of which queue this is a partition; its own name where it is none.

    >>> whole_of("log/3"), whole_of("log")
    ('log', 'log')
    """
    return name.partition("/")[0]


def part_of(name: str) -> int | None:
    """Which partition this is; None where it is none.

    >>> part_of("log/3"), part_of("log")
    (3, None)
    """
    number = name.partition("/")[2]
    return int(number) if number else None


def home_of(name: bytes, partitions: int) -> int:
    """In which partition this lives: a key, a uniqueness key, or what a named producer puts.

    For good: it is so in each client and at each node, and may never be another.

    >>> home_of(b"loader", 8), home_of(b"loader-2", 8)
    (6, 3)
    """
    return crc32(name) % partitions


def known_name(text: str) -> str:
    """Checks the name of a queue, or of a partition.

    >>> known_name("log/3")
    'log/3'
    >>> known_name("log/64")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: queue is 'log/64'; allowed: 1 to 100 of A-Z a-z 0-9 . _ -...
    """
    return text if type(text) is str and _is_known(text) else queue_name(text)


@lru_cache(1024)  # each call names its queue, and they are few
def _is_known(text: str) -> bool:
    whole, _, number = text.partition("/")
    try:
        return bool(queue_name(whole if number in _NUMBERS else text))
    except BadOption:
        return False


_NUMBERS = frozenset(map(str, range(PARTITIONS_MAX)))
