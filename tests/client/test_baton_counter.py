"""The rule by which a counter never gives a number twice, with a baton that is lost at any time."""

from contextlib import contextmanager
from random import Random
from typing import Any, cast

import msgspec
import pytest

from snowmelt.client.baton import Baton
from snowmelt.client.counter import Counter
from snowmelt.client.counter_tally import AHEAD, Tally
from snowmelt.core.errors import BatonLost, TooLarge


class Lossy:
    """A baton whose value is lost with its holder or its node; only what was saved is left then."""

    def __init__(self, chance: Random, often: float) -> None:
        self._chance = chance
        self._often = often
        self.made = 1
        self.value = b""
        self.disk = b""

    @contextmanager
    def acquire(self, timeout: float | None) -> Any:
        del timeout
        if self._chance.random() < self._often:  # while nobody held it
            self.remade()
        before = self.value
        yield self
        if self._chance.random() < self._often:  # while it was given up
            self.value = self._chance.choice((before, self.value))
            if self._chance.random() < 0.5:
                self.remade()
            raise BatonLost("given up in vain")

    def save(self, value: bytes) -> None:
        if self._chance.random() < self._often:
            raise BatonLost("not saved")
        self.disk = value
        if self._chance.random() < self._often:
            raise BatonLost("saved, but who saved it does not know")

    def remade(self) -> None:
        self.made += 1
        self.value = self.disk


@pytest.mark.parametrize("seed", range(100))
def test_no_number_comes_twice_and_all_of_them_grow(seed: int) -> None:
    chance = Random(seed)
    counter = Counter(cast("Baton", Lossy(chance, often=chance.choice((0.0, 0.02, 0.3)))))
    end, calls = 0, 0
    for _ in range(400):
        count = chance.choice((1, 1, 10, AHEAD - 1, AHEAD, AHEAD + 1, 5000))
        try:
            numbers = counter.next(count)
        except BatonLost:
            continue
        calls += 1
        assert numbers.start >= end
        assert numbers.size == count
        end = numbers.stop
    assert calls > 50


def test_a_counter_ends_somewhere() -> None:
    baton = Lossy(Random(1), often=0.0)
    baton.value = msgspec.msgpack.encode(Tally(2**62 - 5, 2**62, 1))
    counter = Counter(cast("Baton", baton))
    assert counter.next(5).stop == 2**62
    with pytest.raises(TooLarge, match="it ends at 4611686018427387904"):
        counter.next()
