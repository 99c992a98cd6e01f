"""The rule by which a counter never gives a number twice, with a baton that is lost at any time."""

from contextlib import suppress
from random import Random
from typing import Any

import msgspec
import pytest

from snowmelt.client.baton.steps import BatonHold
from snowmelt.client.connection.steps import run
from snowmelt.client.counter.state import AHEAD, CounterState, take
from snowmelt.core.errors import BatonLost, MachineError, OutcomeUnknown, SnowmeltError, TooLarge
from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.baton.calls import Granted, HeldAt, Release, Released, SaveValue, ValueSaved
from snowmelt.runtime.clock import steady_now

WHERE = HeldAt(NodeId("n1"), 1, Address("127.0.0.1", 1))


class Cancelled(BaseException):
    """What breaks off a call in the middle."""


class Lossy:
    """A baton whose value is lost with its holder or its node; only what was saved is left then.

    Its calls fail before they are done or after, or are broken off, and its disk is full now and
    then. A node that is `hasty` takes a value for saved before the disk has answered.
    """

    def __init__(self, chance: Random, often: float, *, hasty: bool = False) -> None:
        self._chance = chance
        self._often = often
        self._hasty = hasty
        self.fence = 1
        self.made = 1
        self.value = b""
        self.disk = b""

    def grant(self) -> BatonHold:
        if self._unlucky():  # while nobody held it
            self.remade()
        self.fence += 1
        granted = Granted(self.fence, self.made, self.value, seconds(5), WHERE)
        return BatonHold("index", self.fence, granted, steady_now())

    def call(self, body: Any, *_: Any) -> Any:
        self._fail(BatonLost("gone before"), Cancelled())
        match body:
            case SaveValue():
                return self._save(body.value)
            case Release():
                if body.value is not None:
                    self.value = body.value
                self._fail(OutcomeUnknown("given up, and nobody heard it"), Cancelled())
                return Released()

    def _save(self, value: bytes) -> ValueSaved:
        if self._hasty:
            self.value = value
        self._fail(MachineError("the disk is full"), OutcomeUnknown("not there yet"))
        self.disk = self.value = value
        self._fail(OutcomeUnknown("saved, and nobody heard it"), Cancelled())
        return ValueSaved()

    def _unlucky(self) -> bool:
        return self._chance.random() < self._often

    def _fail(self, *errors: BaseException) -> None:
        if self._unlucky():
            if self._chance.random() < 0.3:
                self.remade()
            raise self._chance.choice(errors)

    def remade(self) -> None:
        self.made += 1
        self.value = self.disk


def taken(baton: Lossy, count: int) -> Interval | None:
    """The next numbers, as both faces take them; None when they are nobody's."""
    hold = baton.grant()
    try:
        return run(baton, take(hold, count))
    except (Cancelled, SnowmeltError) as error:
        if isinstance(error, TooLarge):
            raise
        with suppress(Cancelled):  # its program has died
            run(baton, hold.give_back())
        return None


@pytest.mark.parametrize("hasty", [False, True])
@pytest.mark.parametrize("seed", range(100))
def test_no_number_comes_twice_and_all_of_them_grow(
    seed: int, hasty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    chance = Random(seed)
    often = chance.choice((0.0, 0.02, 0.3))
    baton = Lossy(chance, often=often, hasty=hasty and often == 0.02)
    end, calls = 0, 0
    for _ in range(400):
        count = chance.choice((1, 1, 10, AHEAD - 1, AHEAD, AHEAD + 1, 5000))
        numbers = taken(baton, count)
        if numbers is None:
            continue
        calls += 1
        assert numbers.start >= end
        assert numbers.size == count
        end = numbers.stop
    assert calls > 50


def test_after_a_save_that_failed_the_count_goes_on_as_it_came() -> None:
    baton = Lossy(Random(1), often=0.0, hasty=True)
    hold = baton.grant()
    taking = take(hold, 10)
    save = next(taking)
    baton.value = save.body.value  # type: ignore[union-attr]  # before the disk says no
    release = taking.throw(MachineError("the disk is full"))
    baton.call(release.body)  # type: ignore[union-attr]
    with pytest.raises(MachineError):
        taking.send(Released())
    assert baton.value == b""
    assert taken(baton, 10) == Interval(0, 10)
    baton.remade()
    assert taken(baton, 10) == Interval(10 + AHEAD, 20 + AHEAD)


def test_a_counter_ends_somewhere() -> None:
    baton = Lossy(Random(1), often=0.0)
    baton.value = msgspec.msgpack.encode(CounterState(2**62 - 5, 2**62, 1))
    numbers = taken(baton, 5)
    assert numbers is not None
    assert numbers.stop == 2**62
    with pytest.raises(TooLarge, match="it ends at 4611686018427387904"):
        taken(baton, 1)
