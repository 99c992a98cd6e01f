"""The closed union of injuries the world knows. `draws.py` draws them, `injuries.py` does them."""

from collections.abc import Sequence
from typing import Final, get_args

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import Duration, Instant
from snowmelt.core.names import NodeId


class _Lasting(msgspec.Struct, frozen=True):
    at: Instant
    until: Instant


class _OfNode(_Lasting, frozen=True):
    node: NodeId


class Loss(_Lasting, frozen=True, tag="loss"):
    """Messages vanish, each with this chance."""

    rate: float


class Duplication(_Lasting, frozen=True, tag="duplication"):
    """Messages arrive twice, each with this chance."""

    rate: float


class Reordering(_Lasting, frozen=True, tag="reordering"):
    """Messages overtake each other, on links that are in order too."""


class Delay(_Lasting, frozen=True, tag="delay"):
    """Every message takes up to so much longer."""

    extra: Duration


class Partition(_Lasting, frozen=True, tag="partition"):
    """Nothing passes between `side` and the rest; only inwards nothing when `one_way`.

    When `period` is not 0 the cut opens and closes with it: a flapping link.
    """

    shape: str
    side: tuple[NodeId, ...]
    one_way: bool = False
    period: Duration = Duration(0)


class Crash(_OfNode, frozen=True, tag="crash"):
    """A process is killed and starts again; some of what it had not flushed is lost."""

    mid_write: bool = False  # not before it next asks its disk for something


class LostWrites(_OfNode, frozen=True, tag="lost-writes"):
    """The power fails: everything not flushed is lost."""

    mid_write: bool = False  # not before it next asks its disk for something


class TornRecord(_OfNode, frozen=True, tag="torn-record"):
    """A process is killed in the middle of a write: the last record of it is half there."""

    mid_write: bool = False  # not before it next asks its disk for something


class Pause(_OfNode, frozen=True, tag="pause"):
    """A process stands still, and goes on later as if nothing had been."""


class SlowNode(_OfNode, frozen=True, tag="slow-node"):
    """A process takes so long for each event."""

    extra: Duration


class ClockSkew(msgspec.Struct, frozen=True, tag="clock-skew"):
    """A node's clock runs fast or slow, in parts per million."""

    at: Instant
    node: NodeId
    ppm: int


class ClockJump(msgspec.Struct, frozen=True, tag="clock-jump"):
    """A node's steady clock leaps forward, as after the sleep of a laptop."""

    at: Instant
    node: NodeId
    by: Duration


class FlippedBit(msgspec.Struct, frozen=True, tag="flipped-bit"):
    """One bit on a node's disk is not what it was."""

    at: Instant
    node: NodeId


class FullDisk(_OfNode, frozen=True, tag="full-disk"):
    """A node's disk has no room."""


class CutLinks(_Lasting, frozen=True, tag="cut-links"):
    """Nothing passes on these links alone: both ends hear everybody else. One way, or both.

    One that `stays` is there after the last fault too, and all has to come to rest with it.
    """

    links: tuple[tuple[NodeId, NodeId], ...]
    one_way: bool = False
    stays: bool = False


class Split(_Lasting, frozen=True, tag="split"):
    """Nothing passes between `side`, nodes and clients, and the rest; only inwards if `one_way`."""

    side: tuple[NodeId, ...]
    one_way: bool = False


class OneDoor(_Lasting, frozen=True, tag="one-door"):
    """A client reaches this node, and no other."""

    client: NodeId
    node: NodeId


class ClientPause(_Lasting, frozen=True, tag="client-pause"):
    """A client stands still, perhaps for longer than its lease, and goes on."""

    client: NodeId


class LongPause(_OfNode, frozen=True, tag="long-pause"):
    """A process stands still for so long that it is missed, and goes on as if nothing had been."""


class FailingDisk(_OfNode, frozen=True, tag="failing-disk"):
    """A disk fails at its next write, and takes nothing more until the process has ended."""


class FillingDisk(_OfNode, frozen=True, tag="filling-disk"):
    """A disk has room for so many steps more, and is full in the middle of a flush."""

    room: int


class SlowDisk(_OfNode, frozen=True, tag="slow-disk"):
    """Every flush of a node takes so much longer."""

    extra: Duration


class OlderDisk(_OfNode, frozen=True, tag="older-disk"):
    """A node is stopped, and starts again on a copy of its disk that was taken before."""

    taken: Instant


class LostDisk(_OfNode, frozen=True, tag="lost-disk"):
    """A node is stopped, and its disk is empty when it starts again. Never that of the first."""


class LostFounder(_OfNode, frozen=True, tag="lost-founder"):
    """The same of the node that founded the cluster and decides on its members."""


