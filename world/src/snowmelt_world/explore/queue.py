"""A queue in a small world: three nodes that each have a copy, and users with short programs.

Whole machines are explored: who leads, who follows, and who decides on homes, which is the first
node. What is known from outside, and what may never be seen, stands in `queue_scene.py`.

A program does one thing after another: `put` an item (`put 3`: of this priority, or with this key),
`get` one, `release` it or `ack` it; `alter 1`: so many copies are to be durable. Users stand beside
their nodes: what they are told they know at once. Who asked a node that ended asks another after a
while, under the same number.

What makes it small, each at its place below:

1. Below the machines stands a membership that does what it promises and no more. Who ends is missed
   at once (`misses`), and its next life gets a view of its own. In the moment of a view everybody
   enters it, in any order, and among the messages; in time nobody stays behind.
2. Who ended is back after a second, and not before: what the others do without it comes first.
3. What was on its way to a process that ended is lost, as with its connections.
4. Disks of nodes that do not crash any more are quick: their flush is part of a step.
5. An idle cluster sets no timer. The walk begins when all copies are whole, and that is so.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from snowmelt.core.batch import Batch
from snowmelt.core.instant import START, Duration, Instant, later, milliseconds, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.keys import packed
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Announced, Effect, Event, Node, Reply, Requested
from snowmelt.protocols.calling import AskAnother, Declined, Elsewhere
from snowmelt.protocols.membership import Member, View
from snowmelt.protocols.queue import QueueNode
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings
from snowmelt.protocols.queue.limits import LIMITS
from snowmelt.protocols.queue.state.records import records, restored
from snowmelt_world.explore.machines import Process
from snowmelt_world.explore.queue_scene import (
    QUEUE,
    Scene,
    Thing,
    User,
    copied,
    free,
    leased,
    placed,
    unsure,
)
from snowmelt_world.explore.small import IDLE, Act, Ask, Look, SmallLife
from snowmelt_world.explore.value import Dice, LeftOut
from snowmelt_world.families.fifo_planted import machine
from snowmelt_world.families.membership import address
from snowmelt_world.planted import Bug, planted
from snowmelt_world.world import Broken

NONE: Final = Duration(0)
AGAIN: Final = milliseconds(500)
"""Who was told that it can't be done now asks again; so does who asked a node that ended."""
SILENCE: Final = seconds(3)
"""Who hears nothing for so long asks again."""
LEASE: Final = seconds(30)
PATIENCE: Final = seconds(20)
"""How long a get waits for something."""


class Checked:
    """A machine whose leaders' records tell their state after every step."""

    def __init__(self, node: QueueNode) -> None:
        self._node = node

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        return self._node.handle(event, now)

    def check(self) -> None:
        """Asserts that, and the machine's own invariants."""
        self._node.check()
        for leader in self._node._terms.leaders.values():  # noqa: SLF001 - it is judged
            if not leader.state.changed:  # `queue_scene.py`, rule 6
                told = restored(leader.home.settings, leader.copy.records, LIMITS)
                assert records(told) == records(leader.state), "records tell another state"


