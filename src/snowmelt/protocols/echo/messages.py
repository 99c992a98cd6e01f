"""What clients and the echo machine say to each other."""

from typing import Final, get_args

import msgspec

from snowmelt.core.ahead import Blob, Label


class Echo(msgspec.Struct, frozen=True, tag="echo.echo", array_like=True):
    """Asks for the same bytes again."""

    body: Blob


class Echoed(msgspec.Struct, frozen=True, tag="echo.echoed", array_like=True):
    """The same bytes."""

    body: Blob


class Remember(msgspec.Struct, frozen=True, tag="echo.remember", array_like=True):
    """Asks that a body be kept under a name, for good."""

    name: Label
    body: Blob


class Remembered(msgspec.Struct, frozen=True, tag="echo.remembered", array_like=True):
    """It is on the disk, flushed."""

    name: Label


class Recall(msgspec.Struct, frozen=True, tag="echo.recall", array_like=True):
    """Asks for what was kept under a name."""

    name: Label


class Recalled(msgspec.Struct, frozen=True, tag="echo.recalled", array_like=True):
    """What was kept. `body` is None when nothing was, or when `damaged` says it was and is lost."""

    name: Label
    body: Blob | None
    damaged: bool = False


Request = Echo | Remember | Recall
Response = Echoed | Remembered | Recalled

MESSAGES: Final[tuple[type[msgspec.Struct], ...]] = get_args(Request)
