"""Two who alter one setting of a queue in two ways, at the same time, when all faults are over.

Each asks until it was told that it is so, several times. Both are told in the end, whatever the
other wanted meanwhile: else the life does not come to rest.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from snowmelt.client.connection.steps import Steps
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.core.errors import CallerError
from snowmelt.core.instant import seconds
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt_world.families.fifo_actors import Stage
from snowmelt_world.families.programs import FAILURES, pause
from snowmelt_world.families.queue_deleted import SHORT, User
from snowmelt_world.judge.deleted import DeletedLedger
from snowmelt_world.scenario import Scenario

ROUNDS: Final = 3
COPIES_MOST: Final = 3
TRIES_MAX: Final = 4
"""So often it tries to make the queue: where that fails nobody can, and there is nothing to see."""


class Rival(User):
    """Alters, and is told."""

    def __init__(self, stage: Stage, name: str, chance: Random, queue: str) -> None:
        unused = DeletedLedger(queue, keeps=False, knows=False)
        super().__init__(stage, name, chance, unused, None)
        self._producer = ProducerSequence(None, names=lambda: f"c{name}", chance=chance)
        self._queue = queue

    def make(self, copies: int, then: Callable[[], None]) -> Steps[None]:
        """The queue; `then` is done where it is there."""
        for _ in range(TRIES_MAX):
            settings = QueueSettings(replicas=copies)
            steps = FifoSteps(self._queue, settings, self._producer, self.chance)
            try:
                yield from steps.create(SHORT)
            except FAILURES:
                yield pause(self.some(seconds(1)))
            except CallerError:  # there are fewer nodes by now
                copies = 1
            else:
                then()
                return

    def alter(self, lengths: tuple[int, ...]) -> Steps[None]:
        """One after the other, each until it is told so."""
        steps = FifoSteps(self._queue, None, self._producer, self.chance)
        for length in lengths:
            while True:
                try:
                    yield from steps.alter({"lease": length}, SHORT)
                except FAILURES:
                    yield pause(self.some(seconds(1)))
                else:
                    break


class Rivals:
    """Both, of one queue."""

    def __init__(self, stage: Stage, queue: str, chance: Random, scenario: Scenario) -> None:
        self._stage = stage
        self._queue = queue
        self._chance = chance
        self._all: list[Rival] = []
        self._copies = min(len(scenario.nodes), COPIES_MOST)
        stage.world.at(scenario.faults_end, self._begin)

    def _begin(self) -> None:
        """They are not there before: until then a life is as it would be without them."""
        self._all = [
            Rival(self._stage, f"{self._queue}u{at}", Random(self._chance.random()), self._queue)
            for at in range(2)
        ]
        first = self._all[0]
        first.run(first.make(self._copies, self._alter))

    def _alter(self) -> None:
        for one, length in zip(self._all, (2, 3), strict=True):
            one.run(one.alter(tuple(range(length, length + 2 * ROUNDS, 2))))

    @property
    def unsettled(self) -> str:
        """Who was not told yet."""
        names = [str(one.name) for one in self._all if one.busy]
        return f"{names[0]} alters {self._queue}, and is not told" if names else ""