class QueueWorld(SmallLife):
    """One who puts, one who gets, and a leader who is killed."""

    words: ClassVar[str] = "three copies; two puts; a get, given back, and a get; the leader dies"
    injuries: ClassVar[tuple[str, ...]] = ("crash",)
    left_out: ClassVar[LeftOut] = frozenset(
        {
            ("Outbox", "now"),  # it is set before anything is done
            ("QueueNode", "_hears"),  # who hears what: always the same
        }
    )
    horizon = Instant(seconds(40))
    nodes: tuple[NodeId, ...] = (NodeId("n1"), NodeId("n2"), NodeId("n3"))
    mortal: tuple[NodeId, ...] = (NodeId("n2"),)
    users: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("p1", ("put", "put")),
        ("c1", ("get", "release", "get")),
    )
    mail_waits = False  # rule 3
    settings: ClassVar[QueueSettings] = QueueSettings(replicas=3, lease=LEASE)
    misses: ClassVar[bool] = True
    """Whether a process that ends is missed before it is back (rule 1)."""

    def __init__(self, bug: Bug | None = None) -> None:
        super().__init__(bug)
        last, *others = self.nodes
        self.prelude = (
            *(f"start {node}" for node in self.nodes),
            *(f"{node} enters view {len(self.nodes)}" for node in (*others, last)),
            "the queue is made",
            IDLE,  # rule 5
        )

    def build(self, node: NodeId, life: int) -> Node[Any]:
        return planted(self._bug, Checked(machine(self._bug, node, Dice(life), LIMITS)))

    def is_quick(self, process: Process) -> bool:
        """All but who may crash, in their first lives (rule 4)."""
        return process.node not in self.mortal or process.life > 1

    def opening(self) -> Scene:
        leader = self.mortal[0]
        users = tuple(User(NodeId(name), leader, does) for name, does in self.users)
        return Scene(users, entered=(0,) * len(self.nodes))

    # --- what may be done -------------------------------------------------------------------------

    def acts(self, look: Look) -> Iterator[Act]:
        scene: Scene = look.scene
        for at, node in enumerate(self.nodes):
            if look.of(node).runs and scene.entered[at] < len(scene.views):
                yield self._enters(scene, at)
        there = self._there(look)
        if not there:
            return
        if not scene.opened:
            event = Requested(OperationId(NodeId("founder"), 1), calls.Open(QUEUE, self.settings))
            yield Act("the queue is made", scene._replace(opened=True), there[0], (event,))
            return
        for user in scene.users:
            if user.call is not None and user.again <= look.now:
                yield self._asks(look, user, there, f"{user.name} asks again")
            elif user.call is None and user.rest:
                after, caller = self._called(look, user)
                yield self._asks(look, caller, there, f"{user.name} {user.rest[0]}s", after)

    def alarms(self, look: Look) -> list[Instant]:
        """When somebody asks again, or is back."""
        asking = [user.again for user in look.scene.users if user.call is not None]
        away = [one for one in look.processes if one.life and not one.runs]
        return [*asking, *[later(one.since, self.back_within) for one in away]]

    def returns(self, look: Look, node: NodeId) -> bool:
        """At its moment, and not before (rule 2)."""
        process = look.of(node)
        return not process.life or later(process.since, self.back_within) <= look.now

    def _there(self, look: Look) -> list[NodeId]:
        """Who runs, and is in a view."""
        entered = zip(self.nodes, look.scene.entered, strict=True)
        return [node for node, view in entered if view and look.of(node).runs]

    def _enters(self, scene: Scene, at: int) -> Act:
        node, view = self.nodes[at], scene.views[-1]
        entered = (*scene.entered[:at], len(scene.views), *scene.entered[at + 1 :])
        after = scene._replace(entered=entered)
        return Act(f"{node} enters view {view.epoch}", after, node, (Announced(view),))

    def _asks(
        self, look: Look, user: User, there: list[NodeId], words: str, scene: Scene | None = None
    ) -> Act:
        node = user.node if user.node in there else there[0]
        user = user._replace(node=node, again=later(look.now, SILENCE))
        event = Requested(OperationId(user.name, user.number), user.call)
        after = (scene or look.scene).with_(user)
        return Act(words, after, node, (event,))

    def _called(self, look: Look, user: User) -> tuple[Scene, User]:
        """What it asks next, and what is known then."""
        scene: Scene = look.scene
        over = tuple(one.value for one in scene.things if one.done == "confirmed")
        user = user._replace(number=user.number + 1, over=over, sure=())
        match user.rest[0]:
            case "get":
                call: Any = calls.Get(QUEUE, 1, 1 << 20, PATIENCE)
                return unsure(scene, user), user._replace(call=call, sure=free(scene))
            case word if word.startswith("alter"):
                settings = (("durable_copies", int(word[len("alter") :])),)
                return scene, user._replace(call=calls.Alter(QUEUE, settings))
            case word if word.startswith("put"):
                value, rank = f"{user.name}/{user.number}", int(word[len("put") :] or 0)
                kept = tuple(one.value for one in scene.things if one.kept and one.rank == rank)
                user = user._replace(call=self._put(user, value, rank), got=value, sure=kept)
                return scene.thing(Thing(value, rank)), user
            case word:
                thing = scene.value(user.got)
                where = (Interval(thing.place, thing.place + 1),)
                if word == "release":
                    return scene, user._replace(call=calls.Settle(QUEUE, user.token, back=where))
                scene = scene.thing(thing._replace(done="said"))
                return scene, user._replace(call=calls.Settle(QUEUE, user.token, where))

    def _put(self, user: User, value: str, rank: int) -> calls.Put:
        batch, priorities = Batch.of([value.encode()]), self.settings.priorities
        return calls.Put(
            QUEUE,
            str(user.name),
            user.number,
            bytes(batch.offsets),
            bytes(batch.blob),
            runs=(calls.PriorityRun(rank, 1),) if priorities > 1 else (),
            keys=packed([rank]) if priorities == ANY else b"",
        )

    # --- processes come and go --------------------------------------------------------------------

    def started(self, look: Look, node: NodeId) -> tuple[Scene, tuple[Any, ...]]:
        del node
        here = [one for one in look.processes if one.runs or (one.life and not self.misses)]
        return self._decided(look.scene, [(one.node, one.life) for one in here]), ()

    @staticmethod
    def _decided(scene: Scene, here: list[tuple[NodeId, int]]) -> Scene:
        members = tuple(Member(node, address(node), 1, life) for node, life in here)
        view = View(1, len(scene.views) + 1, members[0].id, members)
        return scene._replace(views=(*scene.views, view))

    def ended(self, look: Look, node: NodeId) -> Scene:
        """Who asked it asks another."""
        scene: Scene = look.scene
        at = self.nodes.index(node)
        scene = scene._replace(entered=(*scene.entered[:at], 0, *scene.entered[at + 1 :]))
        for user in scene.users:
            if user.node == node and user.call is not None:
                scene = scene.with_(user._replace(again=later(look.now, AGAIN)))
        here = [(one.node, one.life) for one in look.processes if one.runs]
        return self._decided(scene, here) if self.misses else scene

    # --- what is seen -----------------------------------------------------------------------------

    def saw(self, look: Look, node: NodeId, effects: list[Effect[Any]]) -> Scene:
        del node
        scene: Scene = look.scene
        for effect in effects:
            if isinstance(effect, Reply):
                for user in scene.users:
                    asked = OperationId(user.name, user.number)
                    if effect.operation == asked and user.call is not None:
                        scene = self._told(scene, look, user, effect.message)
        return scene

    def _told(self, scene: Scene, look: Look, user: User, body: Any) -> Scene:
        done = user._replace(call=None, rest=user.rest[1:], sure=(), over=())
        match body:
            case Elsewhere(node):
                wait = NONE if node in self._there(look) else AGAIN
                return scene.with_(user._replace(node=node, again=later(look.now, wait)))
            case Declined("Unavailable") | AskAnother():
                return scene.with_(user._replace(again=later(look.now, AGAIN)))
            case calls.PutDone():
                scene = placed(scene, user, user.got, body.start)
                thing = scene.value(user.got)
                return scene.thing(thing._replace(kept=True)).with_(done)
            case calls.Leased(parts=()):
                if user.sure:
                    raise Broken(
                        f"{user.name} is told of nothing, and there is {user.sure}", user.name
                    )
                return scene.with_(user._replace(call=None))
            case calls.Leased():
                return leased(scene, look, user, done, body)
            case calls.Settled():
                thing = scene.value(user.got)
                sure = "confirmed" if thing.done else ""
                return scene.thing(thing._replace(done=sure)).with_(
                    done._replace(got="", held=START)
                )
            case calls.Changed():
                return scene.with_(done)
            case Declined("LeaseLost") if user.held <= look.now:
                return scene.with_(done._replace(got="", held=START))
            case _:
                raise Broken(f"{user.name} is told {body}", user.name)

    # --- at rest ----------------------------------------------------------------------------------

    def unsettled(self, look: Look) -> str:
        """At rest when all run, in the last view, all is answered, and all copies are the same."""
        scene: Scene = look.scene
        for process, entered in zip(look.processes, scene.entered, strict=True):
            if not process.runs or entered < len(scene.views):
                return f"{process.node} is not in the last view"
        for user in scene.users:
            if user.rest:
                return f"{user.name} still {user.rest[0]}s"
        first, *others = (copied(self.settings, process.disk) for process in look.processes)
        return "" if all(one == first for one in others) else "the copies are not the same"

    def judge(self, look: Look, ask: Ask) -> None:
        """What is not done is there."""
        del ask
        scene: Scene = look.scene
        must = {(one.place, one.value) for one in scene.things if not one.done}
        may = must | {(one.place, one.value) for one in scene.things if one.done == "said"}
        there = set(copied(self.settings, look.processes[0].disk).items)
        if not must <= there <= may:
            raise Broken(f"there is {sorted(there)}, and there should be {sorted(must)}", "queue")


