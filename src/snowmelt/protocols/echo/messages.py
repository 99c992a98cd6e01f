"""What clients and the echo machine say to each other."""

from typing import Final, get_args

import msgspec


class Echo(msgspec.Struct, frozen=True, tag="echo.echo", array_like=True):
    """Asks for the same bytes again."""

    body: bytes


class Echoed(msgspec.Struct, frozen=True, tag="echo.echoed", array_like=True):
    """The same bytes."""

    body: bytes


class Remember(msgspec.Struct, frozen=True, tag="echo.remember", array_like=True):
    """Asks that a body be kept under a name, for good."""

    name: str
    body: bytes


class Remembered(msgspec.Struct, frozen=True, tag="echo.remembered", array_like=True):
    """It is on the disk, flushed."""

    name: str


class Recall(msgspec.Struct, frozen=True, tag="echo.recall", array_like=True):
    """Asks for what was kept under a name."""

    name: str


class Recalled(msgspec.Struct, frozen=True, tag="echo.recalled", array_like=True):
    """What was kept. `body` is None when nothing was, or when `damaged` says it was and is lost."""

    name: str
    body: bytes | None
    damaged: bool = False


Request = Echo | Remember | Recall
Response = Echoed | Remembered | Recalled

MESSAGES: Final[tuple[type[msgspec.Struct], ...]] = get_args(Request)
