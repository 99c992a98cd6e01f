"""What the items of every queue with priorities have."""

from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Final

PRIORITIES: Final = 4
"""0 is the most urgent."""


def urgencies() -> Iterator[int]:
    """The priorities of the items a client puts: each as often as any other."""
    return (number % PRIORITIES for number in count())


def any_priorities() -> Iterator[int]:
    """Of the items a client puts, where any whole number of 64 bits may be one."""
    chance = Random(1)
    return (chance.getrandbits(64) - (1 << 63) for _ in count())
