"""How the partitions of a queue are named: those of "log" are "log/0", "log/1" and so on.

No person's name has a "/" in it, so none of these is ever a queue that a person made.
"""

from functools import lru_cache

from snowmelt.core.errors import BadOption
from snowmelt.core.names import queue_name
from snowmelt.protocols.queue.settings import PARTITIONS_MAX


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


@lru_cache(1024)  # each call names its queue, and they are few
def known_name(text: str) -> str:
    """Checks the name of a queue, or of a partition.

    >>> known_name("log/3")
    'log/3'
    >>> known_name("log/64")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: partition is 'log/64'; allowed: a queue's name and /0 to /63
    """
    whole, slash, number = text.partition("/")
    queue_name(whole)
    if slash and number not in _NUMBERS:
        raise BadOption("partition", text, f"a queue's name and /0 to /{PARTITIONS_MAX - 1}")
    return text


_NUMBERS = frozenset(map(str, range(PARTITIONS_MAX)))
