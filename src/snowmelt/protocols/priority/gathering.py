"""One queue's batches at one node, in one view, and the grants that come down: package, rule 1.

1. The first that climbs is the census (rule 8 of the package): each place waits for those below.
   Only when its grant has come down, batches climb.
2. The node's own operations begin at its place nearest to the root; one batch at a time.
3. What is told to the anchor, and is not asked for by a client, goes with the next batch.
4. When there are elements again, and somebody waits for some, the anchor says so down the tree.
5. What a node is asked while its disk writes waits for the end of that, to be one batch: what of it
   lies here could be flushed no sooner, and one flush, one climb, and one message to each home then
   serve all. Where nobody is below, nothing climbs: the anchor is asked, and that is all.
"""

from collections.abc import Sequence
from typing import Final

from snowmelt.core.names import NodeId
from snowmelt.protocols.overlay.climbing import Arrival, Climbing, Down, Own, Up
from snowmelt.protocols.overlay.labels import Place
from snowmelt.protocols.overlay.tree import Tree
from snowmelt.protocols.priority.anchor import Anchor, Census, joined
from snowmelt.protocols.priority.batches import Batch, Grant, combined, decomposed
from snowmelt.protocols.priority.desk import AGAIN_FIRST, Desk
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.messages import Climb, Food, Granted
from snowmelt.protocols.priority.phases import RankAnchor
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.settings import QueueSettings
from snowmelt.protocols.priority.sound import answers

CENSUS: Final = 0
"""The number of the census, and of its grant."""


class _Batches:
    def combine(self, batches: Sequence[Batch]) -> Batch:
        return combined(batches)

    def decompose(self, grant: Grant, batches: Sequence[Batch]) -> Sequence[Grant]:
        return decomposed(grant, batches)


class _Censuses:
    def combine(self, batches: Sequence[Census]) -> Census:
        return joined(batches)

    def decompose(self, grant: Grant, batches: Sequence[Census]) -> Sequence[Grant]:
        return [grant] * len(batches)