class WallClock(msgspec.Struct, frozen=True, tag="wall-clock"):
    """A node's wall clock shows the truth and so much more (or less) from then on."""

    at: Instant
    node: NodeId
    by: Duration


class QuickRestarts(_OfNode, frozen=True, tag="quick-restarts"):
    """A process is killed at each of these times and back after `down`, sooner than it is missed.

    Meanwhile nothing passes between `cut` and the rest.
    """

    times: tuple[Instant, ...]
    down: Duration
    cut: tuple[NodeId, ...] = ()


class RollingRestart(_Lasting, frozen=True, tag="rolling-restart"):
    """All nodes are restarted, one by one: each is away for `down`, and then all are for `up`."""

    nodes: tuple[NodeId, ...]
    down: Duration
    up: Duration


class PowerCut(_Lasting, frozen=True, tag="power-cut"):
    """The power of these nodes fails at one moment: what no flush of theirs has done is gone.

    Before it each of their flushes takes so much longer, so that there is something to lose.
    """

    nodes: tuple[NodeId, ...]
    fails: Instant
    extra: Duration


class Stalls(_Lasting, frozen=True, tag="stalls"):
    """These stand still at each of these times, for so long, as guests of one machine do."""

    nodes: tuple[NodeId, ...]
    times: tuple[Instant, ...]
    length: Duration


class RestartInCut(_OfNode, frozen=True, tag="restart-in-cut"):
    """A process is killed and back after `down`, sooner than it is missed, within a one-way cut.

    Meanwhile `deaf` hears none of `unheard`, and all hear it: it still sees what was before.
    """

    times: tuple[Instant, ...]
    down: Duration
    deaf: NodeId
    unheard: tuple[NodeId, ...]


class Suspend(_OfNode, frozen=True, tag="suspend"):
    """A machine sleeps, and its steady clock stands still meanwhile."""


class Rumour(msgspec.Struct, frozen=True, tag="rumour"):
    """These are told that no way is left to a node, dead or not; or, without one, to who leads."""

    at: Instant
    hearers: tuple[NodeId, ...]
    node: NodeId | None


class LeaderCrash(_Lasting, frozen=True, tag="leader-crash"):
    """Whoever leads then, where etcd decides, is killed and starts again."""


class LeaderPause(_Lasting, frozen=True, tag="leader-pause"):
    """Whoever leads then, where etcd decides, stands still, and goes on as if nothing had been."""


class LeaderHeld(_Lasting, frozen=True, tag="leader-held"):
    """What whoever leads then asks of etcd comes to it when this is over, and not before."""


class LeaderParted(_Lasting, frozen=True, tag="leader-parted"):
    """Whoever leads then, where etcd decides, hears nobody and is not heard, nor by etcd.

    Etcd's clock leaps by `early` meanwhile, so that the leader's lease may end before its time.
    """

    early: Duration


class HeldBack(_Lasting, frozen=True, tag="held-back"):
    """What one process sends another comes when this is over; what it is sent comes as ever."""

    source: NodeId
    target: NodeId


OfLeader = LeaderCrash | LeaderPause | LeaderHeld | LeaderParted

Fault = (
    Loss
    | Duplication
    | Reordering
    | Delay
    | Partition
    | Crash
    | LostWrites
    | TornRecord
    | Pause
    | SlowNode
    | ClockSkew
    | ClockJump
    | FlippedBit
    | FullDisk
    | CutLinks
    | Split
    | OneDoor
    | ClientPause
    | LongPause
    | FailingDisk
    | FillingDisk
    | SlowDisk
    | OlderDisk
    | LostDisk
    | LostFounder
    | WallClock
    | QuickRestarts
    | RollingRestart
    | PowerCut
    | Stalls
    | RestartInCut
    | Suspend
    | Rumour
)

KINDS: Final = tuple(str(kind.__struct_config__.tag) for kind in get_args(Fault))
HARDER: Final = KINDS[KINDS.index("cut-links") :]
"""Those that only some families are judged with, by `scenario.kinds_of`."""
THEMED: Final = ("power-cut", "stalls")
"""Of these, those that only lives with a theme of theirs hold (`themes.py`)."""
LATEST: Final = (*THEMED, "restart-in-cut", "suspend", "rumour")
"""Those whose dice are drawn last, so that they move no other's."""


def kinds(words: Sequence[str], known: Sequence[str] = KINDS) -> tuple[str, ...]:
    """Checks the kinds a person asked for; `all` and `none` are words too.

    >>> kinds(["crash", "loss"])
    ('loss', 'crash')
    """
    if list(words) in (["all"], []):
        return tuple(known)
    if list(words) == ["none"]:
        return ()
    for word in words:
        if word not in known:
            raise BadOption("--faults", word, "all, none, or some of " + ", ".join(known))
    return tuple(kind for kind in known if kind in words)
