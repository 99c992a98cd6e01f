"""What the other processes of a pool may cost this one."""

from typing import Final

import msgspec

from snowmelt.core.instant import SECOND, Duration, milliseconds, seconds
from snowmelt.protocols.pool.messages import MESSAGES
from snowmelt.protocols.pool.settings import OBJECT_BYTES_MAX

LARGE: Final = 64 << 10
"""From this size on a blob travels apart from its message, in chunks."""
CROWDED: Final = 1 << 20
"""While so many bytes of small frames wait on a link, smaller blobs travel apart as well."""
LARGE_WHEN_CROWDED: Final = 1 << 10
WITH_BLOB: Final = frozenset(one for one in MESSAGES if "blob" in one.__struct_fields__)
"""The messages whose field `blob` may be large."""
CHUNK_BYTES: Final = 512 << 10
FRAME_BYTES_MAX: Final = 32 << 20
"""Of what is not in chunks: the offsets of eight million objects."""


class PeerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a process lets others cost it; nothing a program has to choose.

    They slow, or refuse the one thing that is too much; no link of a peer ends for them.
    """

    links: int = 20_000
    strangers: int = 128
    """Links whose other side has not shown who it is: for one more the oldest goes. Each takes a
    descriptor of a program that may have a thousand."""
    blob_bytes: int = OBJECT_BYTES_MAX
    """Of one message."""
    incoming_bytes: int = 1 << 30
    """Of all blobs together that have begun to come and are not whole; others wait."""
    streams: int = 1_024
    """Blobs that one link may bring at a time; whoever sends has the others wait."""
    begun_bytes: int = 8 << 20
    """Of one link, of blobs that were sent before they were asked for."""
    unsent_bytes: int = 64 << 20
    """Of one link, without what goes in chunks: above this a message is refused."""
    later_bytes: int = 1 << 30
    """Of one link, of blobs for which it has no stream yet: above this a message is refused."""
    shared_bytes: int = 4 << 30
    """Of the segments that this process makes, and of those that one link brings; what of them was
    never written to takes no memory."""
    waiting: int = 65_536
    """Messages that wait for one dial; others are refused."""
    greeting: Duration = seconds(5)
    silent: Duration = seconds(2)
    """Blobs that a link was to bring are given up, and asked for elsewhere, when nothing comes on
    it for so long."""
    stalled: Duration = seconds(10)
    """A link on which a blob has begun and nothing comes for so long is closed, and one that takes
    nothing for so long of a blob, or of more than it may have unsent. What a process that stands
    still was sent is no longer in memory than on loan, for its link ends with the loan: `max_bytes`
    counts it."""
    unused: Duration = seconds(30)
    """A link on which nothing passes for so long ends, if neither side needs it."""
    dial: Duration = seconds(5)
    dials: int = 8
    """Dials under way at a time."""
    first_pause: Duration = milliseconds(50)
    longest_pause: Duration = seconds(2)

    @property
    def dial_seconds(self) -> float:
        """How long one dial may take, with its greeting."""
        return self.dial / SECOND