class Gathering:
    """The places of one node in the tree of one queue."""

    def __init__(
        self, desk: Desk, settings: QueueSettings, tree: Tree, placing: Placing, limits: Limits
    ) -> None:
        self._desk = desk
        self._placing = placing
        self._limits = limits
        self._settings = settings
        self._queue = settings.queue
        self._keyed = settings.keyed
        self._tree = tree
        self.anchor: Anchor | None = None
        """At the root alone."""
        self.fed = False
        """Whether there may be elements for those who wait."""
        self.arrived: list[Arrival[Batch]] = []
        """At the root of a queue with any priorities: what waits for a phase (`phases.py`)."""
        self._entry = tree.entry(desk.me).index
        self._counted: dict[int, Climbing[Census, Grant]] = {}
        self._places: dict[int, Climbing[Batch, Grant]] = {}
        self._open: set[int] = set()
        self._census: Census | None = None
        """This node's own part."""
        for place in tree.places(desk.me):
            above, below = tree.parent(place), tree.children(place)
            self._counted[place.index] = Climbing(
                _Censuses(), place, above, below, patience=AGAIN_FIRST, synchronous=True
            )
            self._places[place.index] = Climbing(
                _Batches(), place, above, below, patience=AGAIN_FIRST
            )
        entry = self._places[self._entry]
        self._alone = entry.parent is None and not entry.children
        """Whether there is one place in all (rule 5)."""

    @property
    def root(self) -> NodeId:
        return self._tree.root.node

    @property
    def open(self) -> bool:
        """Whether this node's operations may climb (rule 1)."""
        return self._entry in self._open

    @property
    def takes(self) -> bool:
        """Whether a batch of this node's own may leave now."""
        place = self._places[self._entry]
        if self._entry not in self._open or not place.idle:
            return False
        if self._desk.disk.busy:  # rule 5
            self._desk.disk.hold_up(self._queue)
            return False
        return True

    # --- up ---------------------------------------------------------------------------------------

    def count(self, census: Census) -> None:
        self._census = census
        self._count()

    def _count(self) -> None:
        """The census goes on up from where all is in."""
        if self._census is None:
            return
        for index, climbing in self._counted.items():
            if climbing.number == 0:
                own = self._census if index == self._entry else Census()
                self._out_census(index, climbing.send(own, self._desk.now))

    def send(self, own: Batch | None) -> Grant | None:
        """A batch leaves, with what came from below; its grant, if it has it at once."""
        if own is None:
            for place in self._places.values():
                if place.waiting:
                    break
            else:  # as mostly
                return None
        elif self._alone and self.anchor is not None:  # rule 5
            if self._keyed:
                self.arrived.append(Arrival(0, own))
                return None
            served = self.anchor.granted(own)
            self._feed_hungry(self._entry, self.anchor)
            return served
        grant: Grant | None = None
        for index in sorted(self._open):
            mine = own if index == self._entry else None
            grant = self._out(index, self._places[index].send(mine, self._desk.now)) or grant
        return grant

    def climbed(self, source: NodeId, message: Climb) -> None:
        child, index = Place(source, message.index), message.above
        if index not in self._places:
            return
        downs: Sequence[Down[Grant]]
        if message.census is not None:
            counted = self._counted[index]
            downs = counted.take(child, 1, message.census)
            self._down(downs, census=True)
            self._count()
        else:
            self._down(self._places[index].take(child, message.number, message.batch))

    def granted(self, source: NodeId, message: Granted) -> Grant | None:
        """What comes from above; what of it is for this node's own operations."""
        place = self._places.get(message.index)
        if place is None or place.parent is None or place.parent.node != source:
            return None
        ascent = place.ascent
        asked = None if ascent is None or ascent.number != message.number else ascent.batch
        if asked is not None and not answers(message.grant, asked):
            return None
        if message.number == CENSUS:
            self._counts(message.index, 1, message.grant)
            return None
        return self._grants(message.index, message.number, message.grant)

    def serve(self, number: int, grant: Grant) -> Grant | None:
        """What waited at the root has all it gets; what of it is for this node's own operations."""
        if self._alone:
            return grant
        return self._grants(self._tree.root.index, number, grant)

    def feed_all(self) -> None:
        """The anchor says that elements have come (rule 4)."""
        self.feed(self._tree.root.index)

    def feed(self, index: int) -> None:
        """Elements have come: whoever waits may ask (rule 4)."""
        if index in self._places:
            self.fed = True
            for child in self._places[index].children:
                self._desk.send(child.node, Food(self._desk.era, self._queue, child.index))

    def again(self) -> None:
        now = self._desk.now
        for index, counted in self._counted.items():
            self._out_census(index, counted.again(now))
            self._wake(counted)
        for index, place in self._places.items():
            self._out(index, place.again(now))
            self._wake(place)

    def check(self) -> None:
        for place in self._places.values():
            place.check()
        if self.anchor is not None:
            self.anchor.check()

    # --- within -----------------------------------------------------------------------------------

    def _wake(self, climbing: Climbing[Batch, Grant] | Climbing[Census, Grant]) -> None:
        if climbing.due is not None:
            self._desk.wake(climbing.due, self._queue)

    def _out_census(self, index: int, sent: Sequence[Up[Census] | Arrival[Census]]) -> None:
        for one in sent:
            if isinstance(one, Arrival):
                settings = self._settings
                self.anchor = (RankAnchor if settings.keyed else Anchor)(
                    self._desk.epoch,
                    settings.rows,
                    one.batch,
                    bound=settings.items_max or None,
                    largest_first=settings.largest_first,
                    limits=self._limits,
                    placing=self._placing,
                )
                self._counts(index, one.number, Grant())
            else:
                message = Climb(
                    self._desk.era, self._queue, index, one.to.index, CENSUS, census=one.batch
                )
                self._desk.send(one.to.node, message)
        self._wake(self._counted[index])

    def _counts(self, index: int, number: int, grant: Grant) -> None:
        for one in self._counted[index].granted(number, grant):
            if isinstance(one, Own):
                self._open.add(index)
                self.fed = True
            else:
                self._down([one], census=True)

    def _out(self, index: int, sent: Sequence[Up[Batch] | Arrival[Batch]]) -> Grant | None:
        grant: Grant | None = None
        for one in sent:
            if isinstance(one, Arrival):
                assert self.anchor is not None, "batches climb after the census"
                if self._keyed:
                    self.arrived.append(one)
                    continue
                grant = self._grants(index, one.number, self.anchor.granted(one.batch)) or grant
                self._feed_hungry(index, self.anchor)
            else:
                message = Climb(
                    self._desk.era, self._queue, index, one.to.index, one.number, one.batch
                )
                self._desk.send(one.to.node, message)
        self._wake(self._places[index])
        return grant

    def _feed_hungry(self, index: int, anchor: Anchor) -> None:
        """Whoever waits is told of what has come (rule 4)."""
        if anchor.hungry and anchor.free:
            anchor.hungry = False
            self.feed(index)

    def _grants(self, index: int, number: int, grant: Grant) -> Grant | None:
        own: Grant | None = None
        for one in self._places[index].granted(number, grant):
            if isinstance(one, Own):
                own = one.grant
            else:
                self._down([one])
        return own

    def _down(self, downs: Sequence[Down[Grant]], *, census: bool = False) -> None:
        for one in downs:
            number = CENSUS if census else one.number
            message = Granted(self._desk.era, self._queue, one.to.index, number, one.grant)
            self._desk.send(one.to.node, message)
