"""Does what was drawn to whoever can be hit, and lets each heal in its time.

Rules:

1. Nobody is hit twice at a time, but links between two, and no more than `at_once` faults are on.
2. A card that finds nobody is given up for another one.
3. What is done is written down before it is done, so nothing that follows from it is earlier.
4. A node or a client that ends by itself is a broken promise, but a node whose disk fails or is
   full, which says so.
5. A node's disk that fails must be noticed: the node ends, or is cut off from the others.
"""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Final, Self

import msgspec

from snowmelt.cli.local import LocalNode
from snowmelt.runtime.rescue import Rescue
from snowmelt_world.storms.events import Events, Happened, StormEvent
from snowmelt_world.storms.family import StormFamily
from snowmelt_world.storms.faults import ETCD, NODE, PROCESSES, Card, Drawn, Fault
from snowmelt_world.storms.journals import now
from snowmelt_world.storms.scene import Scene, Victim
from snowmelt_world.storms.setting import StormSetting

LOOK_SECONDS: Final = 0.05
LEAVE_SECONDS: Final = 60.0
UP_SECONDS: Final = 120.0
ONE_WAY: Final = 0.3
"""So many of the cuts are one way only."""
CURRENT: Final = "current"
NO_ROOM: Final = "No space left on device"
OF_LINKS: Final = frozenset({Fault.CUT, Fault.SEVER, Fault.SLOW})
OF_DISKS: Final = frozenset({Fault.FULL, Fault.FAIL})

Ways = tuple[tuple[str, str], ...]


