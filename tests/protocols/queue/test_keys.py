"""Any priorities: each item has a key, and all else is as in a fifo."""

from random import Random

import pytest
from alone import Alone
from queue_bench import Bench

from snowmelt.client.leases.delivered import places_of, positions_of
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, seconds
from snowmelt.core.interval import Interval, merged
from snowmelt.core.keys import of_float, packed, unpacked
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.calls import (
    Describe,
    Get,
    Peek,
    PriorityRun,
    PublishStaged,
    Purge,
    Put,
    Select,
    Settle,
)
from snowmelt.protocols.queue.api.labels import Labels, pack
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings
from snowmelt.protocols.queue.limits import QueueLimits
from snowmelt.protocols.queue.state.batches import Batches
from snowmelt.protocols.queue.state.keys import KeysByPosition
from snowmelt.protocols.queue.state.records import changed, records, restored
from snowmelt.protocols.queue.state.state import QueueState

LEAST, MOST = -(2**63), 2**63 - 1


def put(number, keys, bodies, producer="p", queue="q", **more):
    """An item of each letter."""
    batch = Batch.of([body.encode() for body in bodies])
    blob = bytes(batch.offsets), bytes(batch.blob)
    return Put(queue, producer, number, *blob, keys=packed(keys), **more)


def told(parts):
    """Keys, positions and bodies."""
    found = []
    for part in parts:
        bodies = [bytes(body).decode() for body in Batch(part.offsets, part.blob)]
        found += zip(unpacked(part.keys), places_of(part), bodies, strict=True)
    return found


def shown(parts):
    """Keys and bodies, in their order: what was got is told by positions."""
    return [(key, body) for key, _, body in sorted(told(parts))]


def get(count):
    return Get("q", count, 1 << 20, Duration(0))


def got(alone, count=100):
    return alone.said(get(count))


@pytest.fixture
def alone():
    return Alone.of(priorities=ANY)


# --- order ----------------------------------------------------------------------------------------


def test_the_least_key_comes_first_and_those_alike_as_they_were_put(alone):
    alone.said(put(1, (7, MOST, -3), "abc"))
    alone.said(put(2, (LEAST, 7), "de"))
    row = [(LEAST, "d"), (-3, "c"), (7, "a"), (7, "e"), (MOST, "b")]
    seen = told(alone.said(Peek("q", 100, 1 << 20)).parts)
    assert [(key, body) for key, _, body in seen] == row
    for _ in range(2):
        assert shown(got(alone).parts) == row
        alone.killed()


def test_fractions_have_their_order_too(alone):
    numbers = (2.5, -0.1, float("inf"), -1e300, 0.0)
    alone.said(put(1, map(of_float, numbers), "abcde"))
    assert [body for _, body in shown(got(alone).parts)] == list("dbeac")


def test_what_goes_back_is_next_at_its_own_place(alone):
    alone.said(put(1, (1, 1, 2), "abc"))
    leased = got(alone, 2)
    alone.said(put(2, (0, 1), "ud"))
    alone.said(Settle("q", leased.token, back=(Interval(0, 2),), reason="broken"))
    again = got(alone)
    assert [body for _, body in shown(again.parts)] == list("uabdc")
    assert [part.failures for part in again.parts if part.reason] == [1]


def test_a_lease_that_ended_goes_back_as_well(alone):
    alone.said(put(1, (5, 4, 3, 2, 1), "abcde"))
    got(alone, 3)
    alone.said(put(2, (3,), "f"))
    alone.wait(seconds(40))
    alone.flush()
    assert [body for _, body in shown(got(alone).parts)] == list("edcfba")


def test_a_get_from_many_puts_is_one_part_by_positions(alone):
    for number in range(1, 5):
        alone.said(put(number, (9 - number, number, 20 + number), f"{number}bc"))
    [part] = got(alone, 8).parts
    assert positions_of((part,)) == tuple([Interval(start, start + 2) for start in (0, 3, 6, 9)])
    assert [(key, place) for key, place, _ in told([part])] == [
        (8, 0), (1, 1), (7, 3), (2, 4), (6, 6), (3, 7), (5, 9), (4, 10),
    ]  # fmt: skip
    assert [body for _, body in shown([part])] == list("bbbb4321")


def test_what_is_not_alike_is_told_apart_and_in_order(alone):
    alone.said(put(1, (4, 1), "ab", headers=pack(Labels(common={"n": "1"}))))
    alone.said(put(2, (3, 2), "cd"))
    leased = got(alone)
    assert [body for _, _, body in told(leased.parts)] == list("bdca")
    back = (Interval(0, 1),)
    alone.said(Settle("q", leased.token, done=(Interval(1, 2),), back=back, reason="no"))
    alone.said(put(3, (5,), "e"))
    alone.wait(seconds(40))
    again = got(alone)
    assert [(part.failures, body) for part in again.parts for _, _, body in told([part])] == [
        (1, "d"), (1, "c"), (1, "a"), (0, "e"),
    ]  # fmt: skip


def test_what_fits_no_answer_goes_back_to_its_place():
    alone = Alone.of(QueueLimits(recent_bytes=0, answer_bytes=400), priorities=ANY)
    alone.said(put(1, range(9, 0, -1), [str(at) * 100 for at in range(9, 0, -1)]))
    taken = []
    for _ in range(9):
        leased = got(alone)
        taken += [key for key, _ in shown(leased.parts)]
        done = [where for part in leased.parts for where in positions_of((part,))]
        alone.said(Settle("q", leased.token, done=tuple(merged(done))))
    assert taken == list(range(1, 10))


