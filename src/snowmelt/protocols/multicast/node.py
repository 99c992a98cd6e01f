"""The machine of one node for all its topics; its rules are in the package's docstring."""

from enum import Enum
from random import Random
from typing import Any, Final

from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import Instant, later
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import (
    Announce,
    Announced,
    Effect,
    Event,
    Expired,
    Note,
    Received,
    Reply,
    Requested,
    SetTimer,
    Started,
)
from snowmelt.core.shares import SharesHeld
from snowmelt.protocols.baton.messages import BatonGot, Drop
from snowmelt.protocols.baton.settings import TOPICS
from snowmelt.protocols.calling import Came, Declined, Gone, Payers
from snowmelt.protocols.host import Family
from snowmelt.protocols.membership import CutOff, View
from snowmelt.protocols.multicast import messages
from snowmelt.protocols.multicast.calls import Listen, Publish
from snowmelt.protocols.multicast.circle import Circle
from snowmelt.protocols.multicast.receiver import TopicReceiver
from snowmelt.protocols.multicast.settings import (
    MulticastSettings,
    check_bodies,
    is_topic_name,
    topic_name,
)
from snowmelt.protocols.multicast.topic import Topic

Effects = list[Effect[Any]]

TOPICS_MAX: Final = 1_000
FEW: Final = 100
"""Of so many topics nodes tell each other on every beat how far they are (rule 9)."""


class MulticastAlarm(Enum):
    BEAT = "multicast.beat"


