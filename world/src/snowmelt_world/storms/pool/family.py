"""Pools as a family of storms.

All kills of clients come first, and then those that leave: one that leaves hands its objects to
others, and were one of them killed later, nobody could tell from the journals what it had taken
over.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

import snowmelt
from snowmelt_world.storms.crowd import ClientLife, StormCrowd
from snowmelt_world.storms.family import Judgement, StormFamily
from snowmelt_world.storms.faults import NODE, Card, Fault
from snowmelt_world.storms.pool.consumer import PoolConsumer
from snowmelt_world.storms.pool.journal import PoolJournal
from snowmelt_world.storms.pool.judging import CONSUMER, DRAIN, PRODUCER, Room, judge_pool
from snowmelt_world.storms.pool.load import DAMAGED, DOUBLED, LOST, PoolLoad, PoolSettings
from snowmelt_world.storms.pool.producer import PoolProducer
from snowmelt_world.storms.setting import StormSetting
from snowmelt_world.storms.words import StdinWords

FINISH_SECONDS: Final = 60.0
DRAIN_SECONDS: Final = 120.0
FEW: Final = 8
SLACK_SECONDS: Final = 2.0
HOPS: Final = 1_000
"""Who drains asks everybody at once: nearly all producers are empty then."""
KILLS: Final = (0.05, 0.65)
INJURIES: Final = (0.05, 0.8)
LEAVES: Final = (0.75, 0.9)
STOPPED: Final = (1.0, 4.0)
"""Seconds longer than a lease that one stands still."""


class PoolStorm(StormFamily):
    """Half of the clients put objects of 100 B to 2 MB, the others get and acknowledge."""

    settings = PoolSettings
    own = frozenset({Fault.FORK, Fault.LIMITS})
    plants = (LOST, DOUBLED, DAMAGED)

    def cards(self, setting: StormSetting) -> Sequence[Card]:
        lease = self._load(setting).settings.lease
        stopped = lease + STOPPED[0], lease + STOPPED[1]
        return (
            Card(Fault.KILL, PRODUCER, (1.0, 1.0), often=3, window=KILLS),
            Card(Fault.KILL, CONSUMER, (1.0, 1.0), often=3, window=KILLS),
            Card(Fault.KILL, NODE, (1.0, 1.0), window=KILLS),
            *(Card(Fault.STOP, part, stopped, window=INJURIES) for part in PARTS),
            *(Card(Fault.SLOW, part, (4.0, 10.0), window=INJURIES) for part in PARTS),
            Card(Fault.LEAVE, NODE, (1.0, 2.0), window=INJURIES),
            Card(Fault.LEAVE, PRODUCER, (1.0, 1.0), often=3, window=LEAVES),
        )

    def processes(self, setting: StormSetting) -> Sequence[tuple[str, int]]:
        half = setting.clients // 2
        consumers = [(CONSUMER, number) for number in range(setting.clients - half)]
        return [*consumers, *((PRODUCER, number) for number in range(half))]

    def live(self, setting: StormSetting, life: ClientLife, words: StdinWords) -> None:
        load, path = self._load(setting), setting.folder / f"{life.name}.jsonl"
        with snowmelt.connect(setting.url) as cluster, PoolJournal(path) as journal:
            if life.role == PRODUCER:
                pool = load.joined(cluster, producer=life.home)
                PoolProducer(load, life.number, life.life, pool, journal).run(words)
            else:
                PoolConsumer(load, life.number, life.life, cluster, journal).run(words)

    def finish(self, setting: StormSetting, crowd: StormCrowd) -> list[str]:
        """Producers put no more, and stay; consumers end, and the pool is emptied."""
        for member in crowd.of(PRODUCER):
            member.tell()
        wrong = crowd.finish(crowd.of(CONSUMER), 1, FINISH_SECONDS)
        left = self._drain(setting)
        wrong += [left] if left else []
        return wrong + crowd.finish(crowd.of(PRODUCER), 1, FINISH_SECONDS)

    def judge(
        self, setting: StormSetting, lives: Sequence[ClientLife], folder: Path, ended: int
    ) -> Judgement:
        load = self._load(setting)
        most = load.settings.wait + load.settings.slack
        return judge_pool(folder, lives, most, Room(load.settings.buffers, load.bytes_most))

    def _drain(self, setting: StormSetting) -> str:
        """Takes all there is, undisturbed; what went wrong, if something did.

        It is empty when nothing came for longer than any loan of a consumer that is gone can last.
        """
        calm = msgspec.structs.replace(setting, faults=frozenset())
        given = setting.given | {"max_hops": HOPS}
        load = PoolLoad(calm, self.read(given))
        end = time.monotonic() + DRAIN_SECONDS
        quiet = load.settings.lease + load.settings.wait + SLACK_SECONDS
        path = setting.folder / f"{DRAIN}.jsonl"
        with snowmelt.connect(setting.url) as cluster, PoolJournal(path) as journal:
            drainer = PoolConsumer(load, -1, 0, cluster, journal)
            while time.monotonic() < end:
                if not drainer.get(FEW, quiet):
                    return ""
        return f"the pool was not empty after {DRAIN_SECONDS:g} s"

    def _load(self, setting: StormSetting) -> PoolLoad:
        return PoolLoad(setting, self.read(setting.given))


PARTS: Final = (PRODUCER, CONSUMER, NODE)
FAMILY: Final = PoolStorm()
