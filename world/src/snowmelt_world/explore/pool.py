"""A pool in a small world: a few processes, each with a short program, and who knows whom.

Each process is a part in the pool, and is told at its beginning who produces; nobody introduces. A
program does one thing after another: `put` one object, `get` one, `ack` it and wait for the
confirmation, `leave`. Who has left stands there for a while, since its engine still flushes.

What may never be seen:

1. *Nothing invented.* What comes was put, and kept.
2. *Nothing revived.* What was confirmed as done comes to nobody who asked after that; and while
   nothing is hurt nothing comes twice.
3. *Nothing lost.* At rest whatever was kept and is not done is with somebody who runs and has not
   left, or was counted as left behind, by one or by both of two; and what is confirmed as done is
   with nobody. A process that was killed takes with it what it had.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Final, NamedTuple

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Announced, Effect, Node, Reply, Requested
from snowmelt.protocols.calling import Declined, Lost
from snowmelt.protocols.host import Family, Host
from snowmelt.protocols.pool import calls
from snowmelt.protocols.pool.introductions import Acquaintance
from snowmelt.protocols.pool.peer import TAKEN, PoolPeer
from snowmelt.protocols.pool.settings import Access, AccessKind, PoolSettings
from snowmelt_world.explore.small import Act, Ask, Look, SmallLife
from snowmelt_world.explore.value import Dice, LeftOut
from snowmelt_world.families.membership import address
from snowmelt_world.planted import Bug, planted
from snowmelt_world.world import Broken

SETTINGS: Final = PoolSettings(
    wait=seconds(1), lease=seconds(3), grace=seconds(1), access=Access(AccessKind.UNIFORM)
)
PATIENCE: Final = seconds(2)
"""Of every call but a get."""
LONG: Final = seconds(4)
"""Of a get."""
LEAVES: Final = seconds(1)
"""So long may somebody take to leave: less than one who takes over waits for its answer."""
FLUSHES: Final = seconds(1)
"""Who has left is gone by then; and others hear by then of who is gone, or is back."""


class Program(NamedTuple):
    node: NodeId
    rest: tuple[str, ...]
    """What it is still to do."""
    waits: str = ""
    number: int = 0
    got: str = ""
    token: int = 0
    known_done: tuple[str, ...] = ()
    """What was confirmed as done when it asked."""
    stopped: Instant | None = None
    left: int = 0
    news: tuple[tuple[str, NodeId, Instant], ...] = ()
    """What whoever runs it is to tell it: who is gone, who is back, since when."""


class Thing(NamedTuple):
    value: str
    kept: bool = False
    done: str = ""
    """said, when a program has said that it is done; confirmed."""
    came: int = 0


class Scene(NamedTuple):
    programs: tuple[Program, ...]
    things: tuple[Thing, ...] = ()
    killed: bool = False
    """Whether a process was killed that may have had objects."""

    def of(self, node: NodeId) -> Program:
        return next(one for one in self.programs if one.node == node)

    def program(self, program: Program) -> "Scene":
        programs = tuple(program if one.node == program.node else one for one in self.programs)
        return self._replace(programs=programs)

    def thing(self, thing: Thing) -> "Scene":
        things = {one.value: one for one in self.things} | {thing.value: thing}
        return self._replace(things=tuple(things[value] for value in sorted(things)))

    def value(self, value: str) -> Thing | None:
        return next((one for one in self.things if one.value == value), None)


class PoolWorld(SmallLife):
    """Two producers, one consumer, and one who makes an object and leaves."""

    words: ClassVar[str] = "two producers, one consumer and one leaver"
    left_out: ClassVar[LeftOut] = frozenset(
        {
            ("Host", "strays"),
            ("PoolPeer", "_using"),
            ("PoolPeer", "_taking"),
            ("Consumer", "counts"),
            ("Consumer", "using"),
            ("HeldLoans", "late"),
            ("PutHandler", "blocked"),
            ("PutHandler", "_rate"),
            ("PutHandler", "put_bytes"),
            ("Alarms", "_order"),
        }
    )
    horizon = Instant(seconds(40))
    programs: ClassVar[dict[str, tuple[str, ...]]] = {
        "p1": ("put",),
        "p2": ("put",),
        "c1": ("get", "ack"),
        "l1": ("put", "leave"),
    }
    mortal: tuple[NodeId, ...] = (NodeId("c1"),)

    def __init__(self, bug: Bug | None = None) -> None:
        super().__init__(bug)
        self.nodes = tuple(NodeId(node) for node in self.programs)
        self.prelude = tuple(f"start {node}" for node in self.nodes)
        self._roster = tuple(
            Acquaintance(NodeId(node), node, address(NodeId(node)))
            for node, does in self.programs.items()
            if "put" in does
        )

    def build(self, node: NodeId, life: int) -> Node[Any]:
        machine = PoolPeer(node, "frames", SETTINGS, Dice(life), (), node)
        return planted(self._bug, Host(node, [Family("pool", machine, TAKEN)]))

    def opening(self) -> Scene:
        return Scene(tuple(Program(NodeId(node), does) for node, does in self.programs.items()))

    # --- what may be done -------------------------------------------------------------------------

    def acts(self, look: Look) -> Iterator[Act]:
        """Programs go on as soon as they can; who has left ends; news spreads."""
        scene: Scene = look.scene
        for program in scene.programs:
            node = program.node
            if not look.of(node).runs:
                continue
            if program.rest and not program.waits:
                yield self._goes_on(scene, program)
            if program.stopped is not None:
                until = later(program.stopped, FLUSHES)
                yield Act(f"{node} ends", scene, node, until=until, ends=True)
            for word, other, since in program.news[:1]:
                fact = Lost(other) if word == "loses" else calls.Reachable(other)
                heard = scene.program(program._replace(news=program.news[1:]))
                until = later(since, FLUSHES)
                yield Act(f"{node} {word} {other}", heard, node, (Announced(fact),), until)

    def _goes_on(self, scene: Scene, program: Program) -> Act:
        node, number = program.node, program.number + 1
        word, *rest = program.rest
        program = program._replace(rest=tuple(rest), waits=word, number=number)
        call: calls.Local
        match word:
            case "put":
                value = f"{node}/{number}"
                batch = Batch.of([value.encode()])
                call = calls.PoolPut(bytes(batch.offsets), bytes(batch.blob), PATIENCE)
                scene = scene.thing(Thing(value))
                program = program._replace(got=value)
            case "get":
                done = tuple(one.value for one in scene.things if one.done == "confirmed")
                program = program._replace(known_done=done)
                call = calls.PoolGet(1, 1 << 40, LONG)
            case "ack":
                thing = scene.value(program.got)
                assert thing is not None
                scene = scene.thing(thing._replace(done=thing.done or "said"))
                call = calls.Ack(program.token, (), PATIENCE)
            case _:
                call = calls.Stop(LEAVES)
        event = Requested(OperationId(node, number), call)
        return Act(f"{node} {word}s", scene.program(program), node, (event,))

    # --- processes come and go --------------------------------------------------------------------

    def started(self, look: Look, node: NodeId) -> tuple[Scene, tuple[Any, ...]]:
        """It is told who produces, and the others that it is back."""
        scene: Scene = look.scene
        known = tuple(one.id for one in self._roster)
        if look.of(node).life > 1:
            scene = self._spread(scene, "reaches", node, look)
        return scene, (Announced(calls.PoolMembers(self._roster, known)),)

    def ended(self, look: Look, node: NodeId) -> Scene:
        """What it waited for is nobody's; the others hear of it."""
        scene: Scene = look.scene
        program = scene.of(node)
        killed = program.stopped is None and "put" in self.programs[node]
        rest = ("get", "ack") if program.waits in ("get", "ack") else program.rest
        scene = scene.program(program._replace(waits="", rest=rest, news=()))
        scene = scene._replace(killed=scene.killed or killed)
        return self._spread(scene, "loses", node, look)

    @staticmethod
    def _spread(scene: Scene, word: str, node: NodeId, look: Look) -> Scene:
        """Whoever runs besides will hear of it."""
        for program in scene.programs:
            if program.node != node and look.of(program.node).runs:
                news = (*program.news, (word, node, look.now))
                scene = scene.program(program._replace(news=news))
        return scene

    def returns(self, look: Look, node: NodeId) -> bool:
        """Who has left is gone for good."""
        scene: Scene = look.scene
        return scene.of(node).stopped is None

    # --- what is seen -----------------------------------------------------------------------------

    def saw(self, look: Look, node: NodeId, effects: list[Effect[Any]]) -> Scene:
        scene: Scene = look.scene
        for effect in effects:
            program = scene.of(node)
            if isinstance(effect, Reply) and effect.operation.number == program.number:
                scene = self._told(scene, look, program, effect.message)
        return scene

    def _told(self, scene: Scene, look: Look, program: Program, body: Any) -> Scene:
        waits, program = program.waits, program._replace(waits="")
        scene = scene.program(program)
        match body:
            case calls.PoolReceipt():
                thing = scene.value(program.got)
                assert thing is not None
                return scene.thing(thing._replace(kept=body.count == 1))
            case calls.Got():
                return self._got(scene, look, program, body)
            case calls.Acked():
                return self._acked(scene, program)
            case calls.Stopped(left):
                return scene.program(program._replace(stopped=look.now, left=left))
            case Declined() if waits == "get":  # nothing to acknowledge
                return scene.program(program._replace(rest=program.rest[1:]))
            case _:
                return scene

    @staticmethod
    def _got(scene: Scene, look: Look, program: Program, got: calls.Got) -> Scene:
        value, node = bytes(got.blob).decode(), program.node
        thing = scene.value(value)
        if thing is None:
            raise Broken(f"{node} got {value}, which nobody put", node)
        if value in program.known_done:
            raise Broken(f"{value} was confirmed as done, and comes to {node}", node)
        if thing.came and not look.hurt:
            raise Broken(f"nothing is hurt, and {value} comes again, to {node}", node)
        scene = scene.thing(thing._replace(came=thing.came + 1))
        return scene.program(program._replace(got=value, token=got.token))

    @staticmethod
    def _acked(scene: Scene, program: Program) -> Scene:
        thing = scene.value(program.got)
        assert thing is not None
        if thing.done == "confirmed":
            raise Broken(f"the end of {thing.value} is confirmed twice", program.node)
        return scene.thing(thing._replace(done="confirmed"))

    # --- at rest ----------------------------------------------------------------------------------

    def unsettled(self, look: Look) -> str:
        """At rest when every program is at its end, and who has left is gone."""
        scene: Scene = look.scene
        for program in scene.programs:
            if program.waits or program.rest:
                return f"{program.node} still waits: {program.waits or program.rest[0]}"
            if program.news or (program.stopped is not None and look.of(program.node).runs):
                return f"{program.node} has news, or is to end"
            if program.stopped is None and not look.of(program.node).runs:
                return f"{program.node} does not run"
        return ""

    def judge(self, look: Look, ask: Ask) -> None:
        """Nothing is lost, and what is done is with nobody."""
        scene: Scene = look.scene
        if scene.killed:
            return
        there, left = 0, sum(one.left for one in scene.programs)
        for process in look.processes:
            if process.runs:
                told = ask(
                    process.node, Requested(OperationId(process.node, 0), calls.DescribePeer())
                )
                for effect in told:
                    if isinstance(effect, Reply):
                        there += effect.message.stock + effect.message.on_loan
        names = " ".join(one.value for one in scene.things if one.kept and not one.done)
        open_ = len(names.split())
        doubtful = sum(one.done == "said" for one in scene.things)
        if there + left < open_:
            text = f"lost: {there} objects are there, {left} were left behind, to be done are"
            raise Broken(f"{text} {names}", "pool")
        if there > open_ + doubtful:
            raise Broken(f"{there} objects are there, and to be done are only: {names}", "pool")


class TwoLeave(PoolWorld):
    """Two leave at the same time, each the other's heir."""

    words: ClassVar[str] = "two who leave, each of whom may take over what the other made"
    programs: ClassVar[dict[str, tuple[str, ...]]] = {
        "l1": ("put", "leave"),
        "l2": ("put", "leave"),
    }
    mortal: tuple[NodeId, ...] = ()


class OneEach(PoolWorld):
    """The smallest pool."""

    words: ClassVar[str] = "one producer with two objects, and one consumer"
    programs: ClassVar[dict[str, tuple[str, ...]]] = {
        "p1": ("put", "put"),
        "c1": ("get", "ack", "get", "ack"),
    }
    injuries: ClassVar[tuple[str, ...]] = ("repeat", "lose")
