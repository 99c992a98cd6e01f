"""How one baton goes from place to place, as one node sees it: rules 6 to 10.

It knows which of its places are wanted, and under which ticket, but not by whom: when the token is
at such a place it is `offered`, and the node's `LocalBaton` grants it.
"""

from collections.abc import Sequence
from typing import Any, Final

from snowmelt.core.instant import Duration, Instant
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Effect, Send
from snowmelt.protocols.arrow import Followed, OrderPlace
from snowmelt.protocols.baton import messages
from snowmelt.protocols.baton.arrows import Arrows, Went
from snowmelt.protocols.baton.context import NodeContext
from snowmelt.protocols.baton.fences import NOTED_BITS, ask_for_more, may_step
from snowmelt.protocols.baton.messages import Apart, CheckPredecessor, Complaint
from snowmelt.protocols.baton.newest import Newest
from snowmelt.protocols.baton.places import TrackedPlace, TrackedPlaces
from snowmelt.protocols.baton.retired_names import NameRecord
from snowmelt.protocols.baton.token import Token

PATIENT_BEATS: Final = 8
"""A place that has one before it says nothing sooner."""
DOUBTS_AT_ONCE: Final = 100
"""So many ask on one beat; others have their turn on the next."""


class Complaints:
    """What places of one name say that wait too long, and to whom (rules 6 and 10)."""

    def __init__(self, name: str, here: NodeContext) -> None:
        self._name = name
        self._here = here
        self._complained = Instant(0)

    def say(self, waiting: Sequence[TrackedPlace], now: Instant) -> list[Effect[Any]]:
        """What is to be said on this beat, of turns for which the token is not here."""
        return [*self._doubts(waiting, now), *self._complaints(waiting, now)]

    def complaint(self, turn: TrackedPlace, *, orphan: bool) -> Send[Any]:
        return Send(self._here.root, Complaint(self._name, turn.place, orphan))

    def _doubts(self, waiting: Sequence[TrackedPlace], now: Instant) -> list[Effect[Any]]:
        """Asks the one before; where there is none for long, sends the one behind to ask anew."""
        effects: list[Effect[Any]] = []
        for turn in waiting:
            if len(effects) == DOUBTS_AT_ONCE:
                break
            if now - max(turn.since, turn.doubted) < self._patience:
                continue
            if turn.before is not None and (turn.ticket is not None or turn.behind is not None):
                turn.doubted = now
                word = CheckPredecessor(self._name, turn.place, turn.before)
                effects.append(Send(turn.before.node, word))
            elif turn.before is None and turn.behind is not None:
                turn.doubted = now
                apart = Apart(self._name, turn.behind, turn.place)
                effects.append(Send(turn.behind.node, apart))
        return effects

    def _complaints(self, waiting: Sequence[TrackedPlace], now: Instant) -> list[Effect[Any]]:
        """One a beat, of an orphan if there is one."""
        for turn in waiting:
            if turn.orphan(now, self._here.settings.beat):
                return [self.complaint(turn, orphan=True)]
        if now - self._complained < self._patience:
            return []
        for turn in waiting:
            if turn.ticket is not None and now - turn.since >= self._patience:
                self._complained = now
                return [self.complaint(turn, orphan=False)]
        return []

    @property
    def _patience(self) -> Duration:
        return Duration(PATIENT_BEATS * self._here.settings.beat)


Effects = list[Effect[Any]]


