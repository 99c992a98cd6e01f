"""A membership in a small world: nodes that join, and what they see of each other's views.

The whole machine is explored, on its disk. What may never be seen:

1. *Agreement.* An epoch has one content.
2. *Monotony.* No node goes back, not by a restart either.
3. *Politeness.* Nobody is current in a view while a newer one, that somebody sees, is without it.
4. *Rest.* By the horizon all are current in one view of exactly those who have not left.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

from snowmelt.core.instant import Instant, seconds
from snowmelt.core.names import NodeId, OperationId, contact
from snowmelt.core.node import Announce, Effect, Node, Reply, Requested
from snowmelt.protocols.host import Family, Host
from snowmelt.protocols.membership import (
    MESSAGES,
    CutOff,
    Depart,
    Departed,
    Identity,
    MembershipNode,
    MembershipSettings,
    View,
)
from snowmelt_world.explore.small import Act, Ask, Look, SmallLife
from snowmelt_world.explore.value import Dice
from snowmelt_world.families.membership import Founder, address
from snowmelt_world.planted import Bug, planted
from snowmelt_world.world import Broken

SETTINGS = MembershipSettings(interval=seconds(3), misses=2, grace=seconds(1))


class Scene(NamedTuple):
    views: tuple[View, ...] = ()
    """By their epochs."""
    newest: tuple[int, ...] = ()
    current: tuple[View | None, ...] = ()
    leaves: str = ""
    """asked, gone."""


class MembershipWorld(SmallLife):
    """Nodes that join through the first."""

    words: ClassVar[str] = "two nodes, from nothing"
    injuries: ClassVar[tuple[str, ...]] = ("crash",)
    horizon = Instant(seconds(60))
    nodes: tuple[NodeId, ...] = (NodeId("n1"), NodeId("n2"))
    mortal: tuple[NodeId, ...] = nodes
    leaver: ClassVar[NodeId | None] = None

    def build(self, node: NodeId, life: int) -> Node[Any]:
        first = contact(address(self.nodes[0]))
        contacts = () if node == self.nodes[0] else (first,)
        identity = Identity(id=node, address=address(node), contacts=contacts)
        dice = Dice(life * 10 + self.nodes.index(node))  # no two have the same birth or run
        machine = (MembershipNode if contacts else Founder)(identity, SETTINGS, dice)
        return planted(self._bug, Host(node, [Family("membership", machine, MESSAGES)]))

    def opening(self) -> Scene:
        count = len(self.nodes)
        return Scene(newest=(-1,) * count, current=(None,) * count)

    def acts(self, look: Look) -> Iterator[Act]:
        scene: Scene = look.scene
        node = self.leaver
        if node is None or scene.leaves or scene.current[self.nodes.index(node)] is None:
            return
        event = Requested(OperationId(node, 1), Depart())
        yield Act(f"{node} departs", scene._replace(leaves="asked"), node, (event,))

    def saw(self, look: Look, node: NodeId, effects: list[Effect[Any]]) -> Scene:
        scene: Scene = look.scene
        for effect in effects:
            match effect:
                case Announce(View() as view):
                    scene = self._viewed(scene, node, view)
                case Announce(CutOff()):
                    scene = self._currently(scene, node, None)
                case Reply(_, Departed()):
                    scene = scene._replace(leaves="gone")
                case _:
                    pass
        return scene

    def _viewed(self, scene: Scene, node: NodeId, view: View) -> Scene:
        at = self.nodes.index(node)
        same = next((one for one in scene.views if one.epoch == view.epoch), None)
        if same is None:
            scene = scene._replace(views=(*scene.views, view))
            self._polite(scene, view)
        elif same != view:
            raise Broken(f"{node} sees {view}, and another saw {same} under its number", node)
        if view.epoch < scene.newest[at]:
            raise Broken(f"{node} goes back from view {scene.newest[at]} to {view.epoch}", node)
        newest = (*scene.newest[:at], view.epoch, *scene.newest[at + 1 :])
        return self._currently(scene._replace(newest=newest), node, view)

    def _polite(self, scene: Scene, view: View) -> None:
        for node, held in zip(self.nodes, scene.current, strict=True):
            newer = held is not None and view.epoch > held.epoch
            if held is not None and newer and view.member(node) != held.member(node):
                text = f"{node} is current in view {held.epoch}, and {view} is without it"
                raise Broken(text, node)

    def _currently(self, scene: Scene, node: NodeId, view: View | None) -> Scene:
        at = self.nodes.index(node)
        return scene._replace(current=(*scene.current[:at], view, *scene.current[at + 1 :]))

    def ended(self, look: Look, node: NodeId) -> Scene:
        """A process that is gone is current in nothing; and it departs no more."""
        scene: Scene = look.scene
        if scene.leaves == "asked" and node == self.leaver:
            scene = scene._replace(leaves="gone")
        return self._currently(scene, node, None)

    def unsettled(self, look: Look) -> str:
        """At rest when all are current in one view of all of them."""
        scene: Scene = look.scene
        for process, view in zip(look.processes, scene.current, strict=True):
            if process.node == self.leaver and scene.leaves == "gone":
                continue
            if not process.runs or view is None:
                return f"{process.node} is not current"
            if view != scene.current[0]:
                return f"{process.node} is in another view than {self.nodes[0]}"
        return "" if self.leaver is None or scene.leaves else f"{self.leaver} has not left"

    def judge(self, look: Look, ask: Ask) -> None:
        """The last view is of exactly those who run."""
        del ask
        view = look.scene.current[0]
        names = tuple(one.id for one in view.members)
        expected = tuple(
            node
            for node, held in zip(self.nodes, look.scene.current, strict=True)
            if held is not None
        )
        if names != expected:
            raise Broken(f"at rest {view} is seen, and there are {' '.join(expected)}", "n1")


class Leaver(MembershipWorld):
    """One of three goes."""

    words: ClassVar[str] = "three nodes, one of which leaves in order"
    nodes = (NodeId("n1"), NodeId("n2"), NodeId("n3"))
    mortal = nodes
    leaver = NodeId("n3")
    injuries: ClassVar[tuple[str, ...]] = ()

    def __init__(self, bug: Bug | None = None) -> None:
        super().__init__(bug)
        self.prelude = ("start n1", "start n2", "start n3")
