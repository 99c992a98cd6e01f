"""Fifos and priority queues as a family of storms."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from snowmelt_world.storms.crowd import ClientLife, StormCrowd
from snowmelt_world.storms.family import Judgement, StormFamily
from snowmelt_world.storms.faults import ETCD, LEADER, NODE, PROCESSES, Card, Fault
from snowmelt_world.storms.queues.client import work
from snowmelt_world.storms.queues.draining import drain
from snowmelt_world.storms.queues.judging import judge_queue
from snowmelt_world.storms.queues.load import QueueLoad, QueueSettings
from snowmelt_world.storms.setting import StormSetting
from snowmelt_world.storms.words import StdinWords

CLIENTS: Final = "clients"
FINISH_SECONDS: Final = 120.0
CARDS: Final = (
    Card(Fault.KILL, NODE, (0.5, 0.5), often=2),
    Card(Fault.STOP, NODE, (0.5, 15.0), often=2),
    Card(Fault.STOP, CLIENTS, (6.0, 12.0)),
    Card(Fault.LEAVE, NODE, (0.5, 3.0)),
    Card(Fault.JOIN, NODE, (0.0, 0.0)),
    Card(Fault.CUT, PROCESSES, (1.0, 30.0), often=2),
    Card(Fault.SEVER, CLIENTS, (1.0, 20.0)),
    Card(Fault.SLOW, NODE, (2.0, 10.0)),
    Card(Fault.FULL, NODE, (2.0, 10.0)),
    Card(Fault.FAIL, NODE, (15.0, 15.0)),
    Card(Fault.LOSE, NODE, (0.0, 0.0), window=(0.3, 0.7)),
)
WITH_ETCD: Final = (
    Card(Fault.KILL, LEADER, (1.0, 30.0), often=2),
    Card(Fault.STOP, LEADER, (1.0, 30.0), often=2),
    Card(Fault.KILL, ETCD, (1.0, 30.0)),
    Card(Fault.STOP, ETCD, (1.0, 30.0)),
)


class QueueStorm(StormFamily):
    """Half of the clients put batches, the others get and acknowledge."""

    settings = QueueSettings

    def cards(self, setting: StormSetting) -> Sequence[Card]:
        if not setting.etcd:
            return CARDS
        return (*(card for card in CARDS if card.fault is not Fault.LOSE), *WITH_ETCD)

    def processes(self, setting: StormSetting) -> Sequence[tuple[str, int]]:
        return [(CLIENTS, number) for number in range(len(self._edges(setting)) - 1)]

    def live(self, setting: StormSetting, life: ClientLife, words: StdinWords) -> None:
        mine = list(pairwise(self._edges(setting)))[life.number]
        asyncio.run(work(self._load(setting), life.name, range(*mine), words))

    def finish(self, setting: StormSetting, crowd: StormCrowd) -> list[str]:
        wrong = crowd.finish(crowd.running, 1, FINISH_SECONDS)
        status, left = drain(self._load(setting), FINISH_SECONDS)
        if left:
            wrong.append(left)
        if status is not None and status.lost:
            wrong.append(f"the queue says that it lost {status.lost} items")
        return wrong

    def judge(
        self, setting: StormSetting, lives: Sequence[ClientLife], folder: Path, ended: int
    ) -> Judgement:
        return judge_queue(folder, setting.seconds, ended)

    def _load(self, setting: StormSetting) -> QueueLoad:
        return QueueLoad(setting, self.read(setting.given))

    def _edges(self, setting: StormSetting) -> list[int]:
        """At which clients each process begins, and where the last ends."""
        count = min(self._load(setting).settings.processes, setting.clients // 2)
        return [setting.clients * one // count for one in range(count + 1)]


FAMILY: Final = QueueStorm()