def test_a_get_takes_as_many_bytes_as_are_asked_for(alone):
    alone.said(put(1, (3, 2, 1), ["c" * 50, "b" * 50, "a" * 50]))
    assert len(shown(alone.said(Peek("q", 9, 110)).parts)) == 2
    assert len(shown(alone.said(Peek("q", 9, 1)).parts)) == 1


def test_any_rank_is_shown(alone):
    alone.said(put(1, (5, 1, 3, 3), "abcd"))
    ranks = [alone.said(Select("q", rank=rank)).parts for rank in range(1, 6)]
    assert list(map(shown, ranks)) == [[(1, "b")], [(3, "c")], [(3, "d")], [(5, "a")], []]
    assert shown(alone.said(Select("q", share=0.5)).parts) == [(3, "c")]


# --- as in a fifo ---------------------------------------------------------------------------------


def test_what_waits_to_be_published_keeps_its_keys(alone):
    receipt = alone.said(put(1, (9, 2), "ab", hold=seconds(60)))
    alone.said(put(2, (5,), "c"))
    alone.killed()
    alone.said(PublishStaged("q", "p", 3, (receipt,)))
    assert shown(got(alone).parts) == [(2, "b"), (5, "c"), (9, "a")]


def test_dead_ones_come_back_to_their_place(alone):
    alone.said(put(1, (1, 2), "ab"))
    leased = got(alone, 1)
    alone.said(Settle("q", leased.token, back=(Interval(0, 1),), reason="bad", dead=True))
    assert shown(alone.said(Peek("q", 9, 1 << 20, dead=True)).parts) == [(1, "a")]
    assert shown(got(alone, 1).parts) == [(2, "b")]


def test_nothing_is_left_of_what_was_purged(alone):
    alone.said(put(1, range(300), "x" * 300))
    assert alone.said(Purge("q")).items == 300
    assert alone.said(Describe("q")).ready == 0
    assert got(alone).parts == ()
    (leader,) = alone.node._terms.leaders.values()
    assert [key for key in leader.copy.records if key[:1] in (b"k", b"b", b"d")] == []


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        (ANY, put(1, (), "a")),
        (ANY, put(1, (1, 2), "a")),
        (1, put(1, (1,), "a")),
        (ANY, put(1, (1,), "a", runs=(PriorityRun(0, 1),))),
    ],
)
def test_a_put_has_a_key_for_each_item_where_there_are_keys_and_none_elsewhere(settings, wrong):
    alone = Alone.of(priorities=settings)
    assert isinstance(alone.said(wrong), Declined)


# --- who leads next, and what it costs ------------------------------------------------------------


def test_who_leads_next_goes_on_in_the_same_order():
    bench = Bench(3, priorities=ANY)
    bench.put(b"a", b"b", b"c", keys=packed((3, 1, 2)))
    leased = bench.ask(get(1))
    assert shown(leased.parts) == [(1, "b")]
    bench.leads("n2", 2)
    bench.put(b"d", keys=packed((2,)))
    bench.ask(Settle("q", leased.token, back=(Interval(1, 2),)))
    told = bench.ask(get(9))
    assert shown(told.parts) == [(1, "b"), (2, "c"), (2, "d"), (3, "a")]


def test_a_copy_that_is_brought_up_has_the_keys():
    bench = Bench(3, priorities=ANY)
    bench.away.add("n3")
    bench.put(b"a", b"b", b"c", keys=packed((3, 1, 2)))
    leased = bench.ask(get(1))
    bench.away.clear()
    bench.leads("n3", 2)
    bench.ask(Settle("q", leased.token, back=(Interval(1, 2),)))
    assert shown(bench.ask(get(9)).parts) == [(1, "b"), (2, "c"), (3, "a")]


def test_a_thousand_of_any_keys_are_written_in_16_kb():
    state, disk, chance = QueueState(QueueSettings(priorities=ANY)), {}, Random(3)
    sizes = []

    def step():
        pairs, _ = changed(state)
        disk.update({key: value for key, value in pairs if value is not None})
        for key, value in pairs:
            if value is None:
                del disk[key]
        return sum(len(key) + len(value or b"") for key, value in pairs)

    for _ in range(200):
        keys = packed([chance.getrandbits(60) for _ in range(1000)])
        state.put(1000, 100_000, term=1, priority=keys)
        assert step() < 12_000
    for token in range(10):
        found = state.first(1000, 1 << 30)
        state.take(OperationId(NodeId("ann"), token), token, found)
        sizes.append(step())
        assert state.settle(token, merged(found)) == []
        sizes.append(step())
    assert max(sizes) < 16_000
    told = restored(state.settings, disk)
    assert records(told) == records(state)
    assert told.first(1000, 1 << 30) == state.first(1000, 1 << 30)


def test_a_page_goes_when_nothing_of_it_lives():
    batches, keys = Batches({}), KeysByPosition({})
    keys.add(100, packed(range(100)))
    assert list(keys.of(Interval(120, 130))) == list(range(20, 30))
    keys.forget(Interval(0, 128), batches.live)
    assert len(list(keys.keys())) == 1
    assert list(keys.of(Interval(126, 130))) == [0, 0, 28, 29]
