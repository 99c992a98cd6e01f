"""How patient the nodes are with batons; the same on every node of a cluster."""

from typing import Final

import msgspec

from snowmelt.core.errors import BadOption, TooLarge
from snowmelt.core.instant import Duration, milliseconds, seconds
from snowmelt.core.names import plain_form, plain_name
from snowmelt.protocols.arrow import ArrowSettings, TreeSettings
from snowmelt.protocols.baton.calls import VALUE_BYTES_MAX

TOPICS: Final = "multicast."
"""Batons whose names begin so belong to the topics of `protocols.multicast`."""


class BatonSettings(msgspec.Struct, frozen=True, kw_only=True):
    lease: Duration = seconds(5)
    """How long a holder that says nothing keeps the baton; and how long a baton that was lost with
    its holder's node is not made again."""
    grace: Duration = seconds(1)
    """How long it keeps it when all its connections have ended."""
    beat: Duration = milliseconds(500)
    """How often what is missing is asked for again."""
    awake: Duration = seconds(60)
    """How long the edges of a name are watched after something happened to it, and a place is kept
    that nobody wants; a name that is not used for longer is folded."""
    drift: Duration = milliseconds(300)
    """How much longer than a lease a node waits, since its clock may be faster than a holder's."""
    arrow: ArrowSettings = ArrowSettings()
    tree: TreeSettings = TreeSettings(beat=milliseconds(250))

    @property
    def patience(self) -> Duration:
        """How long a node bears a holder's silence.

        >>> BatonSettings().patience == seconds(5.3)
        True
        """
        return Duration(self.lease + self.drift)


def baton_name(text: object) -> str:
    """Checks a baton's name.

    >>> baton_name("index/main")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: baton is 'index/main'; allowed: 1 to 100 of A-Z a-z 0-9 . _ -...
    """
    if not isinstance(text, str):
        raise BadOption("baton", text, plain_form())
    return plain_name("baton", text)


def baton_value(value: object, most: int = VALUE_BYTES_MAX) -> bytes:
    """Checks what is to travel with a baton.

    >>> baton_value(bytes(2_000_000))
    Traceback (most recent call last):
    snowmelt.core.errors.TooLarge: a baton's value has 2000000 bytes; at most 1048576 can travel...
    """
    if not isinstance(value, bytes | bytearray | memoryview):
        raise BadOption("value", type(value).__name__, "bytes, bytearray or memoryview")
    size = len(value) if not isinstance(value, memoryview) else value.nbytes
    if size > most:
        raise TooLarge(
            f"a baton's value has {size} bytes; at most {most} can travel with it: put "
            "more into a fifo or a file, and let the baton carry where"
        )
    return bytes(value)
