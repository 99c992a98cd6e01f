"""The machine of one node for all its batons; its rules are in the package's docstring."""

from collections import deque
from collections.abc import Iterator
from enum import Enum
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

from snowmelt.core.errors import BadOption, SnowmeltError
from snowmelt.core.instant import Duration, Instant, later
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import (
    Announce,
    Announced,
    Event,
    Expired,
    Note,
    Persisted,
    PersistFailed,
    Received,
    Reply,
    Requested,
    Send,
    SetTimer,
    Started,
)
from snowmelt.core.shares import SharesHeld, has_share
from snowmelt.protocols.arrow import Branch, Claim, Ground, TreeNode
from snowmelt.protocols.arrow.rings import neighbours
from snowmelt.protocols.baton import calls, messages
from snowmelt.protocols.baton.arrows import AT_ONCE, Arrows, Went
from snowmelt.protocols.baton.baton import LocalBaton, behind, knows, refused
from snowmelt.protocols.baton.context import NEVER, STEPS_AT_ONCE, NodeContext
from snowmelt.protocols.baton.ended_holds import EndReason
from snowmelt.protocols.baton.given_values import GivenValues
from snowmelt.protocols.baton.names import Involved, Names, keep_many
from snowmelt.protocols.baton.registrar import Registrar
from snowmelt.protocols.baton.relay import Effects
from snowmelt.protocols.baton.settings import TOPICS, BatonSettings, baton_name, baton_value
from snowmelt.protocols.calling import Came, Declined, Gone
from snowmelt.protocols.host import Family
from snowmelt.protocols.membership import Current, CutOff, Leads, LeadsNoMore, RecordsKept, View

NAMES_MAX: Final = 10_000
LOOKED_AT: Final = 100
"""So many names are looked at together on the beat."""
PARTS: Final = 20
"""Where there are more, the next of them have their turn when so little of a beat is over. So 2,000
names have their look each beat, in a fifth of the processor, and 10,000 in five beats."""
PLACES_AT_ONCE: Final = 2_000
"""Once the names of an event have so many places, the others have their turn in the next."""
PLACES_MAX: Final = 5_000
"""So many of one name are asked for at one node at a time; a look at them takes milliseconds."""
ALL_PLACES_MAX: Final = 100_000
"""So many of all names together."""


class BatonAlarm(Enum):
    BEAT = "baton.beat"
    DUE = "baton.due"