class Active(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that is on, until a moment of this program's clock."""

    fault: Fault
    victim: Victim
    until: float
    away: float = 0.0
    """Seconds from an end in order to the next start."""
    gone: bool = False
    cuts: Ways = ()


class Storm:
    """What is done to a run, and what nodes and clients do of themselves."""

    def __init__(self, setting: StormSetting, family: StormFamily, scene: Scene) -> None:
        self.done: Counter[str] = Counter()
        """How often each fault was done."""
        self.wrong: list[str] = []
        self._setting = setting
        self._family = family
        self._scene = scene
        self._spared = family.spares_first and not setting.etcd
        self._on: list[Active] = []
        self._ended: set[str] = set()
        """Who ended by itself, and was told of."""
        self._events = Events(setting.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._on:  # what is stopped can't be asked to end, nor read what has failed
            if one.fault is Fault.STOP:
                self._scene.go_on(one.victim.who)
            if one.fault is Fault.FAIL:
                self._scene.kill(one.victim.who)
                self._scene.disks[one.victim.who].repair()
        self._events.close()

    @property
    def now_on(self) -> str:
        """What is on, in words."""
        return ", ".join(f"{one.fault.value} {one.victim.who}" for one in self._on)

    def note(self, what: Happened, text: str = "") -> None:
        self._events.note(what, text)

    def blow(
        self,
        drawn: Iterable[Drawn],
        seconds: float,
        cards: Sequence[Card],
        tick: Callable[[], None],
    ) -> None:
        """Does what was drawn for these seconds, and heals all in the end."""
        self.note(Happened.STORM)
        begin = time.monotonic()
        for one in drawn:
            self._wait(begin + one.at, tick)
            if len(self._on) < self._setting.at_once:
                self._strike(one, cards)
        self._wait(begin + seconds, tick)
        self.heal(tick)

    def calm(self, seconds: float, tick: Callable[[], None]) -> None:
        """Only looks on; all is up, and stays so."""
        self.note(Happened.CALM)
        self._wait(time.monotonic() + seconds, tick)

    def heal(self, tick: Callable[[], None]) -> None:
        """Ends all that is on, now; who leaves in order is waited for."""
        self._on = [
            one if one.fault is Fault.LEAVE else msgspec.structs.replace(one, until=0.0)
            for one in self._on
        ]
        while self._on:
            self._end_those_over(now_hurry=True)
            tick()
            time.sleep(LOOK_SECONDS)

    def _wait(self, until: float, tick: Callable[[], None]) -> None:
        while True:
            self._look()
            self._end_those_over()
            tick()
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(LOOK_SECONDS, left))

    # --- a fault begins ---------------------------------------------------------------------------

    def _strike(self, drawn: Drawn, cards: Sequence[Card]) -> None:
        """The card that was drawn, or else another that finds somebody (rule 2)."""
        chance = Random(drawn.seed)
        others = [card for card in cards if card.window == drawn.card.window]
        for card in (drawn.card, *chance.sample(others, len(others))):
            found = self._whom(card, chance)
            if found is not None:
                self._begin(card, found, drawn.seconds, chance)
                return

    def _whom(self, card: Card, chance: Random) -> tuple[Victim, Ways] | None:
        scene = self._scene
        if card.fault is Fault.LOSE:
            return Victim(next(iter(scene.nodes)), NODE), ()
        if card.fault is Fault.JOIN:
            return (Victim(scene.spare[0].name, NODE), ()) if scene.spare else None
        if card.part == PROCESSES:
            return self._cut(chance)
        hurt = {one.victim.home for one in self._on}
        seen = scene.playing(card.part, chance)
        for victim in self._family.seek(card.part, scene, chance) if seen is None else seen:
            first = victim.who == next(iter(scene.nodes))
            if victim.home in hurt or (first and self._spared):
                continue
            if card.fault is Fault.FULL and victim.who not in list(scene.nodes)[1::2]:
                continue  # where nobody has room there is nothing to judge
            if card.fault is Fault.SEVER:
                half = chance.sample(list(scene.nodes), max(1, len(scene.nodes) // 2))
                ways = [pair for one in half for pair in ((victim.home, one), (one, victim.home))]
                return victim, tuple(ways)
            return victim, ()
        return None

    def _cut(self, chance: Random) -> tuple[Victim, Ways] | None:
        names = list(self._scene.nodes)
        if self._scene.etcd is not None:
            names += [one.who for one in self._scene.playing(ETCD, chance) or ()]
        if len(names) < 2:
            return None
        one, other = chance.sample(names, 2)
        if {f"{one}|{other}", f"{other}|{one}"} & {on.victim.who for on in self._on}:
            return None
        both = () if chance.random() < ONE_WAY else ((other, one),)
        return Victim(f"{one}|{other}", PROCESSES), ((one, other), *both)

    def _begin(
        self, card: Card, found: tuple[Victim, Ways], seconds: float, chance: Random
    ) -> None:
        fault, (victim, cuts) = card.fault, found
        if fault is Fault.LOSE:
            self.heal(lambda: None)
        if fault is Fault.SLOW:
            victim = msgspec.structs.replace(victim, who=victim.home)
        self._family.before(victim, self._scene, chance)
        self._write(Happened.BEGINS, fault, victim, cuts)
        self.done[f"{fault.value} {victim.part}"] += 1
        until, scene = time.monotonic() + seconds, self._scene
        match fault:
            case Fault.KILL:
                scene.kill(victim.who)
            case Fault.STOP:
                scene.stop(victim.who)
            case Fault.LEAVE:
                scene.leave(victim.who)
                until = time.monotonic() + LEAVE_SECONDS
            case Fault.JOIN:
                scene.join()
            case Fault.CUT | Fault.SEVER:
                assert scene.links is not None
                for way in cuts:
                    scene.links.cut(*way)
            case Fault.SLOW:
                assert scene.links is not None
                scene.links.slow(victim.who, int(chance.uniform(*card.bits)))
            case Fault.FULL:
                scene.disks[victim.who].fill()
            case Fault.FAIL:
                scene.disks[victim.who].fail()
            case Fault.LOSE:
                self._lose()
            case _:
                raise AssertionError(fault)
        active = Active(fault=fault, victim=victim, until=until, away=seconds, cuts=cuts)
        self._on.append(active)

    def _lose(self) -> None:
        """The disk of the node that decides is lost with all running, and made anew."""
        nodes = list(self._scene.nodes.values())
        for node in nodes:
            node.kill()
        first, *rest = nodes
        shutil.rmtree(first.folder)
        with Rescue(first.folder, [one.folder for one in rest], ()) as rescue:
            rescue.carry_out(rescue.plan())
        for node in nodes:
            node.start()
        self._scene.cluster.wait_for([node.name for node in nodes], UP_SECONDS)

    # --- and ends ---------------------------------------------------------------------------------

    def _end_those_over(self, *, now_hurry: bool = False) -> None:
        self._on = list(self._gone(self._on, now_hurry=now_hurry))
        for one in [one for one in self._on if one.until <= time.monotonic()]:
            self._on.remove(one)
            self._end(one)
            self._write(Happened.ENDS, one.fault, one.victim)

    def _gone(self, active: Sequence[Active], *, now_hurry: bool) -> Iterator[Active]:
        """Who was asked to end in order, and has, is away for some time from now on."""
        for one in active:
            if one.fault is Fault.LEAVE and not (one.gone or self._scene.running(one.victim.who)):
                until = time.monotonic() + (0.0 if now_hurry else one.away)
                yield msgspec.structs.replace(one, gone=True, until=until)
            else:
                yield one

    def _end(self, one: Active) -> None:
        scene, who = self._scene, one.victim.who
        match one.fault:
            case Fault.KILL:
                scene.again(who)
            case Fault.LEAVE:
                if not one.gone:
                    self.wrong.append(f"{who} did not leave in {LEAVE_SECONDS:g} s")
                    scene.kill(who)
                elif words := scene.ended_badly(who):
                    self.wrong.append(words)
                scene.again(who)
            case Fault.STOP:
                scene.go_on(who)
            case Fault.CUT | Fault.SEVER:
                assert scene.links is not None
                for way in one.cuts:
                    scene.links.mend(*way)
            case Fault.SLOW:
                assert scene.links is not None
                scene.links.quicken(who)
            case Fault.FULL:
                scene.disks[who].free()
                if not scene.nodes[who].running:
                    scene.nodes[who].start()
            case Fault.FAIL:
                if scene.nodes[who].running:
                    self._unnoticed(scene.nodes[who])
                    scene.nodes[who].kill()
                self._restored(scene.nodes[who])
            case _:  # who has joined stays; what was lost is there again
                pass

    # --- what is seen beside ----------------------------------------------------------------------

    def _look(self) -> None:
        """Who ended by itself (rule 4)."""
        for node in list(self._scene.nodes.values()):
            if node.running:
                continue
            on = next((one for one in self._on if one.victim.who == node.name), None)
            if on is not None and on.fault in (Fault.KILL, Fault.LEAVE):
                continue
            if on is not None and on.fault is Fault.FULL and NO_ROOM in node.last_words():
                continue  # it was starting, and says so; it starts once there is room
            if on is not None and on.fault is Fault.FAIL:
                self._write(Happened.ENDS, on.fault, on.victim)
                self.done["node ended as its disk failed"] += 1
                self._on.remove(on)
                self._restored(node)
                continue
            self.wrong.append(f"{node.name} ended by itself: {node.last_words()}")
            self.note(Happened.NOTE, self.wrong[-1])
            node.start()
        for member in self._scene.crowd.members if self._scene.crowd is not None else ():
            life = member.life
            if member.running or life.killed or member.leaving or life.name in self._ended:
                continue
            self._ended.add(life.name)
            self.wrong.append(member.ended(0) or f"{life.name} ended by itself")

    def _unnoticed(self, node: LocalNode) -> None:
        # One that is cut off writes nothing, and keeps nothing from others (rule 5).
        status = node.status()
        if status is not None and status.standing == CURRENT:
            self.wrong.append(f"{node.name} did not notice that its disk fails")

    def _restored(self, node: LocalNode) -> None:
        """Its failed disk is repaired, and it goes on with what was flushed."""
        self._scene.disks[node.name].repair()
        node.start()

    def _write(self, what: Happened, fault: Fault, victim: Victim, cuts: Ways = ()) -> None:
        self._events.write(
            StormEvent(
                at=now(),
                wall=time.time(),
                what=what,
                fault=fault,
                who=victim.who,
                part=victim.part,
                of=victim.of,
                fence=victim.fence,
                cuts=cuts,
            )
        )
