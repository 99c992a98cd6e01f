"""One baton in a small world: a few nodes, users who each want it once, and the views they are in.

The machine of the batons is explored, in its host. Below it stand a membership and a tree that do
what theirs promise and no more: each view is a number, and everybody enters it at a moment of its
own; each view's tree is a star round the coordinator. A process that begins again gets a view of
its own. Users stand beside their nodes: what they are told they know at once.

What may never be seen:

1. *Grants.* A fence is larger than that of any grant before (`calls.Granted`).
2. *Alone.* Nobody is granted it while another, whose lease runs, has not given it up.
3. *Values.* While the baton is not made anew it comes with what its last holder left.
4. *Served.* Who waits is served by the horizon; without injuries nobody loses it.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Final, NamedTuple

from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announced, Effect, Node, Received, Send
from snowmelt.protocols.arrow import Branch
from snowmelt.protocols.baton import MESSAGES, BatonNode, BatonSettings, calls
from snowmelt.protocols.calling import Answer, Call, Declined
from snowmelt.protocols.host import Family, Host
from snowmelt.protocols.membership import Member, View
from snowmelt_world.explore.small import Act, Look, SmallLife
from snowmelt_world.explore.value import Dice, LeftOut
from snowmelt_world.families.membership import address
from snowmelt_world.planted import Bug, planted
from snowmelt_world.world import Broken

NAME: Final = "b"
SETTINGS: Final = BatonSettings(
    lease=seconds(1), grace=milliseconds(200), drift=milliseconds(100), awake=seconds(60)
)
NEWS: Final = seconds(1)
"""Who is in a view hears of the next within a heartbeat."""


class User(NamedTuple):
    """Somebody who wants the baton once."""

    name: NodeId
    node: NodeId
    does: str = "rests"
    """comes (with the next life of its node), rests, waits, queued, holds, leaves, over."""
    called: int = 0
    fence: int = 0
    since: Instant = Instant(0)
    value: bytes = b""
    """What it was granted, and then what it leaves."""
    where: calls.HeldAt | None = None


class Grant(NamedTuple):
    """What is known of a hold for ever."""

    user: NodeId
    fence: int
    made: int
    leaves: tuple[bytes, ...]
    """What may come next."""


class Scene(NamedTuple):
    users: tuple[User, ...]
    views: tuple[View, ...] = ()
    entered: tuple[int, ...] = ()
    """How many of them each node has entered in this life, counted from the first."""
    since: Instant = Instant(0)
    """When the last view was decided."""
    grants: tuple[Grant, ...] = ()


class BatonWorld(SmallLife):
    words: ClassVar[str] = "three nodes, and two who want the baton"
    left_out: ClassVar[LeftOut] = frozenset(
        {
            ("Arrows", "late"),
            ("Host", "strays"),
            ("ArrowNode", "dropped"),
            ("ArrowNode", "ignored"),
            ("BatonWaiters", "_due"),  # the wants say the same
            ("BatonNode", "_waiting"),  # for a limit that no small world reaches
            ("BatonNode", "_next_round"),  # the timer says the same
        }
    )
    horizon = Instant(seconds(30))
    nodes: tuple[NodeId, ...] = (NodeId("n1"), NodeId("n2"), NodeId("n3"))
    mortal: tuple[NodeId, ...] = nodes
    users: ClassVar[tuple[tuple[str, str], ...]] = (("u1", "n2"), ("u2", "n3"))
    heirs: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Who comes with the next life of a node."""

    def __init__(self, bug: Bug | None = None) -> None:
        super().__init__(bug)
        begin = tuple(f"start {node}" for node in self.nodes)
        self.prelude = (*begin, *(f"{node} enters view 1" for node in self.nodes))

    def build(self, node: NodeId, life: int) -> Node[Any]:
        family = Family("baton", BatonNode(node, SETTINGS, Dice(life)), MESSAGES)
        return planted(self._bug, Host(node, [family]))

    def opening(self) -> Scene:
        users = tuple(User(NodeId(name), NodeId(node)) for name, node in self.users)
        later_ = tuple(User(NodeId(name), NodeId(node), "comes") for name, node in self.heirs)
        return Scene((*users, *later_), entered=(0,) * len(self.nodes))

    # --- what may be done -------------------------------------------------------------------------

    def acts(self, look: Look) -> Iterator[Act]:
        scene: Scene = look.scene
        for at, node in enumerate(self.nodes):
            if look.of(node).runs and scene.entered[at] < len(scene.views):
                yield self._enters(scene, at)
        for at, user in enumerate(scene.users):
            process = look.of(user.node)
            if process.runs and scene.entered[self.nodes.index(user.node)]:
                yield from self._goes_on(scene, at, user, look.now)

    def _enters(self, scene: Scene, at: int) -> Act:
        node, view = self.nodes[at], scene.views[-1]
        entered = (*scene.entered[:at], len(scene.views), *scene.entered[at + 1 :])
        root, others = self.nodes[0], self.nodes[1:]
        branch = Branch(None, others) if node == root else Branch(root, ())
        events = (Announced(view), Announced(branch))
        first = not scene.entered[at]
        return Act(
            f"{node} enters view {view.epoch}",
            scene._replace(entered=entered),
            node,
            events if first else events[:1],
            scene.since if first else later(scene.since, NEWS),
        )

    def _goes_on(self, scene: Scene, at: int, user: User, now: Instant) -> Iterator[Act]:
        number = user.called + 1
        ticket = 1 + at
        match user.does:
            case "rests" | "queued":
                words, does = f"{user.name} asks {user.node}", "waits"
                body: Any = calls.Acquire(NAME, ticket, calls.POLL)
            case "holds":
                words, does = f"{user.name} releases", "leaves"
                value = f"{user.name}/{number}".encode()
                body = calls.Release(NAME, ticket, user.fence, user.where, value)
                user = user._replace(value=value)
                scene = _left(scene, user, (_granted_value(scene, user), value))
            case _:
                return
        del now
        user = user._replace(does=does, called=number)
        yield Act(
            words,
            _with(scene, user),
            user.node,
            (Received(user.name, Call(number, body)),),
        )

    # --- processes come and go --------------------------------------------------------------------

    def started(self, look: Look, node: NodeId) -> tuple[Scene, tuple[Any, ...]]:
        """A view has this start of it; the first is decided when all have begun."""
        del node
        scene: Scene = look.scene
        if not all(one.life for one in look.processes):
            return scene, ()
        members = tuple(Member(one.node, address(one.node), 1, one.life) for one in look.processes)
        view = View(1, len(scene.views) + 1, self.nodes[0], members)
        return scene._replace(views=(*scene.views, view), since=look.now), ()

    def ended(self, look: Look, node: NodeId) -> Scene:
        """Its users' calls end with it; who had not asked asks its next life."""
        scene: Scene = look.scene
        at = self.nodes.index(node)
        scene = scene._replace(entered=(*scene.entered[:at], 0, *scene.entered[at + 1 :]))
        for user in scene.users:
            if user.node == node:
                does = "rests" if user.does in ("rests", "comes") else "over"
                scene = _with(scene, user._replace(does=does))
        return scene

    # --- what is seen -----------------------------------------------------------------------------

    def saw(self, look: Look, node: NodeId, effects: list[Effect[Any]]) -> Scene:
        del node
        scene: Scene = look.scene
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Answer):
                users = [one for one in scene.users if one.name == effect.target]
                for user in users:
                    if effect.message.number == user.called:
                        scene = self._told(scene, look, user, effect.message.body)
        return scene

    def _told(self, scene: Scene, look: Look, user: User, body: Any) -> Scene:
        match body:
            case calls.Queued() if user.does == "waits":
                return _with(scene, user._replace(does="queued"))
            case calls.Granted() if user.does == "waits":
                return self._granted(scene, look, user, body)
            case calls.Released():
                scene = _left(scene, user, (user.value,))
                return _with(scene, user._replace(does="over"))
            case Declined(_, text):
                if not look.hurt:
                    raise Broken(f"nothing is hurt, and {user.name} is told: {text}", user.name)
                return _with(scene, user._replace(does="over"))
            case _:
                return scene

    def _granted(self, scene: Scene, look: Look, user: User, granted: calls.Granted) -> Scene:
        fence, name = granted.fence, user.name
        for one in scene.grants:
            if fence <= one.fence:
                text = f"{name} is granted fence {fence} ({granted.value!r}), and"
                raise Broken(f"{text} {one.user} was granted {one.fence} before", name)
            last = one.made == granted.made and granted.value not in one.leaves
            if last and one is max(scene.grants, key=lambda grant: grant.fence):
                text = f"{name} is granted {granted.value!r} with fence {fence}, and"
                raise Broken(f"{text} {one.user} had left one of {one.leaves}", name)
        for other in scene.users:
            ends = later(other.since, granted.lease)
            if other.does == "holds" and ends > look.now and look.of(other.node).runs:
                raise Broken(f"{name} and {other.name} hold the baton at once", name)
        grant = Grant(name, fence, granted.made, (granted.value,))
        scene = scene._replace(grants=(*scene.grants, grant))
        held = user._replace(
            does="holds",
            fence=fence,
            since=look.now,
            value=granted.value,
            where=granted.where,
        )
        return _with(scene, held)

    # --- at rest ----------------------------------------------------------------------------------

    def unsettled(self, look: Look) -> str:
        """At rest when all run, in the last view, and every user has had its turn."""
        scene: Scene = look.scene
        for process, entered in zip(look.processes, scene.entered, strict=True):
            if not process.runs or entered < len(scene.views):
                return f"{process.node} is not in the last view"
        waiting = [user for user in scene.users if user.does not in ("over", "comes")]
        return f"{waiting[0].name} still {waiting[0].does}" if waiting else ""


class TwoNodes(BatonWorld):
    """Where a token may come twice."""

    words: ClassVar[str] = "two nodes, each with one who wants it, and one more at the next life"
    nodes = (NodeId("n1"), NodeId("n2"))
    users: ClassVar[tuple[tuple[str, str], ...]] = (("u1", "n1"), ("u2", "n2"))
    heirs: ClassVar[tuple[tuple[str, str], ...]] = (("u3", "n2"),)
    mortal = (NodeId("n2"),)
    injuries: ClassVar[tuple[str, ...]] = ("lose", "crash")


def _with(scene: Scene, user: User) -> Scene:
    users = tuple(user if one.name == user.name else one for one in scene.users)
    return scene._replace(users=users)


def _left(scene: Scene, user: User, values: tuple[bytes, ...]) -> Scene:
    grants = tuple(
        one._replace(leaves=values) if one.fence == user.fence else one for one in scene.grants
    )
    return scene._replace(grants=grants)


def _granted_value(scene: Scene, user: User) -> bytes:
    return next(one.leaves[0] for one in scene.grants if one.fence == user.fence)
