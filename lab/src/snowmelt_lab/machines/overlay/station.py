"""One place of a node: as a virtual node on the ring, or as a guest behind its predecessor."""

from typing import Any, Final

from snowmelt.core.names import NodeId
from snowmelt_lab.machines.overlay import messages
from snowmelt_lab.machines.overlay.climbing import Arrival, Climbing, Own
from snowmelt_lab.machines.overlay.joining import Update
from snowmelt_lab.machines.overlay.labels import Kind, Place, Virtual
from snowmelt_lab.machines.overlay.standing import Change, Standing
from snowmelt_lab.machines.overlay.virtual import Outcomes, Phase, VirtualNode


class Early:
    """Words of epochs that have not begun here yet; they wait (rule 19)."""

    def __init__(self) -> None:
        self.words: list[messages.Word] = []

    def until(self, epoch: int) -> list[messages.Word]:
        """Those whose epoch has come."""
        due = [word for word in self.words if word.epoch <= epoch]
        self.words = [word for word in self.words if word.epoch > epoch]
        return due


class RingStation:
    """A virtual node on the ring, and the update that ends its epoch."""

    def __init__(self, virtual: VirtualNode, early: Early | None = None) -> None:
        """With what came early to a newcomer that is on the ring from now on."""
        self.virtual: Final = virtual
        self.update = Update(virtual, new=early is not None)
        self.early: Final = early or Early()
        self.stale = 0
        """Words of epochs that have ended; there are none, or rule 17 is broken."""

    @property
    def epoch(self) -> int:
        return self.virtual.epoch

    @property
    def running(self) -> bool:
        """Whether new operations may leave."""
        return self.virtual.phase is Phase.RUNNING

    @property
    def heir(self) -> NodeId | None:
        """Who stays behind it, once this one leaves and has given everything away."""
        return self.update.after.node if self.update.linked and self.update.leaves else None

    @property
    def left(self) -> bool:
        """Whether nobody needs it any more."""
        return self.update.finished and self.update.leaves

    def take(self, word: messages.Word) -> Outcomes:
        if word.epoch > self.epoch:
            self.early.words.append(word)
            return []
        if word.epoch < self.epoch:
            self.stale += 1
            return []
        outcomes = self._work(word.source, word.body)
        if outcomes is None:
            outcomes = self._change(word.source, word.body)
        return outcomes

    def settle(self, own: messages.Wave | None) -> Outcomes:
        """What has become possible: a batch up, a step of the update."""
        return self.virtual.send(own) + self.update.progress()

    def _work(self, source: Place, body: messages.Body) -> Outcomes | None:
        v = self.virtual
        match body:
            case messages.Climb():
                return v.climb(source, body)
            case messages.Granted():
                return v.granted(body)
            case messages.Refusal():
                return v.refused(body)
            case messages.Routed():
                return v.routed(source, body)
            case messages.Relay():
                return v.relay(source, body)
            case _:
                return None

    def _change(self, source: Place, body: messages.Body) -> Outcomes:
        update = self.update
        match body:
            case messages.Pause():
                return update.pause()
            case messages.Flush():
                update.note_flush(source, body)
            case messages.Paused():
                update.note_paused(source, body)
            case messages.Splice():
                return update.splice(body)
            case messages.Inherit():
                update.inherit(body)
            case messages.Follow():
                return update.follow(source, body)
            case messages.Done():
                update.done()
            case messages.Spliced():
                update.spliced[source] = body
            case messages.AnchorMoves():
                return self._go_on(update.become_anchor(body))
            case messages.Resume():
                return self._go_on(update.resume(body))
            case _:
                raise AssertionError(f"{self.virtual.me} is on the ring and was told {body}")
        return []

    def _go_on(self, outcomes: Outcomes) -> Outcomes:
        self.update = Update(self.virtual)
        return outcomes + [
            each for word in self.early.until(self.epoch) for each in self.take(word)
        ]


class GuestStation:
    """A newcomer's virtual node before it is on the ring (rule 15)."""

    def __init__(self, me: Virtual, standing: Standing) -> None:
        self.me: Final = me
        self.standing: Final = standing
        self.host: Place | None = None
        self.epoch = -1
        self.climbing: Climbing[messages.Wave, Any] | None = None
        self.pausing = False
        self.told_paused = False
        self.relayed = 0
        self.early: Final = Early()
        self.placed: messages.Placed | None = None

    @property
    def running(self) -> bool:
        return self.host is not None and not self.pausing

    def hosted(self, hosted: messages.Hosted) -> Outcomes:
        """A host has taken it in, or in again after an update."""
        if hosted.epoch <= self.epoch:
            return []
        self.host, self.epoch = hosted.host, hosted.epoch
        self.standing.hosts[self.me.kind] = hosted.host
        self.pausing, self.told_paused, self.relayed = False, False, 0
        if self.me.kind is Kind.LEFT:
            standing = self.standing
            self.climbing = Climbing(standing.waves, self.me.place, hosted.host)
        return [each for word in self.early.until(self.epoch) for each in self.take(word)]

    def take(self, word: messages.Word) -> Outcomes:
        """A word from the host, or from the predecessor that splices this one in."""
        if word.epoch > self.epoch:
            self.early.words.append(word)
            return []
        match word.body:
            case messages.Granted(number, grant) if self.climbing is not None:
                return [
                    messages.Share(effect.grant)
                    for effect in self.climbing.granted(number, grant)
                    if isinstance(effect, Own)
                ]
            case messages.Refusal(number) if self.climbing is not None:
                return [messages.TakenBack() for _ in self.climbing.refused(number)]
            case messages.Pause():
                self.pausing = True
            case messages.Placed():
                self.placed = word.body
                return [self.tell(word.source, messages.Done())]
            case _:
                raise AssertionError(f"{self.me} is a guest and was told {word}")
        return []

    def settle(self, own: messages.Wave | None) -> Outcomes:
        """What has become possible: a batch up, or quiet."""
        if self.host is None:
            return []
        if not self.pausing:
            effects = self.climbing.send(own) if self.climbing is not None else []
            return [
                self.tell(effect.to, messages.Climb(effect.number, effect.batch))
                for effect in effects
                if not isinstance(effect, Arrival)
            ]
        if self.told_paused or (self.climbing is not None and self.climbing.ascent is not None):
            return []
        self.told_paused = True
        ripe = self.standing.change_in(self.epoch) is Change.COMES
        return [self.tell(self.host, messages.Paused(stays=False, ripe=ripe, relayed=self.relayed))]

    def relay(self, errand: messages.Errand) -> Outcomes:
        """An errand of this node, through its host."""
        assert self.host is not None, f"{self.me} has no host"
        self.relayed += 1
        return [self.tell(self.host, messages.Relay(errand))]

    def tell(self, to: Place, body: messages.Body) -> messages.Word:
        return messages.Word(self.epoch, self.me.place, to, body)

    def spliced_in(self, placed: messages.Placed) -> RingStation:
        """This virtual node, on the ring, until work goes on."""
        self.standing.member = True
        virtual = VirtualNode(self.me, placed.pred, placed.succ, self.standing, self.epoch)
        virtual.phase = Phase.SPLICING
        virtual.table.add(placed.arc)
        virtual.guests = {guest.virtual.place: guest for guest in placed.guests}
        return RingStation(virtual, self.early)
