"""How the ring changes: one virtual node's part in an update (rules 16 to 19)."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from snowmelt.core.names import NodeId
from snowmelt_lab.machines.overlay import messages
from snowmelt_lab.machines.overlay.labels import Kind, Place, Virtual
from snowmelt_lab.machines.overlay.standing import Change
from snowmelt_lab.machines.overlay.tree import local_children, local_parent
from snowmelt_lab.machines.overlay.virtual import (
    Anchor,
    Outcomes,
    Phase,
    Traffic,
    VirtualNode,
    answers,
)


class Update:
    """From one epoch's end to the next one's beginning.

    Made when an epoch begins, since a neighbour's `Flush` may come before the own `Pause`.
    """

    def __init__(self, virtual: VirtualNode, *, new: bool = False) -> None:
        self.virtual: Final = virtual
        self.parent: Final = local_parent(virtual.me, virtual.pred)
        """In the old tree; the ring changes meanwhile."""
        self.children: Final = local_children(virtual.me, virtual.succ)
        self.flushed: Final[dict[Place, messages.Flush]] = {}
        self.paused: Final[dict[Place, messages.Paused]] = {}
        self.spliced: Final[dict[Place, messages.Spliced]] = {}
        self.inherited: messages.Inherit | None = None
        self.keep: NodeId | None = None
        self.told_paused = False
        self.linked = new
        """Whether this one has given its new neighbours their places; a new one need not."""
        self.after: Virtual = virtual.succ
        """The next old one that stays."""
        self.awaited = 0
        """How many of those have not said `Done`."""
        self.links = 1
        """How many virtual nodes there are from this one to the next old one that stays."""
        self.leftmost: Virtual | None = None
        self.finished = new

    # --- the pause --------------------------------------------------------------------------------

    def pause(self) -> Outcomes:
        """Nothing new is sent; the neighbours are told how much was (rule 17)."""
        v = self.virtual
        v.phase = Phase.PAUSED
        leaving = v.standing.change_in(v.epoch) is Change.GOES
        below = [*self.children, *v.guests]
        outcomes: Outcomes = [*(v.tell(child, messages.Pause()) for child in below), *v.refuse()]
        for neighbour in (v.pred.place, v.succ.place):
            sent = v.traffic.sent.get(neighbour, 0)
            outcomes.append(v.tell(neighbour, messages.Flush(sent, leaving)))
        return outcomes

    def note_flush(self, source: Place, flush: messages.Flush) -> None:
        self.flushed[source] = flush

    def note_paused(self, source: Place, paused: messages.Paused) -> None:
        """A subtree, or a guest, is quiet."""
        self.paused[source] = paused
        guest = self.virtual.guests.get(source)
        if guest is not None:
            self.virtual.guests[source] = messages.Guest(guest.virtual, paused.ripe)

    def progress(self) -> Outcomes:
        v = self.virtual
        if v.phase is Phase.RUNNING and v.anchor is not None and v.anchor.changes:
            return self.pause()
        if v.phase is Phase.PAUSED and not self.told_paused and self._quiet():
            self.told_paused = True
            stays = any(each.stays for each in self.paused.values())
            stays = stays or v.standing.change_in(v.epoch) is not Change.GOES
            if self.parent is not None:
                return [v.tell(self.parent, messages.Paused(stays))]
            return self.splice(messages.Splice(None if stays else v.me.node))
        if v.phase is Phase.SPLICING:
            return self._link() or self._finish()
        return []

    def _quiet(self) -> bool:
        v = self.virtual
        climbing, received = v.climbing, v.traffic.received
        if climbing.ascent is not None or climbing.waiting:
            return False
        if any(child not in self.paused for child in (*self.children, *v.guests)):
            return False
        neighbours = (v.pred.place, v.succ.place)
        if any(one not in self.flushed for one in neighbours):
            return False
        expected = {one: self.flushed[one].sent for one in neighbours}
        expected |= {one: self.paused[one].relayed for one in v.guests}
        return all(received.get(one, 0) == count for one, count in expected.items())

    # --- new neighbours ---------------------------------------------------------------------------

    def splice(self, splice: messages.Splice) -> Outcomes:
        """All is quiet everywhere (rule 18)."""
        v = self.virtual
        v.phase = Phase.SPLICING
        self.keep = splice.keep
        return [v.tell(child, splice) for child in self.children]

    def inherit(self, inherit: messages.Inherit) -> None:
        """The one behind leaves, and this is what it had."""
        self.inherited = inherit

    def follow(self, source: Place, follow: messages.Follow) -> Outcomes:
        """Another stands before this one."""
        self.virtual.pred = follow.pred
        return [self.virtual.tell(source, messages.Done())]

    def done(self) -> None:
        self.awaited -= 1

    @property
    def leaves(self) -> bool:
        v = self.virtual
        return v.me.node != self.keep and v.standing.change_in(v.epoch) is Change.GOES

    def _link(self) -> Outcomes:
        v = self.virtual
        if self.linked:
            return []
        succ_leaves = v.succ.node != self.keep and self.flushed[v.succ.place].leaving
        if succ_leaves and self.inherited is None:
            return []
        self.linked = True
        self.after = v.succ if self.inherited is None else self.inherited.after
        given = self._take_over()
        return given + (self._bequeath(self.after) if self.leaves else self._insert(self.after))

    def _take_over(self) -> Outcomes:
        if self.inherited is None:
            return []
        v, left = self.virtual, self.inherited
        v.guests |= {guest.virtual.place: guest for guest in left.guests}
        v.held += left.held
        return answers(v.table.add(left.arc))

    def _bequeath(self, after: Virtual) -> Outcomes:
        v = self.virtual
        guests, held = tuple(v.guests.values()), tuple(v.held)
        v.guests, v.held, self.links = {}, [], 0
        return [v.tell(v.pred.place, messages.Inherit(after, v.table.cut_all(), guests, held))]

    def _insert(self, after: Virtual) -> Outcomes:
        """Ripe guests get their places between this one and the next that stays."""
        v = self.virtual
        ripe = self._sorted([guest.virtual for guest in v.guests.values() if guest.ripe])
        if not ripe and after == v.succ:
            return []
        chain = [v.me, *ripe, after]
        self.leftmost = next((b for a, b in pairwise(chain) if b < a), None)
        self.links, self.awaited = len(chain) - 1, len(chain) - 1
        v.succ = chain[1]
        outcomes: Outcomes = [v.tell(after.place, messages.Follow(chain[-2]))]
        for pred, here, succ in zip(chain, chain[1:], chain[2:], strict=False):
            del v.guests[here.place]
            arc = v.table.cut(here, succ)
            placed = messages.Placed(pred, succ, arc, self._guests_between(here, succ))
            outcomes.append(v.tell(here.place, placed))
        return outcomes

    def _sorted(self, virtuals: Sequence[Virtual]) -> list[Virtual]:
        """In the order of the ring from this one on, those beyond the seam last."""
        return sorted(virtuals, key=lambda one: (one < self.virtual.me, one))

    def _guests_between(self, here: Virtual, succ: Virtual) -> tuple[messages.Guest, ...]:
        v = self.virtual
        behind = self._sorted([here, succ, *(guest.virtual for guest in v.guests.values())])
        between = behind[behind.index(here) + 1 : behind.index(succ)]
        return tuple(v.guests.pop(one.place) for one in between)

    def _finish(self) -> Outcomes:
        """This subtree of the old tree has its new neighbours."""
        v = self.virtual
        waits = not self.linked or self.awaited or len(self.spliced) < len(self.children)
        if self.finished or waits:
            return []
        self.finished = True
        reports = self.spliced.values()
        virtuals = self.links + sum(each.virtuals for each in reports)
        found = (self.leftmost, *(each.leftmost for each in reports))
        leftmost = next((each for each in found if each is not None), None)
        if self.parent is not None:
            return [v.tell(self.parent, messages.Spliced(virtuals, leftmost))]
        return self._move_anchor(leftmost or v.me, virtuals // len(Kind))

    # --- the new epoch ----------------------------------------------------------------------------

    def _move_anchor(self, leftmost: Virtual, nodes: int) -> Outcomes:
        v = self.virtual
        anchor, v.anchor = v.anchor, None
        assert anchor is not None, f"{v.me} ended an update without the anchor's state"
        return [v.tell(leftmost.place, messages.AnchorMoves(anchor.state, nodes))]

    def become_anchor(self, moves: messages.AnchorMoves) -> Outcomes:
        """The first on the ring is the root of the new tree (rule 19)."""
        self.virtual.anchor = Anchor(moves.state)
        return self.resume(messages.Resume(moves.nodes))

    def resume(self, resume: messages.Resume) -> Outcomes:
        """The next epoch begins here; what was held goes on."""
        v = self.virtual
        below = local_children(v.me, v.succ)
        outcomes: Outcomes = [v.tell(child, resume) for child in below]
        v.epoch, v.nodes, v.phase = v.epoch + 1, resume.nodes, Phase.RUNNING
        v.guests = {place: messages.Guest(guest.virtual) for place, guest in v.guests.items()}
        v.climbing, v.traffic = v.new_climbing(), Traffic()
        outcomes += [v.hosted(guest.virtual) for guest in v.guests.values()]
        held, v.held = v.held, []
        return outcomes + [each for errand in held for each in v.begin(errand)]
