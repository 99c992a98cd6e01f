"""The echo family's life: what was remembered stays remembered, or is said to be damaged."""

from random import Random
from typing import Any

from snowmelt.core.instant import Duration, Instant, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Node, Reply
from snowmelt.core.outcome import Succeeded
from snowmelt.protocols.echo import MESSAGES, EchoNode, Recall, Recalled, Remember, Remembered
from snowmelt.protocols.host import Family, Host
from snowmelt_world.families.load import Clients
from snowmelt_world.life import FamilyLife
from snowmelt_world.planted import planted
from snowmelt_world.scenario import Scenario
from snowmelt_world.world import Broken, World


class EchoLife(FamilyLife):
    """Each node has a client that makes it remember things, and asks for them again."""

    def __init__(self, scenario: Scenario, chance: Random) -> None:
        super().__init__(scenario, chance)
        self._clients = Clients()
        self._bodies: dict[str, bytes] = {}
        self._safe: dict[str, Instant] = {}
        self._asked_at: dict[Any, Instant] = {}
        self._hurt: list[tuple[NodeId, bytes]] = []

    @property
    def bound(self) -> Duration:
        """The longest patience, and some."""
        return seconds(20)

    def populate(self, world: World) -> None:
        """One client a node; thirty things to remember each, and as many questions."""
        for node in self._scenario.nodes:
            self._add_node(world, node)
            client = NodeId(f"c-{node}")
            self._clients.add(world, client, [node])
            for number in range(30):
                self._add_calls(world, client, f"{node}.{number}")

    def _add_node(self, world: World, node: NodeId) -> None:
        def build(_: Random) -> Node[Any]:
            host = Host(node, [Family("echo", EchoNode(), MESSAGES)])
            return planted(self._scenario.bug, host)

        world.add(node, build)
        world.start(node)

    def _add_calls(self, world: World, client: NodeId, name: str) -> None:
        end = self._scenario.faults_end
        at = Instant(self._chance.randrange(end))
        self._bodies[name] = self._chance.randbytes(self._chance.randrange(1, 200))
        self._clients.call(world, client, Remember(name, self._bodies[name]), at)
        for _ in range(2):
            again = Instant(self._chance.randrange(at, end + seconds(4)))
            operation = self._clients.call(world, client, Recall(name), again)
            self._asked_at[operation] = again

    def damaged(self, at: Instant, node: NodeId, key: bytes) -> None:
        """A fault hurt this record; only then may it be lost."""
        del at
        self._hurt.append((node, key))

    def replied(self, at: Instant, node: NodeId, effect: Reply[Any]) -> None:
        del node
        if self._clients.answered(effect.operation) is None:
            raise Broken(f"{effect.operation} was answered twice", effect.operation.client)
        match effect.message:
            case Succeeded(Remembered(name)):
                self._safe.setdefault(name, at)
            case Succeeded(Recalled() as recalled):
                self._judge(recalled, self._asked_at[effect.operation])
            case _:
                pass

    def _judge(self, recalled: Recalled, asked: Instant) -> None:
        name = recalled.name
        if recalled.body is not None:
            if recalled.body != self._bodies[name]:
                raise Broken(f"{name} came back with another body", name)
            return
        if self._safe.get(name, asked) < asked:
            body_key = b"~echo/" + name.encode()
            hurt = any(key == body_key for _, key in self._hurt)
            if not hurt or not recalled.damaged:
                raise Broken(f"{name} was safe, and is lost", name)

    def unsettled(self, world: World) -> str:
        """At rest when everybody is answered and every process runs."""
        down = [name for name, slot in world.slots.items() if slot.node is None]
        return f"{down[0]} does not run" if down else self._clients.waiting()

    def judge(self, world: World) -> None:
        """Everything was judged as it came."""
        del world
