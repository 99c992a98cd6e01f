"""What became of an operation, told honestly."""

from typing import Generic, TypeVar

import msgspec

T_co = TypeVar("T_co", covariant=True)


class Succeeded(msgspec.Struct, Generic[T_co], frozen=True, tag=True):
    """It happened, and this came of it.

    >>> Succeeded(b"pong").value
    b'pong'
    """

    value: T_co


class Failed(msgspec.Struct, frozen=True, tag=True):
    """It did not happen and never will."""

    reason: str


class Unknown(msgspec.Struct, frozen=True, tag=True):
    """It may have happened: the time ran out first."""

    reason: str


Outcome = Succeeded[T_co] | Failed | Unknown
