"""A priority queue in a small world: a few nodes, users with short programs, and their views.

The machine is explored in its host. Below it stands a membership that does what it promises and no
more: each view is a number, and everybody enters it at a moment of its own, or misses it when the
next is there. A process that begins again gets a view of its own; where `misses` is set, one that
ends gets a view without it first. A program does one thing after another: `put 1` an element of
this priority, `get` one, `ack` it, and `look 0` when everybody else is at an end: so many are to be
there. Users stand beside their nodes: what they are told they know at once. Where a process ends
they ask another node under the same number; who is `hasty` does so once at any moment before the
answer, and one who is `unheard` when its first answer is lost.

What may never be seen: whatever the checkers of a priority queue's history find (`check`). Times
there are the order in which calls and answers came. Besides:

1. *Alone.* Nobody is leased what another, whose lease runs, holds and has not given up.
2. *Held.* While nothing is hurt nobody is told that what he holds is not his.
3. *Served.* By the horizon every get has got something, and every call is answered.
4. *Empty.* At the end there is nothing left.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Final, NamedTuple

from snowmelt.check.conservation import check_conservation
from snowmelt.check.heap import check_heap
from snowmelt.check.history import Ended, History, Kind, Operation
from snowmelt.check.leases import check_leases
from snowmelt.check.sequence import check_linear, check_sequence
from snowmelt.check.verdict import Invalid
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announced, Effect, Node, Received, Send
from snowmelt.protocols.calling import Answer, Call, Declined, Elsewhere
from snowmelt.protocols.host import Family, Host
from snowmelt.protocols.membership import Member, View
from snowmelt.protocols.priority import MESSAGES, calls
from snowmelt.protocols.priority.batches import Share
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.settings import QueueSettings
from snowmelt.sim.explore.small import Act, Look, SmallLife
from snowmelt.sim.explore.value import Dice, LeftOut
from snowmelt.sim.families.membership import address
from snowmelt.sim.families.priority_planted import machine
from snowmelt.sim.planted import Bug, planted
from snowmelt.sim.world import Broken

QUEUE: Final = "q"
LIMITS: Final = Limits(block=1, deal=0)
NEWS: Final = seconds(1)
"""Who is in a view hears of the next within a heartbeat."""
PATIENCE: Final = seconds(4)
"""How long a get waits for something."""
DECLINED: Final = milliseconds(500)
"""The same of who was told that it can't be done now."""
CHECKS: Final = (check_sequence, check_linear, check_leases, check_heap, check_conservation)


class User(NamedTuple):
    name: NodeId
    node: NodeId
    rest: tuple[str, ...]
    """What is still to be done."""
    body: Any = None
    """What was asked, and is not answered."""
    asked: bool = False
    """Whether a node has been asked, that may answer still."""
    since: Instant = Instant(0)
    """When it was asked last, or must be asked again at the latest."""
    number: int = 0
    called: int = 0
    got: str = ""
    receipt: calls.Receipt | None = None
    hasty: int = 0
    """Whether it may yet ask another before it is answered."""
    unheard: int = 0
    """Whether its next answer is lost."""
    held: Instant | None = None
    """Until when it holds what it got, for certain."""


class Scene(NamedTuple):
    users: tuple[User, ...]
    views: tuple[View, ...] = ()
    entered: tuple[int, ...] = ()
    """How many of them each node has entered in this life, counted from the first."""
    since: Instant = Instant(0)
    """When the last view was decided."""
    history: tuple[Operation, ...] = ()
    counted: int = 0
    """How many calls were made or answered."""
    opened: bool = False

    def with_(self, user: User) -> "Scene":
        users = tuple(user if one.name == user.name else one for one in self.users)
        return self._replace(users=users)