class MulticastNode:
    """One node's part in all topics.

    >>> node = MulticastNode(NodeId("n1"), MulticastSettings(), Random(1))
    >>> operation = OperationId(NodeId("c1"), 1)
    >>> node.handle(Requested(operation, Publish("a b", 1, (b"x",), 0)), Instant(0))[0].message
    Declined(error='BadOption', text="topic is 'a b'; allowed: ...)
    """

    def __init__(self, me: NodeId, settings: MulticastSettings, chance: Random) -> None:
        self._circle = Circle(me)
        self._settings = settings
        self._chance = chance
        self._topics: dict[str, Topic] = {}
        self._payers = Payers()
        self._made = SharesHeld[str]()
        self._makers: dict[str, str] = {}
        """Who pays for each topic that a client of this node named first."""
        self._full: dict[str, Instant] = {}
        """Whose topics are all in use, and until when they are not looked through again, however
        often more are asked for. "" stands for everybody's."""

    def handle(self, event: Event[messages.Message], now: Instant) -> Effects:
        match event:
            case Received(source, message):
                return self._received(source, message, now)
            case Requested(operation, call):
                return self._requested(operation, call, now)
            case Announced(fact):
                return self._announced(fact, now)
            case Expired():
                return self._beat(now)
            case Started():
                return [self._next_beat(now)]
            case _:
                return []

    def check(self) -> None:
        for topic in self._topics.values():
            topic.check()

    # --- from other nodes -------------------------------------------------------------------------

    def _received(self, source: NodeId, message: messages.Message, now: Instant) -> Effects:
        if not self._circle.has(source):
            return []  # whoever is not known yet says it again
        if not messages.sound(message):
            kind = type(message).__name__
            return [Note(f"{source} sent a {kind} of {message.name} with a position out of bounds")]
        if isinstance(message, messages.Broadcast):
            if not self._may_begin(message.name, now):
                return []
            return self._topic(message.name).said(source, message.publications, now)
        topic = self._topics.get(message.name)
        if topic is None:
            return self._unknown(source, message)
        match message:
            case messages.Acknowledge():
                return topic.heard(source, message, now)
            case messages.Upto(_, end):
                topic.hearing.upto(end)
                return []
            case messages.FindFirst(_, start):
                return topic.hearing.asked(source, start)
            case messages.Have():
                return topic.have(source, message, now)
            case messages.FetchPublications(_, start):
                return topic.hearing.fetched(source, start)

    def _may_begin(self, name: str, now: Instant) -> bool:
        """Whether another node may speak of this topic: all have a client's room for theirs."""
        nodes = len(self._circle.others) + 1
        return name in self._topics or (is_topic_name(name) and self._room(now, nodes))

    def _unknown(self, source: NodeId, message: messages.Message) -> Effects:
        """About a topic of which nobody spoke here: a question is answered without making it."""
        if not isinstance(message, messages.FindFirst):
            return []
        return TopicReceiver(message.name, self._circle, self._settings).asked(
            source, message.start
        )

    # --- from clients -----------------------------------------------------------------------------

    def _requested(self, operation: OperationId, call: Any, now: Instant) -> Effects:
        try:
            topic_name(call.name)
            if isinstance(call, Publish):
                check_bodies(call.bodies)
        except SnowmeltError as error:
            return [Reply(operation, Declined(type(error).__name__, str(error)))]
        if not self._circle.current:
            return [Reply(operation, self._elsewhere)]
        if call.name not in self._topics:
            who = self._payers.of(operation.client) or operation.client
            if not self._may_make(who, now):
                text = f"{self._circle.me} has {len(self._topics)} topics in use, of {TOPICS_MAX}"
                text += f", {self._made.held(who)} of {who}, and nobody may have most of them"
                return [Reply(operation, Declined("Full", text))]
            self._makers[call.name] = who
            self._made.add(who)
        topic = self._topic(call.name)
        match call:
            case Publish():
                return topic.publish(operation, call, now)
            case Listen():
                return topic.listen(operation, call, now)
            case _:
                return []

    @property
    def _elsewhere(self) -> Declined:
        text = f"{self._circle.me} has no current view of the cluster; ask another node"
        return Declined("Unavailable", text)

    def _room(self, now: Instant, nodes: int = 1) -> bool:
        """Whether there is room for a topic, once one that nobody uses is forgotten."""
        return len(self._topics) < TOPICS_MAX * nodes or self._forgets("", now)

    def _may_make(self, who: str, now: Instant) -> bool:
        """Whether there is room for a topic for which this one pays, and others keep theirs."""
        has_room = self._made.has_room(who, 1, TOPICS_MAX)
        return self._room(now) if has_room else self._forgets(who, now)

    def _forgets(self, who: str, now: Instant) -> bool:
        """Whether a topic of this one, or of anybody, is used by nobody; it makes room."""
        if now < self._full.get(who, now):
            return False
        its = (name for name, maker in self._makers.items() if maker == who)
        names = its if who else iter(self._topics)
        unused = next((name for name in names if self._topics[name].idle(now)), None)
        if unused is None:
            self._full[who] = later(now, self._settings.beat)
            return False
        del self._topics[unused]
        maker = self._makers.pop(unused, None)
        if maker is not None:
            self._made.remove(maker)
        return True

    def _topic(self, name: str) -> Topic:
        topic = self._topics.get(name)
        if topic is None:
            topic = Topic(name, self._circle, self._settings, self._chance)
            self._topics[name] = topic
        return topic

    # --- from this process ------------------------------------------------------------------------

    def _announced(self, fact: object, now: Instant) -> Effects:
        match fact:
            case BatonGot(name, ticket) if name.startswith(TOPICS):
                topic = self._topics.get(name.removeprefix(TOPICS))
                return topic.got(fact, now) if topic else [Announce(Drop(name, ticket, None))]
            case View() as view:
                gone = self._circle.enter(view)
                return self._each(lambda topic: topic.entered(gone, now))
            case CutOff():
                self._circle.current = False
                return self._each(lambda topic: topic.cut_off(self._elsewhere, now))
            case Came():
                self._payers.hear(fact)
                return []
            case Gone(client):
                self._payers.hear(fact)
                for topic in self._topics.values():
                    topic.gone(client)
                return []
            case _:
                return []

    def _each(self, step: Any) -> Effects:
        effects: Effects = []
        for topic in self._topics.values():
            effects += step(topic)
        return effects

    # --- time -------------------------------------------------------------------------------------

    def _next_beat(self, now: Instant) -> SetTimer:
        return SetTimer(MulticastAlarm.BEAT, later(now, self._settings.beat))

    def _beat(self, now: Instant) -> Effects:
        self._trim()
        self._full.clear()
        many = len(self._topics) > FEW
        return [*self._each(lambda topic: topic.beat(now, many=many)), self._next_beat(now)]

    def _trim(self) -> None:
        """All topics together keep no more than they may."""
        if (
            sum(topic.hearing.line.bytes for topic in self._topics.values())
            <= self._settings.node_bytes
        ):
            return
        share = self._settings.node_bytes // len(self._topics)
        for topic in self._topics.values():
            topic.hearing.line.trim(share)


def family(me: NodeId, settings: MulticastSettings, chance: Random) -> Family:
    """The topics of one node, as a machine of its own beside the batons."""
    return Family("multicast", MulticastNode(me, settings, chance), messages.MESSAGES)