class OnePut(QueueWorld):
    """The smallest."""

    words: ClassVar[str] = "three copies, and one put; the leader dies"
    users: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (("p1", ("put",)),)


class TwoDie(OnePut):
    """A majority."""

    words: ClassVar[str] = "three copies, and one put; the leader dies, and a follower"
    injuries: ClassVar[tuple[str, ...]] = ("crash", "crash")
    mortal: tuple[NodeId, ...] = (NodeId("n2"), NodeId("n3"))


class InTurn(QueueWorld):
    """One does it all."""

    words: ClassVar[str] = "the same, by one user in turn"
    users: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("u1", ("put", "put", "get", "release", "get")),
    )


class Release(QueueWorld):
    """With one put."""

    words: ClassVar[str] = "three copies; a put; a get that is given back; the leader dies"
    users: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("p1", ("put",)),
        ("c1", ("get", "release")),
    )


class Altered(QueueWorld):
    """From now on fewer copies must be durable."""

    words: ClassVar[str] = "three copies; a put, while one copy is to be enough; the leader dies"
    users: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("p1", ("put",)),
        ("a1", ("alter 1",)),
    )


class Crowd(QueueWorld):
    """Several at once."""

    words: ClassVar[str] = "three copies; two put, one gets and gives back, one gets and is done"
    injuries: ClassVar[tuple[str, ...]] = ()
    users: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("p1", ("put",)),
        ("p2", ("put",)),
        ("c1", ("get", "release")),
        ("c2", ("get", "ack")),
    )