class PriorityWorld(SmallLife):
    """One node, two priorities, and somebody for each."""

    words: ClassVar[str] = "one node; two who put, of different priorities, and one who gets both"
    left_out: ClassVar[LeftOut] = frozenset(
        {
            ("Host", "strays"),
            ("Desk", "now"),  # it is set before anything is done
            ("Placing", "_known"),  # what was asked before; it changes nothing
            ("Spread", "_known"),
        }
    )
    horizon = Instant(seconds(40))
    nodes: tuple[NodeId, ...] = (NodeId("n1"),)
    mortal: tuple[NodeId, ...] = nodes
    users: ClassVar[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
        ("p1", "n1", ("put 1",)),
        ("p2", "n1", ("put 0",)),
        ("c1", "n1", ("get", "ack", "get", "ack", "look 0")),
    )
    settings: ClassVar[QueueSettings] = QueueSettings(
        queue=QUEUE, priorities=2, replicas=2, lease=seconds(1)
    )
    hasty: ClassVar[tuple[str, ...]] = ()
    """Who asks another node before the answer comes, perhaps."""
    unheard: ClassVar[tuple[str, ...]] = ()
    """Whose first answer is lost."""
    misses: ClassVar[bool] = False
    """Whether a process that ends is missed before it is back."""

    def __init__(self, bug: Bug | None = None) -> None:
        super().__init__(bug)
        self.prelude = (
            *(f"start {node}" for node in self.nodes),
            *(f"{node} enters view {len(self.nodes)}" for node in self.nodes),
            "the queue is made",
        )

    def build(self, node: NodeId, life: int) -> Node[Any]:
        family = Family("priority", machine(self._bug, node, Dice(life), LIMITS), MESSAGES)
        return planted(self._bug, Host(node, [family]))

    def opening(self) -> Scene:
        users = tuple(
            User(
                NodeId(name),
                NodeId(node),
                does,
                hasty=int(name in self.hasty),
                unheard=int(name in self.unheard),
            )
            for name, node, does in self.users
        )
        return Scene(users, entered=(0,) * len(self.nodes))

    # --- what may be done -------------------------------------------------------------------------

    def acts(self, look: Look) -> Iterator[Act]:
        scene: Scene = look.scene
        for at, node in enumerate(self.nodes):
            if look.of(node).runs and scene.entered[at] < len(scene.views):
                yield self._enters(scene, at)
        there = [
            node for at, node in enumerate(self.nodes) if look.of(node).runs and scene.entered[at]
        ]
        if not there:
            return
        if not scene.opened:
            event = Received(NodeId("founder"), Call(1, calls.Open(QUEUE, self.settings)))
            opened = scene._replace(opened=True)
            yield Act("the queue is made", opened, there[0], (event,))
            return
        for user in scene.users:
            yield from self._goes_on(look, user, there)

    def _enters(self, scene: Scene, at: int) -> Act:
        node, view = self.nodes[at], scene.views[-1]
        entered = (*scene.entered[:at], len(scene.views), *scene.entered[at + 1 :])
        until = scene.since if not scene.entered[at] else later(scene.since, NEWS)
        after = scene._replace(entered=entered)
        return Act(f"{node} enters view {view.epoch}", after, node, (Announced(view),), until)

    def _goes_on(self, look: Look, user: User, there: list[NodeId]) -> Iterator[Act]:
        scene: Scene = look.scene
        if user.body is None and self._may(scene, user):
            node = user.node if user.node in there else there[0]
            body, user = self._call(look, user, node)
            number = user.number + 1
            user = user._replace(
                node=node,
                body=body,
                asked=True,
                since=look.now,
                number=number,
                called=scene.counted,
            )
            scene = scene._replace(counted=scene.counted + 1).with_(user)
            words = f"{user.name} {user.rest[0]}s"
            yield Act(words, scene, node, (Received(user.name, Call(number, body)),))
        elif user.body is not None and not user.asked:
            yield self._again(look, user, user.node if user.node in there else there[0])
        elif user.body is not None and user.hasty:
            turn = [*there[there.index(user.node) + 1 :], *there] if user.node in there else there
            yield self._again(look, user._replace(hasty=0, since=self.horizon), turn[0])

    def _again(self, look: Look, user: User, node: NodeId) -> Act:
        until = user.since
        user = user._replace(node=node, asked=True, since=look.now)
        event = Received(user.name, Call(user.number, user.body))
        words = f"{user.name} asks {node} again"
        return Act(words, look.scene.with_(user), node, (event,), until)

    @staticmethod
    def _may(scene: Scene, user: User) -> bool:
        if not user.rest:
            return False
        others = [one for one in scene.users if one.name != user.name]
        last = user.rest[0].startswith("look")
        return not (last and any(one.rest or one.body for one in others))

    def _call(self, look: Look, user: User, node: NodeId) -> tuple[Any, User]:
        at = self.nodes.index(node)
        view = look.scene.views[look.scene.entered[at] - 1]
        member = view.member(node)
        assert member is not None
        via = calls.Via(node, member.life)
        word = user.rest[0]
        if word.startswith("put"):
            batch = Batch.of([_value(user._replace(number=user.number + 1)).encode()])
            part = calls.Part(int(word[-1]), bytes(batch.offsets), bytes(batch.blob))
            return calls.Put(QUEUE, via, (part,)), user
        if word == "get":
            return calls.Get(QUEUE, via, 1, PATIENCE), user
        if word == "ack":
            assert user.receipt is not None
            return calls.Settle(QUEUE, done=(user.receipt,)), user._replace(held=None)
        return calls.Statistics(QUEUE), user

    # --- processes come and go --------------------------------------------------------------------

    def started(self, look: Look, node: NodeId) -> tuple[Scene, tuple[Any, ...]]:
        del node
        here = [one for one in look.processes if one.runs or (one.life and not self.misses)]
        return self._decided(look, [(one.node, one.life) for one in here]), ()

    def _decided(self, look: Look, here: list[tuple[NodeId, int]]) -> Scene:
        scene: Scene = look.scene
        members = tuple(Member(node, address(node), 1, life) for node, life in here)
        view = View(1, len(scene.views) + 1, self.nodes[0], members)
        return scene._replace(views=(*scene.views, view), since=look.now)

    def ended(self, look: Look, node: NodeId) -> Scene:
        """Who asked it asks another, or its next life."""
        scene: Scene = look.scene
        at = self.nodes.index(node)
        scene = scene._replace(entered=(*scene.entered[:at], 0, *scene.entered[at + 1 :]))
        for user in scene.users:
            if isinstance(user.body, calls.Get):  # it may have had something that comes back
                had = Operation(str(user.name), Kind.GET, (), user.called, None, Ended.UNKNOWN)
                scene = scene._replace(history=(*scene.history, had))
            if user.node == node and user.body is not None:
                scene = scene.with_(user._replace(asked=False, since=later(look.now, NEWS)))
        here = [(one.node, one.life) for one in look.processes if one.runs]
        if self.misses and here:
            look = Look(scene, look.now, look.processes, look.hurt)
            return self._decided(look, here)
        return scene

    # --- what is seen -----------------------------------------------------------------------------

    def saw(self, look: Look, node: NodeId, effects: list[Effect[Any]]) -> Scene:
        del node
        scene: Scene = look.scene
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Answer):
                for user in scene.users:
                    open_ = user.name == effect.target and user.number == effect.message.number
                    if open_ and user.body is not None:
                        scene = self._told(scene, look, user, effect.message.body)
        return scene

    def _told(self, scene: Scene, look: Look, user: User, body: Any) -> Scene:
        if user.unheard:
            since, other = later(look.now, NEWS), self.nodes[-1]
            return scene.with_(user._replace(unheard=0, node=other, asked=False, since=since))
        match body:
            case Elsewhere(node):
                return scene.with_(user._replace(node=node, asked=False, since=look.now))
            case Declined("Unavailable"):
                soon = later(look.now, DECLINED)
                return scene.with_(user._replace(asked=False, since=soon))
            case Declined(_, text):
                raise Broken(f"{user.name} is told: {text}", user.name)
            case _:
                return self._answered(scene, look, user, body)

    def _answered(self, scene: Scene, look: Look, user: User, body: Any) -> Scene:
        user, operation = self._outcome(scene, look, user, body)
        scene = scene._replace(counted=scene.counted + 1).with_(user._replace(body=None))
        if operation is None:
            return scene
        scene = scene._replace(history=(*scene.history, operation))
        open_ = [
            Operation(str(one.name), Kind.PUT, (_value(one),), one.called, None, Ended.UNKNOWN)
            for one in scene.users
            if isinstance(one.body, calls.Put)
        ]
        history = History.of([*scene.history, *open_])
        for check in CHECKS:
            verdict = check(history)
            if isinstance(verdict, Invalid):
                raise Broken(str(verdict), user.name)
        return scene

    def _outcome(
        self, scene: Scene, look: Look, user: User, body: Any
    ) -> tuple[User, Operation | None]:
        """What came of a call: how its user goes on, and what is to be judged."""
        name, called, at = str(user.name), user.called, scene.counted
        done = user._replace(rest=user.rest[1:])
        match body:
            case calls.PutDone(shares, _, orders):
                value = _value(user)
                places = _places(shares)
                told = Operation(
                    name, Kind.PUT, (value,), called, at, priorities=places[0],
                    positions=places[1], orders=orders,
                )  # fmt: skip
                return done, told
            case calls.Leased(token, (), _, order):
                del token
                nothing = Operation(
                    name, Kind.GET, (), called, at, orders=(order,) if order else ()
                )
                return user, nothing
            case calls.Leased():
                return self._leased(scene, look, done, body)
            case calls.Settled(lost):
                if lost and not look.hurt and user.since == look.now:
                    raise Broken(f"nothing is hurt, and {name} has lost {user.got}", name)
                ended = Ended.UNKNOWN if lost else Ended.SUCCEEDED
                ack = Operation(name, Kind.ACK, (user.got,), called, None if lost else at, ended)
                return done._replace(receipt=None, got=""), ack
            case calls.Status(_, _, ready, leased, held, dead):
                sure = all(one.ended is Ended.SUCCEEDED for one in scene.history)
                there = sum([one.count for one in ready]) + leased + held + dead
                if sure and there != int(user.rest[0][-1]):
                    raise Broken(f"all is done, and there is {ready}, {leased} leased", name)
                return done, None
            case _:
                raise Broken(f"{name} is told {body}", name)

    def _leased(
        self, scene: Scene, look: Look, user: User, leased: calls.Leased
    ) -> tuple[User, Operation]:
        (piece,) = leased.pieces
        (value,) = (bytes(one).decode() for one in Batch(piece.offsets, piece.blob))
        for other in scene.users:
            holds = other.held is not None and other.held > look.now
            if other.name != user.name and other.got == value and holds:
                raise Broken(f"{user.name} and {other.name} hold {value} at once", user.name)
        get = Operation(
            str(user.name), Kind.GET, (value,), user.called, scene.counted,
            priorities=(piece.priority,), positions=(piece.start,), orders=(leased.order,),
            token=leased.token,
        )  # fmt: skip
        share = Share(piece.priority, (Interval(piece.start, piece.start + 1),))
        receipt = calls.Receipt(leased.token, (share,))
        held = later(user.since, leased.lease)
        return user._replace(got=value, receipt=receipt, held=held), get

    # --- at rest ----------------------------------------------------------------------------------

    def unsettled(self, look: Look) -> str:
        """At rest when all run, in the last view, and every program is at its end."""
        scene: Scene = look.scene
        for process, entered in zip(look.processes, scene.entered, strict=True):
            if not process.runs or entered < len(scene.views):
                return f"{process.node} is not in the last view"
        waiting = [user for user in scene.users if user.rest]
        return f"{waiting[0].name} still {waiting[0].rest[0]}s" if waiting else ""