class BatonNode:
    """One node's part in all batons.

    >>> node = BatonNode(NodeId("n1"), BatonSettings(), Random(1))
    >>> operation = OperationId(NodeId("c1"), 1)
    >>> keep = calls.Renew("a b", 1, 1, None)
    >>> node.handle(Requested(operation, keep), Instant(0))[0].message.error
    'BadOption'
    """

    def __init__(
        self,
        me: NodeId,
        settings: BatonSettings,
        chance: Random,
        *,
        etcd: bool = False,
        alone: bool = False,
    ) -> None:
        self._here = NodeContext(me, settings, chance, etcd=etcd, alone=alone)
        self._ways = Arrows(self._here)
        self._names = Names(self._here, self._ways)
        self._registrar = Registrar(self._here, self._names)
        self._involved = Involved(self._names)
        self._due: list[tuple[Instant, str]] = []
        self._reminded: dict[str, Instant] = {}
        self._alarm: Instant | None = None
        self._round: tuple[deque[str], deque[str]] = deque(), deque()
        """Whose arrows, and which batons, have yet to be looked at on this beat."""
        self._next_round = Instant(0)
        self._places = SharesHeld[str]()
        """How many places there were when they were counted last, and asked for since; by who made
        a name be used."""
        self._given = GivenValues()

    def handle(self, event: Event[messages.Message], now: Instant) -> Effects:
        """One door in. Whoever slept may be woken by any event, so rule 9 is looked at first."""
        self._here.steps = STEPS_AT_ONCE
        if self._here.view is not None and now >= self._here.until:
            return self._cut_off() + self.handle(event, now)
        match event:
            case Received(source, message):
                return self._received(source, message, now) + self._remind(message.name)
            case Requested(operation, call):
                return self._requested(operation, call, now)
            case Expired(BatonAlarm.DUE):
                return self._expire(now)
            case Expired():
                return self._beat(now)
            case Persisted(ticket):
                return self._registrar.persisted(ticket, now)
            case PersistFailed(ticket, reason):
                return self._registrar.persisted(ticket, now, reason)
            case Announced(fact):
                return self._announced(fact, now)
            case Started():
                beat = SetTimer(BatonAlarm.BEAT, later(now, self._here.settings.beat))
                return [*self._registrar.started(event, now), beat]
            case _:
                return []

    def check(self) -> None:
        self._ways.check()
        due = self._names.stirred.union(self._round[1])
        for baton in self._names:
            name, token = baton.name, baton.relay.token
            assert name in due or not baton.busy, f"{name} is busy, and not looked at"
            if token is None:
                continue
            assert token.fence == baton.relay.fence, f"{name}: {token.fence} is not the largest"
            assert not (token.moving and token.holder), f"{name} is held while it moves"
            assert baton.relay.offered is None, f"{name} is here for somebody, and not granted"

    # --- from other nodes -------------------------------------------------------------------------

    def _received(self, source: NodeId, message: messages.Message, now: Instant) -> Effects:
        if not messages.sound(message):
            kind = type(message).__name__
            return [Note(f"{source} sent a {kind} of {message.name} with a number out of bounds")]
        match message:
            case messages.Along():
                return self._along(source, message, now)
            case messages.Complaint():
                return self._registrar.complained(message, now)
            case messages.CensusReply():
                return self._registrar.told(source, message, now)
            case messages.Backup():
                return self._registrar.backup(source, message) + self._registrar.flush(now)
            case messages.Reached():
                return self._registrar.reached(source, message)
            case messages.Forgo():
                return self._registrar.forgo(message.name)
            case messages.Quiet():
                return self._registrar.quiet(source, message, now)
            case messages.Fold():
                folds = source == self._here.root and self._names.fold(message, now)
                return self._registrar.folded(message.name) if folds else []
            case messages.CensusQuery(_, census):
                view = self._here.view
                if view is None or census.epoch != view.epoch:
                    return []
                return self._names.tell(source, message.name, census, now)
            case _:
                return self._of_one(source, message, self._names.use(message.name, now), now)

    def _of_one(
        self, source: NodeId, message: messages.Message, baton: LocalBaton, now: Instant
    ) -> Effects:
        relay = baton.relay
        match message:
            case messages.Predecessor():
                return behind(baton, message, now)
            case messages.CheckPredecessor():
                return relay.doubted(source, message)
            case messages.Apart():
                return relay.apart(message)
            case messages.Pass():
                effects = relay.arrived(message, now) + baton.settle(now)
                return effects + self._registrar.came(message.name, now)
            case messages.Arrived(_, fence):
                return relay.left(fence)
            case messages.Follow():
                return relay.follow(message, now) + baton.settle(now)
            case messages.Void(_, fence):
                token = relay.token
                return baton.lose(EndReason.VOID) if token and token.fence <= fence else []
            case messages.Yield():
                return [relay.backup(relay.newest.version, relay.newest.value, 0)]
            case messages.Stored():
                return [] if relay.newest.answered(message) else baton.saving.stored(message, relay)
            case messages.Reserved(_, term):
                if source == self._here.root:
                    self._here.reserved = max(self._here.reserved, term)
                return baton.settle(now)
            case messages.Spoiled(_, text):
                return refused(baton, source, text, now) if source == self._here.root else []
            case _:
                return []

    def _along(self, source: NodeId, along: messages.Along, now: Instant) -> Effects:
        if along.name in self._names.folds:
            self._names.use(along.name, now)  # its token rests where arrows point before they turn
        return self._went(along.name, self._ways.received(source, along, now), now)

    def _went(self, name: str, went: Went, now: Instant) -> Effects:
        if not went.followed:
            return went.effects
        baton = self._names.use(name, now)
        effects = baton.relay.carry(went, now) + baton.settle(now)
        self._names.stir(baton)
        return effects

    # --- from clients -----------------------------------------------------------------------------

    def _requested(self, operation: OperationId, call: Any, now: Instant) -> Effects:
        try:
            if isinstance(call, calls.ListBatons):
                names = self._names.page(call.after, calls.NAMES_AT_ONCE, call.only)
                return [Reply(operation, calls.BatonNames(names))]
            if isinstance(call, calls.LookAtBatons):
                some = self._names.looks(call.after, calls.NAMES_AT_ONCE, call.only)
                return [Reply(operation, calls.BatonLooks(some))]
            if isinstance(call, calls.RenewMany):
                answer, kept = keep_many(operation, call, self._here, self._names, now)
                self._involved.add(operation.client, kept)
                return [answer]
            baton_name(call.name)
            if isinstance(call, calls.Acquire) and call.name.startswith(TOPICS):  # rule 17
                raise BadOption("baton", call.name, f"none that begins with {TOPICS}")
            if isinstance(call, calls.ResetBaton):
                return self._registrar.reset(operation, call.name)
            if isinstance(call, calls.SaveValue | calls.Release) and call.value is not None:
                baton_value(call.value, self._here.value_bytes_max)
        except SnowmeltError as error:
            return [Reply(operation, Declined(type(error).__name__, str(error)))]
        baton = self._names.get(call.name)
        if baton is None and isinstance(call, calls.Acquire):
            who = self._payer(operation)
            there, own = len(self._names), self._names.shares.held(who)
            if not has_share(own, 1, self._room - there):
                text = (
                    f"{there} batons are in use at this node, which has {self._room}, and {own} of "
                    "them here: use fewer names at a time"
                )
                return [Reply(operation, Declined("Full", text))]
            baton = self._names.bring(call.name, who, now)
        elif baton is None:
            baton = self._names.glimpse(call.name)
        if isinstance(call, calls.Acquire) and not knows(baton, call.ticket):
            places = len(baton.relay.turns)
            own = baton.wants.count(operation.client)
            whose, all_ = self._names.maker(call.name), self._places
            has_room = has_share(own, 1, PLACES_MAX - places)
            if not (has_room and all_.has_room(whose, 1, ALL_PLACES_MAX)):
                text = f"{places} wait for {call.name!r} here, {all_.total} for all: try later"
                return [Reply(operation, Declined("Full", text))]
            all_.add(whose)
        return self._call(operation, call, baton, now) + self._remind(call.name)

    @property
    def _room(self) -> int:
        """The root has the names of all nodes."""
        view = self._here.led
        return NAMES_MAX if view is None else NAMES_MAX * len(view.members)

    def _call(self, operation: OperationId, call: Any, baton: LocalBaton, now: Instant) -> Effects:
        match call:
            case calls.Acquire():
                self._ways.wake(call.name, now)
                effects = baton.acquire(operation, call, now)
                self._involved.add(operation.client, (call.name,))
                return effects
            case calls.Renew():
                if baton.keep(operation, call, now):
                    self._involved.add(operation.client, (call.name,))
                    return [Reply(operation, calls.Renewed(self._here.settings.lease))]
                return [baton.endings.not_held(operation, call)]
            case calls.Release() | calls.SaveValue() if baton.holder(call) is not None and (
                wrong := self._given.give(call.name, call.value, self._payer(operation))
            ):
                return [Reply(operation, Declined("Full", wrong))]
            case calls.Release():
                return baton.release(operation, call, now)
            case calls.SaveValue():
                return baton.save(operation, call, now)
            case calls.GetBaton():
                return [Reply(operation, baton.status())]
            case _:
                return []

    def _payer(self, operation: OperationId) -> str:
        return self._here.payers.of(operation.client) or operation.client

    # --- from this process ------------------------------------------------------------------------

    def _announced(self, fact: object, now: Instant) -> Effects:
        match fact:
            case View() as view:
                return self._entered(view, now)
            case Current(until):
                self._here.until = until
                return []
            case CutOff(_, leaving):
                handed = self._each(lambda baton: baton.relay.hand_in(now)) if leaving else []
                return handed + self._cut_off()
            case Branch() as branch:
                return self._grown(branch, now)
            case Leads() | LeadsNoMore() | RecordsKept():
                return self._by_etcd(fact, now)
            case Came():
                self._here.payers.hear(fact)
                return []
            case Gone(client):
                self._here.payers.hear(fact)
                return self._left(client, now)
            case messages.SeekBaton(name, ticket):
                self._ways.wake(name, now)
                return self._names.use(name, now).seek(ticket, now) + self._remind(name)
            case messages.Drop(name, ticket, value):
                return self._names.use(name, now).drop(ticket, value, now) + self._remind(name)
            case _:
                return []

    def _by_etcd(self, fact: Leads | LeadsNoMore | RecordsKept, now: Instant) -> Effects:
        """Where etcd decides: this node comes to be the root, or is it no more, or has kept."""
        match fact:
            case Leads():
                return self._registrar.lead(fact, now)
            case LeadsNoMore():
                self._registrar.lead_no_more()
                return []
            case RecordsKept(_, tickets):
                effects: Effects = []
                for ticket in tickets:
                    effects += self._registrar.persisted(ticket, now)
                return effects

    def _entered(self, view: View, now: Instant) -> Effects:
        """A new view: the tree grows on it, and places of nodes that are gone are cut off."""
        gone = self._here.enter(view)
        effects = self._registrar.entered(gone, now)
        for baton in self._names:
            token = baton.relay.token
            if token is not None and token.moving and token.place.node in gone:
                effects += baton.lose(EndReason.VOID)  # it may have come there before the end
            effects += baton.relay.prune(gone)
            self._names.stir(baton)
        self._ways.wake_all(now)
        nodes = [one.id for one in view.members]
        if self._here.me not in nodes:
            return effects
        near = neighbours(self._here.me, nodes)
        return [*effects, Announce(Ground(view.coordinator, len(nodes), near))]

    def _grown(self, branch: Branch, now: Instant) -> Effects:
        effects: Effects = []
        grown = self._ways.grow(branch, now)
        for name, went in grown.items():
            effects += self._went(name, went, now)
        return effects + self._remind(*grown)

    def _cut_off(self) -> Effects:
        """Nothing here can be known to be the baton still (rule 9)."""
        self._here.view = None
        self._names.folds.lose()
        return self._each(lambda baton: baton.lose(EndReason.CUT_OFF))

    def _left(self, client: NodeId, now: Instant) -> Effects:
        """Rule 13. Thousands of clients may end one by one, so each costs only its own names."""
        concerned = self._involved.take(client)
        effects: Effects = []
        for baton in concerned:
            effects += baton.gone(client, now)
        return effects + self._remind(*(baton.name for baton in concerned))

    def _each(self, step: Any) -> Effects:
        effects: Effects = []
        for baton in self._names:
            effects += step(baton)
        return effects + self._remind(*(baton.name for baton in self._names))

    # --- time -------------------------------------------------------------------------------------

    def _beat(self, now: Instant) -> Effects:
        """Looks at every name; where there are many, at some now and at others soon."""
        settings = self._here.settings
        arrows, batons = self._round
        if not (arrows or batons):
            self._next_round = later(now, settings.beat)
            arrows.extend(self._ways.due(now))
            self._places = SharesHeld()
            for baton in self._names.take_stirred():
                batons.append(baton.name)
                self._places.add(self._names.maker(baton.name), len(baton.relay.turns))
        effects: Effects = []
        if self._here.view is not None:
            for name, went in self._ways.beat(_some(arrows), now).items():
                effects += self._went(name, went, now)
            places = 0
            for name in _some(batons):
                effects += self._beat_of(name, now)
                looked = self._names.get(name)
                places += 0 if looked is None else len(looked.relay.turns)
                if places >= PLACES_AT_ONCE:
                    break
            root = self._here.root
            effects += self._registrar.flush(now)
            effects += [Send(root, quiet) for quiet in self._names.drowsy(now)]
        else:
            self._names.stirred.update(batons)
            arrows.clear()
            batons.clear()
        soon = later(now, Duration(settings.beat // PARTS))
        at = soon if arrows or batons else max(soon, self._next_round)
        return [*effects, SetTimer(BatonAlarm.BEAT, at)]

    def _beat_of(self, name: str, now: Instant) -> Effects:
        baton = self._names.get(name)
        if baton is None or not baton.busy:
            return []
        self._ways.wake(name, now)
        return baton.beat(now) + self._remind(name)

    def _expire(self, now: Instant) -> Effects:
        """What is due at each name; a time that was put off since is noticed then."""
        self._alarm = None
        effects: Effects = []
        names: dict[str, None] = {}
        while (
            self._due
            and self._due[0][0] <= now
            and len(names) < AT_ONCE
            and len(effects) < PLACES_AT_ONCE
        ):
            name = heappop(self._due)[1]
            if name in names:
                continue
            names[name] = None
            self._reminded.pop(name, None)
            baton = self._names.get(name)
            effects += [] if baton is None else baton.expire(now)
        return [*effects, *self._remind(*names)]

    def _remind(self, *names: str) -> Effects:
        """Sees to it that what is due at these names will be done. O(names log due)."""
        for name in names:
            baton = self._names.get(name)
            if baton is None:
                continue
            self._names.stir(baton)
            due = baton.due
            if due is not None and due < self._reminded.get(name, NEVER):
                self._reminded[name] = due
                heappush(self._due, (due, name))
        if not self._due or self._alarm == self._due[0][0]:
            return []
        self._alarm = self._due[0][0]
        return [SetTimer(BatonAlarm.DUE, self._alarm)]


def _some(names: deque[str]) -> Iterator[str]:
    """The next ones, each taken out."""
    for _ in range(min(LOOKED_AT, len(names))):
        yield names.popleft()


def families(
    me: NodeId,
    settings: BatonSettings,
    chance: Random,
    *,
    etcd: bool = False,
    alone: bool = False,
) -> list[Family]:
    """The tree and the batons on it, as two machines of one node.

    `etcd` says whether etcd decides, `alone` that nobody else can hold anything: who did in earlier
    lives of this node was in its process, which has ended.
    """
    return [
        Family("tree", TreeNode(me, settings.tree), (Claim,)),
        Family("baton", BatonNode(me, settings, chance, etcd=etcd, alone=alone), messages.MESSAGES),
    ]
