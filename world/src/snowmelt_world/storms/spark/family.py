"""A stream from queue to queue as a family of storms: it is killed, and so are nodes."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Final

import msgspec

import snowmelt
from snowmelt.core.errors import Empty, SnowmeltError
from snowmelt_world.standalone import Standalone
from snowmelt_world.storms.crowd import ClientLife, StormCrowd
from snowmelt_world.storms.family import Judgement, StormFamily
from snowmelt_world.storms.faults import NODE, Card, Fault
from snowmelt_world.storms.journals import Journal
from snowmelt_world.storms.scene import ASK_SECONDS, Scene, Victim
from snowmelt_world.storms.setting import StormSetting
from snowmelt_world.storms.spark.feeder import StreamFeeder
from snowmelt_world.storms.spark.judging import FED, ROUNDS, drain, judge_stream, take
from snowmelt_world.storms.spark.load import SINK, SOURCES, StreamLoad, StreamSettings
from snowmelt_world.storms.spark.rounds import StreamRounds
from snowmelt_world.storms.words import StdinWords

STREAM: Final = "stream"
LEADERS: Final = {"leader of in": SOURCES, "leader of out": (SINK,)}
FEED_SECONDS: Final = 30.0
ROUND_SECONDS: Final = 900.0
DOWN: Final = (0.5, 0.5)


class SparkStorm(StormFamily):
    """One process runs the stream again and again, and kills all or a part of it."""

    settings = StreamSettings
    every = 10.0

    def cards(self, setting: StormSetting) -> Sequence[Card]:
        return (
            *(Card(Fault.KILL, part, DOWN) for part in (NODE, *LEADERS)),
            Card(Fault.LEAVE, NODE, (0.5, 1.0)),
        )

    def processes(self, setting: StormSetting) -> Sequence[tuple[str, int]]:
        return [(STREAM, 0)]

    def live(self, setting: StormSetting, life: ClientLife, words: StdinWords) -> None:
        load = self._load(setting)
        with ExitStack() as stack:
            spark = None
            if load.settings.cluster:
                spark = stack.enter_context(Standalone(setting.folder / "spark", memory="700m"))
                load = msgspec.structs.replace(load, master=spark.url)
            cluster = stack.enter_context(snowmelt.connect(load.url))
            with suppress(Empty):  # this makes it
                cluster.fifo(SINK, **load.kept).get(timeout=0)
            journal = stack.enter_context(Journal(setting.folder / ROUNDS))
            rounds, number, good = StreamRounds(load, cluster, spark), 0, True
            with StreamFeeder(load) as feeder:
                feeder.wait_for_first(FEED_SECONDS)
                while good and (rounds.open or rounds.undecided):
                    number += 1
                    made = rounds.round(number)
                    journal.add(made)
                    good = not made.broken
                    rounds.open = not words.stop.is_set()
            (setting.folder / FED).write_bytes(msgspec.json.encode(feeder.items))
            words.stop.wait()

    def seek(self, part: str, scene: Scene, chance: Random) -> Iterable[Victim]:
        """Who leads one of the queues."""
        assert scene.crowd is not None
        queue = chance.choice(LEADERS[part])
        try:
            with snowmelt.connect(scene.crowd.setting.url) as cluster:
                name = cluster.fifo(queue).stats(timeout=ASK_SECONDS).leader.partition("/")[0]
        except SnowmeltError:  # it has none just now
            return []
        return [Victim(name, part)] if name in scene.nodes and scene.nodes[name].running else []

    def finish(self, setting: StormSetting, crowd: StormCrowd) -> list[str]:
        """The stream has ended its round; what is left is put through, and all is taken."""
        load = self._load(setting)
        wrong = crowd.finish(crowd.running, 1, ROUND_SECONDS) or drain(load)
        with snowmelt.connect(load.url) as cluster:
            return wrong + take(load, cluster)

    def judge(
        self, setting: StormSetting, lives: Sequence[ClientLife], folder: Path, ended: int
    ) -> Judgement:
        return judge_stream(self._load(setting))

    def _load(self, setting: StormSetting) -> StreamLoad:
        return StreamLoad(setting=setting, settings=self.read(setting.given))


FAMILY: Final = SparkStorm()
