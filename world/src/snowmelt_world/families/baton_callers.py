"""What programs do with a baton that they hold: some carry a value, and some count.

Each gives it up as the shipped faces do: with what it set, or after an error as it got it.
"""

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from snowmelt.client.baton.steps import BatonHold
from snowmelt.client.connection.steps import Steps
from snowmelt.client.counter.state import take
from snowmelt.core.instant import Duration, later, milliseconds, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.baton import calls
from snowmelt_world.families.baton_ledger import Ledger
from snowmelt_world.families.baton_numbers import Numbers
from snowmelt_world.families.baton_users import FAILURES, HOG, SHORT, Caller, Stage, Way
from snowmelt_world.families.shipped import Interrupted, pause

SAVE_SECONDS: Final = (0.3, 2.0, 10.0)
COUNTS: Final = (1, 10, 400, 3_000)
LOOK: Final = milliseconds(300)


class Carrier(Caller):
    """Saves, sets, sets back, or fails in the middle of it."""

    def __init__(
        self, stage: Stage, name: str, nodes: Sequence[NodeId], chance: Random, ledger: Ledger
    ) -> None:
        self._number = 0
        self._safe = b""
        """What it was told last to be on the disk, or got."""
        super().__init__(stage, name, nodes, chance, ledger)

    def work(self, hold: BatonHold) -> Steps[None]:
        """A `with` over a baton."""
        load, kind = self.stage.load, self.chance.choice((0, 0, 1))
        most = HOG if self.way is Way.HOG else (load.short, load.hold)[kind]
        saves = self.chance.choice((0, 1, 1, 2)) if self.chance.random() < 0.6 else 0
        self._safe = hold.value
        try:
            yield from self._works(most)
            for _ in range(saves):
                yield from self._saves(hold)
                yield from self._works(load.short)
            self._sets(hold)
        except FAILURES:
            yield from self._gives_up(hold, changed=False)
        else:
            yield from self._gives_up(hold, changed=True)

    def _works(self, most: Duration) -> Steps[None]:
        """For a while, and no longer once the faults are over."""
        end = later(self.now, self.some(SHORT if self.stage.draining else most))
        while self.now < end:
            if self.stage.draining:
                end = min(end, later(self.now, SHORT))
            yield pause(max(Duration(1), min(LOOK, Duration(end - self.now))))

    def _next_value(self, hold: BatonHold) -> bytes:
        self._number += 1
        return f"{self.name}/{hold.fence}/{self._number}".encode()

    def _saves(self, hold: BatonHold) -> Steps[None]:
        timeout = 10.0 if self.stage.draining else self.chance.choice(SAVE_SECONDS)
        value = self._next_value(hold)
        yield from hold.save(value, timeout)
        self.told_saved(hold.fence, value)
        self._safe = value

    def _sets(self, hold: BatonHold) -> None:
        match self.chance.choice(("set", "set", "as got", "nothing", "fails")):
            case "set":
                hold.set_value(self._next_value(hold))
            case "as got":
                hold.set_value(self.ledger.holds[hold.fence].granted.value)
            case "fails":
                raise Interrupted

    def _gives_up(self, hold: BatonHold, *, changed: bool) -> Steps[None]:
        """What it means to leave is what it set last, or what surely is safe."""
        self.ledger.holds[hold.fence].meant = hold.value if changed else self._safe
        try:
            yield from hold.release(changed=changed)
        except FAILURES:
            return
        self.told_passed(hold.fence)


class Counting(Caller):
    """Takes numbers, as `Counter.next` does."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        nodes: Sequence[NodeId],
        chance: Random,
        numbers: Numbers,
    ) -> None:
        self._counter = numbers
        super().__init__(stage, name, nodes, chance, numbers.ledger)

    def work(self, hold: BatonHold) -> Steps[None]:
        """One call of `next`."""
        self._counter.takes(hold.fence, hold.made)
        if self.way is Way.MUTE:
            yield pause(self.some(seconds(8)))
        try:
            numbers = yield from take(hold, self.chance.choice(COUNTS))
        except FAILURES:
            return
        self.told_passed(hold.fence)
        self._counter.told(self.name, hold.fence, numbers, hold.value, self.now)

    def asked(self, operation: OperationId, body: Any) -> None:
        """A limit is on its way to the disk."""
        super().asked(operation, body)
        if isinstance(body, calls.SaveValue):
            self._counter.reserves(body.value, self.now)

    def hears(self, body: Any) -> None:
        super().hears(body)
        if isinstance(body, calls.SaveValue):
            self._counter.reserved(body.value, self.now)