class Alone(PriorityWorld):
    """The smallest."""

    words: ClassVar[str] = "one node, one who puts, and one who gets"
    injuries: ClassVar[tuple[str, ...]] = ("crash",)
    users: ClassVar[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
        ("p1", "n1", ("put 0",)),
        ("c1", "n1", ("get", "ack", "look 0")),
    )


class Pair(PriorityWorld):
    """Two nodes."""

    words: ClassVar[str] = (
        "two nodes that both keep all; one puts at the one, one gets at the other"
    )
    nodes: tuple[NodeId, ...] = (NodeId("n1"), NodeId("n2"))
    mortal: tuple[NodeId, ...] = nodes
    users: ClassVar[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
        ("p1", "n1", ("put 0",)),
        ("c1", "n2", ("get", "ack", "look 0")),
    )


class Joiner(Pair):
    """The second node comes while there is something to do."""

    words: ClassVar[str] = "one node, with who puts and who gets, and a second that joins"

    def __init__(self, bug: Bug | None = None) -> None:
        super().__init__(bug)
        self.prelude = ("start n1", "n1 enters view 1", "the queue is made")

    users: ClassVar[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
        ("p1", "n1", ("put 0",)),
        ("c1", "n1", ("get", "ack", "look 0")),
    )


class Twice(Pair):
    """Who asks two nodes."""

    words: ClassVar[str] = "the same; who puts asks the other node as well, at any moment"
    hasty: ClassVar[tuple[str, ...]] = ("p1",)


