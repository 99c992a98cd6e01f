"""One who puts more than goes in one call: `put_many` of several calls, with faults in between.

How much goes in one call the steps are told (`CallLimit`), so a few bodies are several calls. Each
call's bodies are a batch to the ledger, which judges where they stand, and that none comes twice.
Here the person is judged, who knows of one `put_many`:

1. What it returns goes from the first body's position to behind the last one's, and its calls keep
   their order.
2. When it fails, its note says which of the first bodies are in the queue, and where: these are, as
   a node said. If nothing may be in behind them, nothing is; else the call that was under way may
   be, and those behind it were never made.
"""

import re
from itertools import accumulate, chain, pairwise
from typing import Any, Final

from snowmelt.client.connection.steps import Steps
from snowmelt.client.queue.bodies import CALL, CallLimit
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import SECOND, milliseconds, seconds
from snowmelt.core.interval import Interval
from snowmelt_world.families.fifo_actors import DELAY
from snowmelt_world.families.fifo_clients import Producer
from snowmelt_world.families.programs import FAILURES, pause
from snowmelt_world.judge.values import Put

NOTE: Final = re.compile(r"the first (\d+) bodies are in the queue(?:, in \[(\d+), (\d+)\))?(.*)")


class Pourer(Producer):
    def __init__(self, *cast: Any) -> None:
        super().__init__(*cast)
        self.numbered = False  # a number names one call
        self.steps = self.opened()

    def put(self, sequence: int) -> None:
        """Some batches of one size, of which the last may be smaller."""
        chance = self.chance
        size = min(chance.choice((1, 2, 5)), self.load.items)
        calls, last = chance.choice((2, 3, 6, 12)), chance.randint(1, size)
        filling = "." * chance.choice((0, 3, self.load.body))
        batches = [self._batch_of(sequence, size, filling)]
        while len(batches) < calls:
            self._sequence += 1
            count = size if len(batches) + 1 < calls else last
            batches.append(self._batch_of(self._sequence - 1, count, filling))
        limit = CallLimit(items=size)
        if chance.random() < 0.5:
            limit = CallLimit(CALL.items, size * len(batches[0].bodies[0]))
        delayed = chance.random() < 0.12 and self.delays
        delay = self.some(DELAY) / SECOND if delayed else 0.0
        waits = chance.random() < self.load.waits
        patience = self.some(self.load.patience) / SECOND if waits else 0.0
        run = self.run(self._pour(batches, limit, delay, patience))
        if chance.random() < 0.4:
            self.after(self.some(milliseconds(chance.choice((5, 50, 2_000)))), run.interrupt)

    def _batch_of(self, sequence: int, count: int, filling: str) -> Put:
        """All bodies are equally long."""
        values = tuple(f"{self.name}/{sequence:05}/{index}{filling}" for index in range(count))
        batch = Put(self.name, values, b"", self.now, number=sequence)
        self.ledger.asked(batch)
        self.unfinished[sequence] = None
        return batch

    def _pour(
        self, batches: list[Put], limit: CallLimit, delay: float, patience: float
    ) -> Steps[None]:
        """All of them; and at times, when some were refused, those once more."""
        left = batches
        while left:
            bodies = list(chain.from_iterable([one.bodies for one in left]))
            put = self.steps.put_many(bodies, None, delay, patience, None, limit)
            try:
                [where] = yield from put
            except FAILURES as error:
                left = self._half(left, error)
                if not self.loads or self.chance.random() < 0.5:
                    for one in left:
                        self.told_refused(one, error, asked=one.sent)
                    break
                yield pause(self.some(seconds(1)))
            else:
                self._are_in(left, where)
                break
        for one in batches:
            self.unfinished.pop(one.number, None)

    def _are_in(self, batches: list[Put], where: Interval) -> None:
        """Rule 1."""
        for one in batches:
            self._told(one, -1)
        starts = [one.start for one in batches if one.start is not None]
        if len(starts) < len(batches):
            return  # what was told is undone, or no longer remembered
        stops = [at + len(one.bodies) for at, one in zip(starts, batches, strict=True)]
        if where != Interval(starts[0], stops[-1]):
            text = f"{self.name} is told {where} for what lies from {starts[0]} to {stops[-1]}"
            self.ledger.wrong(text, self.name)
        for (_, stop), (start, _) in pairwise(zip(starts, stops, strict=True)):
            if start < stop:
                text = f"{self.name} put in order what lies at {starts}"
                self.ledger.wrong(text, self.name)

    def _half(self, batches: list[Put], error: BaseException) -> list[Put]:
        """Rule 2; what may be put once more."""
        found = [NOTE.fullmatch(note) for note in getattr(error, "__notes__", ())]
        noted = next((one for one in found if one is not None), None)
        count, unsure = 0, not (isinstance(error, SnowmeltError) and error.definite)
        into = Interval(0, 0)
        if noted is not None:
            count, unsure = int(noted[1]), bool(noted[4])
            into = Interval(int(noted[2] or 0), int(noted[3] or 0))
        ends = [0, *accumulate(len(one.bodies) for one in batches)]
        told = ends.index(count) if count in ends else None
        if told is None or told == len(batches):
            self.ledger.wrong(f"{count} bodies of {self.name} are in, it is told", self.name)
            return []
        if told:
            self._are_in(batches[:told], into)
        left = batches[told:]
        if unsure:
            left = left[1:]
        for one in left[0 if unsure else 1 :]:
            if one.sent:
                text = f"{one.values[0]} is told never to have been sent, and was"
                self.ledger.wrong(text, self.name)
        return left