class Relay:
    """One name at one node: its places in the order, and the token while it is here."""

    def __init__(self, name: str, here: NodeContext, ways: Arrows, line: NameRecord) -> None:
        self.name: Final = name
        self.token: Token | None = None
        self.walks = False
        """Whether the token may have to go on from where it is, in the next event."""
        self.fence = line.fence
        """The largest that was here."""
        self.newest: Final = Newest(name, here, line)
        """What a new token begins with."""
        self.census = line.census
        """The last that was answered here, or before by whoever passed the token on (rule 11)."""
        self._answered = messages.CensusRound()
        self.turns: Final = TrackedPlaces()
        self._here = here
        self._ways = ways
        self._grievances = Complaints(name, here)

    @property
    def offered(self) -> int | None:
        """The ticket whose turn it is, when the token is here and nobody holds it."""
        token = self.token
        if token is None or token.standing is not messages.BatonState.IDLE:
            return None
        return self.turns.wanted(token.place)

    @property
    def busy(self) -> bool:
        token = self.token
        moving = token is not None and token.moving
        return len(self.turns) > (token is not None) or moving or self.newest.owed

    # --- places -------------------------------------------------------------------------------

    def ask(self, ticket: int, now: Instant) -> tuple[OrderPlace, Effects]:
        place, went = self._ways.ask(self.name, now)
        self.turns.at(place, now).ticket = ticket
        return place, self.carry(went, now)

    def come(self, now: Instant) -> Effects:
        """A place at the end that nobody wants: the token will rest here, if it is not wanted."""
        _, went = self._ways.ask(self.name, now)
        return self.carry(went, now)

    def renounce(self, places: Sequence[OrderPlace], now: Instant) -> None:
        """Nobody wants them any more; they stay in the order, and pass the token on."""
        for place in places:
            self.turns.at(place, now).ticket = None

    def carry(self, went: Went, now: Instant) -> Effects:
        """What came of a step of the arrows: some of this node's places have followers."""
        effects: Effects = list(went.effects)
        for followed in went.followed:
            effects += self._followed(followed, now)
        return effects

    def stands(self, place: OrderPlace, now: Instant) -> bool:
        """Whether a place is known to be in the order."""
        return self.turns.at(place, now).before is not None

    def prune(self, gone: Sequence[NodeId]) -> Effects:
        """Nodes are gone: chains are torn where their places were."""
        return self._torn(self.turns.prune(gone))

    def doubted(self, source: NodeId, word: messages.CheckPredecessor) -> Effects:
        """A place that waits asks whether it is behind one of this node's."""
        coming = self.token is not None and self.token.place == word.place
        if coming or self.turns.joined(word.before, word.place):
            return []
        return [Send(source, messages.Apart(self.name, word.place, word.before))]

    def apart(self, word: messages.Apart) -> Effects:
        """One of this node's places is behind nobody any more."""
        turn = self.turns.part(word.place, word.before)
        return [] if turn is None else self._torn([turn])

    def _torn(self, cut: Sequence[TrackedPlace]) -> Effects:
        """Whoever is behind a cut place now had better ask anew, as its own want does."""
        return [
            Send(turn.behind.node, messages.Apart(self.name, turn.behind, turn.place))
            for turn in cut
            if turn.behind is not None
        ]

    def _followed(self, followed: Followed, now: Instant) -> Effects:
        place, by = followed.place, followed.by
        turn = self.turns.follow(place, by, now)
        if turn is None:
            return []
        effects: Effects = []
        token = self.token if self.token is not None and self.token.place == place else None
        taken = turn.ticket is not None or (token is not None and token.holder is not None)
        if by.node == self._here.me:
            self.turns.put_behind(by, place, now, taken=taken)
        else:
            effects.append(Send(by.node, messages.Predecessor(self.name, by, place, taken)))
        if token is not None:
            return effects + self.pass_on(now)
        if self._here.me == self._here.root and turn.orphan(now, Duration(0)):
            effects.append(
                self._grievances.complaint(turn, orphan=True)
            )  # at first use nobody else will
        return effects

    # --- the token ----------------------------------------------------------------------------

    def arrived(self, come: messages.Pass, now: Instant) -> Effects:
        """The token comes (rule 8); and rule 11: its sender must have answered the census, too."""
        if come.census < self.census or self._here.view is None:
            return []
        if come.life != self._here.life:
            return []  # an earlier process may have had it, and handed it on
        thanks = Send(come.by, messages.Arrived(self.name, come.fence))
        if come.fence <= self.fence:
            return [thanks]
        assert self.token is None or self.token.fence < come.fence
        self.token = Token(come.fence, come.made, come.place, come.value, come.version)
        self.fence, self.census = come.fence, come.census  # rule 11: this goes on with it
        self.newest.learn(come.version, come.value)
        return [thanks, *self.pass_on(now)]

    def left(self, fence: int) -> Effects:
        if self.token is not None and self.token.moving and self.token.fence == fence:
            self.token = None
        return []

    def begin(self, place: OrderPlace, fence: int, now: Instant) -> Effects:
        """A new token, made by the root (rule 12)."""
        token = self.token = Token(fence, fence, place, self.newest.value, self.newest.version)
        anew: Effects = []
        if (
            self._here.etcd and token.version > messages.Version()
        ):  # rule 19, and then nobody's hold has it
            anew = self.change(token.value, anew=True)
            token.fence, token.given = fence + 1, 0
        self.fence = token.fence
        return [*anew, *(self.pass_on(now) if place.node == self._here.me else self._send(token))]

    def follow(self, order: messages.Follow, now: Instant) -> Effects:
        """The root knows who waits in vain while the token rests here (rule 11)."""
        token = self.token
        if (
            token is None
            or token.standing is not messages.BatonState.IDLE
            or token.fence != order.fence
        ):
            return []
        if not self._here.has(order.place.node):
            return []
        if not may_step(token, self._here):
            return [ask_for_more(self.name, token, self._here)]
        return [*self._step(order.place), *self.pass_on(now)]

    def hand_in(self, now: Instant) -> Effects:
        """This node leaves in order: what rests here is the root's to keep, and nobody waits."""
        token, here = self.token, self._here
        if token is None or token.standing is not messages.BatonState.IDLE or here.me == here.root:
            return []
        if not may_step(token, here):
            return []
        kept = OrderPlace(here.root, OperationId(here.me, token.fence), filler=True)
        return [*self._step(kept), *self.pass_on(now)]

    def tell(self, source: NodeId, census: messages.CensusRound, *, asleep: bool) -> Effects:
        """What is here, for the root.

        What is on its way is sent again at once: beats that fall together with the root's questions
        would else for ever send what the questions let fall. A question that comes twice has one
        answer: the token may have gone to one who said before that it is not there.
        """
        if census <= self._answered:
            return []
        self._answered = census
        self.census = max(self.census, census)
        token = self.token
        standing = messages.BatonState.NOTHING if token is None else token.standing
        told = messages.CensusReply(
            self.name, census, standing, self.fence, self.newest.version, asleep
        )
        again = self._send(token) if token is not None and token.moving else []
        return [Send(source, told), *again]

    def pass_on(self, now: Instant) -> Effects:
        """The token goes on until it comes to a place that is wanted, or that nobody is behind.

        In a loop: thousands in a row may have been given up. Of these some have their turn in this
        event, and the next in another (`NodeContext.steps`).
        """
        effects: Effects = []
        self.walks = False
        while (token := self.token) is not None and token.standing is messages.BatonState.IDLE:
            self.walks = not self._here.steps
            if self.walks:
                break
            self._here.steps -= 1
            place = self.turns.onward(token.place, now, self._here)
            if place is None or not may_step(token, self._here):
                break  # it rests, or is offered; or the root is asked first
            effects += self._step(place)
        return effects

    def _step(self, place: OrderPlace) -> Effects:
        """Every step takes a new fence, so none is ever granted twice."""
        token = self.token
        assert token is not None
        token.fence += 1
        token.given = 0
        self.fence = token.fence
        token.place = place
        on = [] if place.node == self._here.me else self._send(token)
        if self.fence % (1 << NOTED_BITS):
            return on
        return [ask_for_more(self.name, token, self._here), *on]

    def _send(self, token: Token) -> Effects:
        token.moving = True
        life = self._here.life_of(token.place.node)
        assert life is not None, f"{self.name} goes to {token.place.node}, who is not in the view"
        word = messages.Pass(
            name=self.name,
            by=self._here.me,
            life=life,
            place=token.place,
            fence=token.fence,
            made=token.made,
            value=token.value,
            version=token.version,
            census=self.census,
        )
        return [Send(token.place.node, word)]

    # --- the value ----------------------------------------------------------------------------

    def change(self, value: bytes, *, anew: bool = False) -> Effects:
        """The holder gives another value; the root has a copy, behind the hand-over (rule 14)."""
        token = self.token
        assert token is not None
        if value == token.value and not anew:
            return []
        token.version, token.value = token.next_version(), value
        self.newest.learn(token.version, value)
        return [*self.newest.tell()]

    def backup(self, version: messages.Version, value: bytes, number: int) -> Send[Any]:
        """A value that the root is to keep before its holder goes on."""
        word = messages.Backup(self.name, version, value, number, epoch=self._here.epoch)
        return Send(self._here.root, word)

    # --- time ---------------------------------------------------------------------------------

    def beat(self, now: Instant) -> Effects:
        """Sends again what may be lost, and complains where nothing comes (rules 8 and 10)."""
        effects: Effects = []
        token = self.token
        if token is not None and token.moving:
            effects += self._send(token)
        elif token is not None and not may_step(token, self._here):
            effects.append(ask_for_more(self.name, token, self._here))
        effects += self.newest.beat()
        here = None if token is None or token.moving else token.place
        self.turns.forget(now, self._here.settings.awake, here)
        waiting = [one for one in self.turns if one.place != here]
        return effects + self._grievances.say(waiting, now)
