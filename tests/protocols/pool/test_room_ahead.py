"""Rule 19: places that a program is told of ahead, for what it puts next."""

import pytest
from pool_bench import PoolBench, batch_of, bodies_of

from snowmelt.core.instant import milliseconds
from snowmelt.protocols.pool import calls
from snowmelt.protocols.pool.calls import Ahead


class Told(PoolBench):
    """One producer, and the places that it has told of."""

    def __init__(self, **settings):
        super().__init__()
        self.producer = self.add("p", **settings)
        self.ahead = []
        real = self.producer.peer.handle

        def handle(event, now):
            effects = real(event, now)
            facts = [getattr(each, "fact", None) for each in effects]
            self.ahead += [fact for fact in facts if isinstance(fact, Ahead)]
            return effects

        self.producer.peer.handle = handle

    def quick(self, size=10):
        """Two puts, one at once after the other."""
        self.producer.put(bytes(size))
        self.producer.put(bytes(size))

    def into(self, body, place):
        return self.producer.ask(calls.PoolPut(*batch_of(body), 0, 0, place.size))

    @property
    def stock(self):
        return self.producer.statistics.stock


def test_who_puts_one_after_another_is_told_of_all_room_there_is():
    bench = Told(buffers=5)
    bench.producer.put(b"first")
    assert not bench.ahead
    bench.producer.put(b"second")
    assert [(one.count, one.size) for one in bench.ahead] == [(3, 12)]


def test_who_takes_its_time_is_told_of_none():
    bench = Told(buffers=5)
    for _ in range(3):
        bench.producer.put(b"one")
        bench.wait(milliseconds(3))
    assert not bench.ahead


def test_what_is_put_into_a_place_is_in_and_nobody_is_told():
    bench = Told(buffers=3)
    bench.quick()
    call = bench.into(b"third", bench.ahead[0])
    assert call not in bench.producer.told
    assert bench.stock == 3


def test_a_place_counts_until_it_is_used_or_given_up():
    bench = Told(buffers=5)
    bench.quick()
    late = bench.producer.put(b"a", b"b")
    assert late not in bench.producer.told
    assert bench.ahead[1:] == [Ahead(0, 0)]  # those that nobody has taken are called back
    place = bench.ahead[0]
    bench.into(b"taken before", place)
    bench.producer.ask(calls.GiveUp(place.size))
    bench.producer.ask(calls.GiveUp(place.size))
    assert bench.producer.told[late].count == 2
    assert bench.stock == 5


def test_who_asks_for_room_is_told_when_places_are_given_up():
    bench = Told(buffers=3)
    bench.quick()
    asked = bench.producer.ask(calls.AwaitRoom(milliseconds(500), 7))
    assert asked not in bench.producer.told
    assert bench.ahead[-1] == Ahead(0, 0)
    bench.producer.ask(calls.GiveUp(bench.ahead[0].size))
    assert bench.producer.told[asked] == calls.HasRoom()


def test_none_is_told_of_while_anybody_waits_for_room():
    bench = Told(buffers=2)
    bench.quick()
    bench.producer.put(b"waits")
    assert not bench.ahead


def test_places_never_have_more_bytes_than_there_is_room_for():
    bench = Told(bytes_max=100)
    bench.quick(20)
    assert [(one.count, one.size) for one in bench.ahead] == [(1, 40)]


def test_where_only_a_disk_is_safe_nothing_is_told_ahead():
    bench = Told(spill=True)
    for _ in range(3):
        bench.producer.put(b"one")
        bench.producer.flush()
    assert (bench.stock, bench.ahead) == (3, [])


def test_who_leaves_takes_in_what_comes_for_a_place_and_hands_it_over():
    bench = Told(buffers=5)
    heir = bench.add("c")
    bench.meet(bench.producer)
    bench.quick()
    left = bench.producer.stop()
    assert bench.ahead[-1] == Ahead(0, 0)
    place = bench.ahead[0]
    bench.into(b"late", place)
    assert bench.stock == 3
    for _ in range(place.count - 1):
        bench.producer.ask(calls.GiveUp(place.size))
    assert left not in bench.producer.told
    assert [bodies_of(heir.fetch()) for _ in range(3)][-1] == [b"late"]


@pytest.mark.parametrize("patience", [0, milliseconds(50)])
def test_what_never_comes_counts_as_left_behind(patience):
    bench = Told(buffers=3)
    bench.quick()
    left = bench.producer.stop(patience=patience)
    assert left not in bench.producer.told
    bench.wait(patience + milliseconds(101))
    assert bench.producer.told[left].left == 3


def test_one_that_has_nothing_leaves_as_soon_as_all_is_given_up():
    bench = Told(buffers=3)
    bench.quick()
    left = bench.producer.stop(patience=0)
    bench.producer.ask(calls.GiveUp(bench.ahead[0].size))
    assert bench.producer.told[left].left == 2