class Missed(Pair):
    """A node ends, is missed, and is back."""

    words: ClassVar[str] = "the same; who is killed is missed before it is back"
    mortal: tuple[NodeId, ...] = (NodeId("n2"),)
    misses: ClassVar[bool] = True
    injuries: ClassVar[tuple[str, ...]] = ("crash",)


class Moved(Pair):
    """An element goes to a newcomer while a door asks who has it.

    The first node is n2: where both are here the home of the first element is n1.
    """

    words: ClassVar[str] = (
        "one node, killed after a put whose answer is lost; "
        "a second joins, is to have the element, and is asked for the put again"
    )
    nodes: tuple[NodeId, ...] = (NodeId("n2"), NodeId("n1"))
    mortal: tuple[NodeId, ...] = (NodeId("n2"),)
    injuries: ClassVar[tuple[str, ...]] = ("crash", "lose")
    unheard: ClassVar[tuple[str, ...]] = ("p1",)
    users: ClassVar[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
        ("p1", "n2", ("put 0",)),
        ("c1", "n2", ("look 1",)),
    )
    settings: ClassVar[QueueSettings] = QueueSettings(
        queue=QUEUE, priorities=2, replicas=1, lease=seconds(1)
    )

    def __init__(self, bug: Bug | None = None) -> None:
        super().__init__(bug)
        self.prelude = (
            "start n2",
            "n2 enters view 1",
            "the queue is made",
            "p1 put 0s",
            "crash n2",
            "start n2",
            "n2 enters view 2",
        )


def _value(user: User) -> str:
    return f"{user.name}/{user.number}"


def _places(shares: tuple[Share, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The priorities and the positions of what was put."""
    stands = [(share.priority, at) for share in shares for one in share.intervals for at in one]
    return tuple([one for one, _ in stands]), tuple([at for _, at in stands])