class Ranked(QueueWorld):
    """The second put is the more urgent."""

    words: ClassVar[str] = "the first with three priorities; nobody dies"
    injuries: ClassVar[tuple[str, ...]] = ()
    users: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("p1", ("put 2", "put 1")),
        ("c1", ("get", "release", "get")),
    )
    settings: ClassVar[QueueSettings] = QueueSettings(replicas=3, lease=LEASE, priorities=3)


class ByKeys(Ranked):
    """The same of any priorities."""

    words: ClassVar[str] = "the same with a key for each item"
    settings: ClassVar[QueueSettings] = QueueSettings(replicas=3, lease=LEASE, priorities=ANY)


class Pair(QueueWorld):
    """Each of them has to have all."""

    words: ClassVar[str] = "two copies; a put, a get, and its acknowledgement; all disks are slow"
    injuries: ClassVar[tuple[str, ...]] = ("lose",)
    nodes: tuple[NodeId, ...] = (NodeId("n1"), NodeId("n2"))
    users: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("p1", ("put",)),
        ("c1", ("get", "ack")),
    )
    settings: ClassVar[QueueSettings] = QueueSettings(replicas=2, lease=LEASE)

    def is_quick(self, process: Process) -> bool:
        """Nobody."""
        del process
        return False


class Back(Pair):
    """A leader that is killed goes on itself."""

    words: ClassVar[str] = "two copies; a put; the leader dies, and is back before it is missed"
    injuries: ClassVar[tuple[str, ...]] = ("crash",)
    misses: ClassVar[bool] = False

    def is_quick(self, process: Process) -> bool:
        """As where there are three."""
        return QueueWorld.is_quick(self, process)
