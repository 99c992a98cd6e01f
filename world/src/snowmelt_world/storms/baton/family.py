"""Batons as a family of storms."""

import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

import snowmelt
from snowmelt.cli.local import LocalNode
from snowmelt.client.connection.clients import Clients
from snowmelt.client.connection.url import read
from snowmelt.core.errors import SnowmeltError
from snowmelt.protocols.baton.calls import BatonStatus, GetBaton
from snowmelt_world.storms.baton.journal import HOLDING, BatonLine, BatonStep
from snowmelt_world.storms.baton.judging import judge_batons
from snowmelt_world.storms.baton.load import PLANTS, BatonLoad, BatonSettings
from snowmelt_world.storms.baton.queueing import WaitBounds
from snowmelt_world.storms.baton.worker import BatonWorker
from snowmelt_world.storms.crowd import ClientLife, ClientProcess, StormCrowd
from snowmelt_world.storms.family import Judgement, StormFamily
from snowmelt_world.storms.faults import LEADER, NODE, Card, Fault, Phases
from snowmelt_world.storms.journals import Journal, last
from snowmelt_world.storms.scene import ASK_SECONDS, Scene, Victim
from snowmelt_world.storms.setting import StormSetting
from snowmelt_world.storms.words import StdinWords

WORKER: Final = "worker"
HOLDER: Final = "holder"
WAITER: Final = "waiter"
HOLDERS_NODE: Final = "holder's node"
FINISH_SECONDS: Final = 90.0
INSISTING: Final = 0.7
"""How likely a holder holds on whose node is hit: most holds would be over before it matters."""
NODE_STOPPED: Final = (4.0, 9.0)
"""Longer than the members' patience; and longer than that and a lease."""
SLOW_BITS: Final = (64e3, 1e6)
"""Less than what nodes say to each other all the time, or some more."""
SLOWED: Final = (4.0, 9.0)


class BatonStorm(StormFamily):
    """Workers want one baton after the other; who holds, who waits, and nodes are hit."""

    settings = BatonSettings
    own = frozenset({Fault.FORK})
    plants = PLANTS
    spares_first = True

    def cards(self, setting: StormSetting) -> Sequence[Card]:
        leads = (Card(Fault.KILL, LEADER, (2.0, 2.0)), Card(Fault.STOP, LEADER, NODE_STOPPED))
        return (
            Card(Fault.KILL, HOLDER, (1.0, 1.0)),
            Card(Fault.KILL, WAITER, (1.0, 1.0)),
            Card(Fault.STOP, HOLDER, (6.5, 6.5)),
            Card(Fault.STOP, WAITER, (4.0, 4.0)),
            *(Card(Fault.KILL, part, (2.0, 2.0)) for part in (NODE, HOLDERS_NODE)),
            *(Card(Fault.STOP, part, NODE_STOPPED) for part in (NODE, HOLDERS_NODE)),
            Card(Fault.LEAVE, NODE, (1.0, 2.0)),
            *(
                Card(Fault.SLOW, part, SLOWED, bits=SLOW_BITS)
                for part in (WORKER, NODE, HOLDERS_NODE)
            ),
            *(leads if setting.etcd else ()),
        )

    def phases(self, setting: StormSetting) -> Phases:
        some = self._load(setting).settings
        return Phases(some.storm, some.calm, some.last)

    def processes(self, setting: StormSetting) -> Sequence[tuple[str, int]]:
        return [(WORKER, number) for number in range(setting.clients)]

    def live(self, setting: StormSetting, life: ClientLife, words: StdinWords) -> None:
        load, path = self._load(setting), setting.folder / f"{life.name}.jsonl"
        with snowmelt.connect(load.url(life.number)) as cluster, Journal(path) as journal:
            worker = BatonWorker(load, life.number, life.life, cluster, journal)
            signal.signal(signal.SIGUSR1, worker.insist)
            worker.run(words)

    def seek(self, part: str, scene: Scene, chance: Random) -> Iterable[Victim]:
        if part == HOLDERS_NODE:
            return self._holders_nodes(scene, chance)
        clients = list(scene.clients.items())
        found = [
            Victim(name, part)
            for name, member in clients
            if (line := said_last(member)) is not None
            and (line.what in HOLDING if part == HOLDER else line.what is BatonStep.ASKED)
        ]
        return chance.sample(found, len(found))

    def before(self, victim: Victim, scene: Scene, chance: Random) -> None:
        """A holder whose node is hit holds on, mostly."""
        if victim.part != HOLDERS_NODE or chance.random() >= INSISTING:
            return
        for member in scene.clients.values():
            line = said_last(member)
            held = (line.baton, line.fence) if line and line.what in HOLDING else None
            if held == (victim.of, victim.fence):
                os.kill(member.pid, signal.SIGUSR1)

    def finish(self, setting: StormSetting, crowd: StormCrowd) -> list[str]:
        return crowd.finish(crowd.running, 1, FINISH_SECONDS)

    def judge(
        self, setting: StormSetting, lives: Sequence[ClientLife], folder: Path, ended: int
    ) -> Judgement:
        some = self._load(setting).settings
        bounds = WaitBounds(
            settle=some.settle,
            serve=some.serve,
            overtaking=some.overtaking,
            timeout=some.timeout,
            late=some.late,
        )
        return judge_batons(folder, lives, bounds)

    def _holders_nodes(self, scene: Scene, chance: Random) -> Iterator[Victim]:
        """Those at which somebody holds a baton this very moment."""
        assert scene.crowd is not None
        batons = self._load(scene.crowd.setting).batons
        for node in scene.standing(chance):
            for baton in batons:
                if fence := held_at(node, baton):
                    yield Victim(node.name, HOLDERS_NODE, baton, fence)

    def _load(self, setting: StormSetting) -> BatonLoad:
        return BatonLoad(setting, self.read(setting.given))


def said_last(member: ClientProcess) -> BatonLine | None:
    """What a worker wrote down last."""
    return last(member.journal, BatonLine)


def held_at(node: LocalNode, baton: str) -> int:
    """The fence of the hold that is at this node now; 0 when there is none, or no answer."""
    clients = Clients(read(node.url))
    try:
        status: BatonStatus = clients.call(GetBaton(baton), ASK_SECONDS)
    except SnowmeltError:
        return 0
    finally:
        clients.close()
    return status.fence if status.state == "held" and status.node == node.name else 0


FAMILY: Final = BatonStorm()
