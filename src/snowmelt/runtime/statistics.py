"""What a process tells about itself: frozen values, made when somebody asks."""

from typing import Final

import msgspec

FREE_BYTES: Final = 2 << 30
"""A disk that has less left is nearly full."""
FULL_SHARE: Final = 0.9
"""So is a node whose records take more of what they may."""


class ConnectionStatistics(msgspec.Struct, frozen=True):
    peer: str
    role: str
    inbound: bool
    seconds: float
    frames_in: int
    frames_out: int
    bytes_in: int
    bytes_out: int
    in_flight_bytes: int
    unsent_bytes: int


class CostSummary(msgspec.Struct, frozen=True):
    """Of one kind of what others cost a process."""

    used: int
    total: int
    """What all may cost together."""
    refused: int
    """How often somebody had no room, since the process began."""


class Reloaded(msgspec.Struct, frozen=True):
    """A node has read its users again; there are so many."""

    users: int


class NodeStatistics(msgspec.Struct, frozen=True):
    """One process, since it began. `closed` and `dropped` count by reason, `refused` by call."""

    node: str
    seconds: float
    events: int
    notes: int
    flush_waits: int
    connections: tuple[ConnectionStatistics, ...]
    connections_total: int
    closed: dict[str, int]
    dropped: dict[str, int]
    store: dict[str, int]
    costs: dict[str, CostSummary]
    """What others cost it, by kind (`ledger.Cost`)."""
    arriving_waits: int
    """So many large frames wait until others are whole."""
    etcd_asked: int
    """How many requests went to etcd; 0 where none decides."""
    refused: dict[str, int] = {}
    """Calls that their user had no right to."""
    longest_turn: float = 0.0
    """For so many seconds the node heard nobody, at most, while it worked on one event."""
    longest_turn_cpu: float = 0.0
    """Seconds that the processor worked on one event, at most: without what other programs took."""
    longest_turn_event: str = ""
    """What that event was."""
    version: str = ""
    """Of Snowmelt."""
    clock: float = 0.0
    """Seconds since 1970, by the clock of its machine."""
    drained: str = ""
    """"draining" while what it has is moved off it, "empty" when that is done; else nothing."""

    @property
    def fullness(self) -> str:
        """How full it is, in a sentence."""
        used, most, free = (self.store.get(f"bytes_{one}", 0) for one in ("used", "max", "free"))
        return (
            f"its records take {sized(used)} of {sized(most)}, and its disk has {sized(free)} left"
        )

    @property
    def nearly_full(self) -> bool:
        """Whether puts are soon refused for want of room."""
        used, most = self.store.get("bytes_used", 0), self.store.get("bytes_max", 0)
        free = self.store.get("bytes_free", FREE_BYTES)
        return used > FULL_SHARE * most or free < FREE_BYTES


def sized(count: float) -> str:
    """A size as people say it.

    >>> sized(3 << 30), sized(700)
    ('3.0 GiB', '700.0 B')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


class Counts:
    """Counts by reason, so that nothing is dropped in silence.

    >>> counts = Counts()
    >>> counts.add("no route"); counts.add("no route"); counts.read()
    {'no route': 2}
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, reason: str) -> None:
        self._counts[reason] = self._counts.get(reason, 0) + 1

    def read(self) -> dict[str, int]:
        """All, in the order of their names."""
        return dict(sorted(self._counts.items()))
