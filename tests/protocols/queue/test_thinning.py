"""Bodies of which little lives take little, on each disk, and what lives is in them."""

import pytest
from queue_bench import Bench

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.record import Erase, Write
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.labels import Labels, pack, unpack
from snowmelt.protocols.queue.limits import QueueLimits
from snowmelt.protocols.queue.messages.words import OwnFence, Thinned
from snowmelt.protocols.queue.store.write_queue import WriteQueue

EACH, PUTS = 100, 20
LIMITS = QueueLimits(recent_bytes=0, spare_bytes=1_000)
NOW = Instant(seconds(1))


def item(at):
    return (b"item %d " % at) * 10


def filled(nodes):
    """Of each put the last item is left, and the first is leased: the bench, and its token."""
    bench = Bench(nodes, LIMITS)
    for number in range(PUTS):
        places = range(number * EACH, (number + 1) * EACH)
        headers = pack(Labels({"of": "all"}, keys=tuple([b"key %d" % at for at in places])))
        bench.put(*map(item, places), headers=headers)
    bench.forget()
    leased = bench.ask(get(PUTS * EACH))
    firsts = range(0, PUTS * EACH, EACH)
    done = tuple([Interval(at + 1, at + EACH - 1) for at in firsts])
    back = tuple([Interval(at + EACH - 1, at + EACH) for at in firsts])
    bench.ask(calls.Settle("q", leased.token, done, back))
    for _ in range(4):
        bench.later()
        bench.forget()
    return bench, leased.token


def get(count):
    return calls.Get("q", count, 1 << 20, seconds(0), None)


def told(answer):
    """Each item by its position, and its key."""
    found = {}
    for part in answer.parts:
        labels = unpack(part.headers)
        for at, body in enumerate(Batch(part.offsets, part.blob)):
            found[part.start + at] = bytes(body), labels.of(at)[0]
    return found


def kept(one):
    return sum(len(one.disk[key]) for key in one.bodies)


@pytest.mark.parametrize("nodes", [1, 3])
def test_what_ended_far_apart_takes_no_room_and_the_rest_is_as_it_was(nodes):
    bench, token = filled(nodes)
    lives = bench.state.batches.bytes
    for one in bench.nodes.values():
        assert kept(one) < 2 * lives + LIMITS.spare_bytes + 20 * PUTS
    lasts = [at + EACH - 1 for at in range(0, PUTS * EACH, EACH)]
    assert told(bench.ask(get(50))) == {at: (item(at), b"key %d" % at) for at in lasts}
    firsts = (Interval(0, 1), Interval(EACH, EACH + 1))
    bench.ask(calls.Settle("q", token, (), firsts))
    assert list(told(bench.ask(get(2)))) == [0, EACH]


def test_who_leads_next_has_it_too_and_finds_nothing_to_do():
    bench, _ = filled(3)
    bench.leads("n2", 2)
    was = {key: bench.one.disk[key] for key in bench.one.bodies}
    for _ in range(4):
        bench.later()
    assert {key: bench.one.disk[key] for key in bench.one.bodies} == was
    assert bench.state.batches.kept < 2 * bench.state.batches.bytes + LIMITS.spare_bytes
    assert min(told(bench.ask(get(50)))) == EACH - 1


def test_bodies_in_order_are_not_written_anew():
    bench = Bench(1, LIMITS)
    for number in range(PUTS):
        bench.put(*[item(at) for at in range(number * EACH, (number + 1) * EACH)])
    sizes = {key: len(value) for key, value in bench.one.disk.items() if key[:1] == b"~"}
    leased = bench.ask(get(PUTS * EACH // 2 + 30))
    bench.ask(calls.Settle("q", leased.token, (Interval(0, PUTS * EACH // 2 + 30),)))
    bench.later()
    assert all(sizes[key] == len(bench.one.disk[key]) for key in bench.one.bodies)


def test_what_is_over_before_it_was_written_anew_stays_erased():
    disk = WriteQueue()
    disk.thins("q", [b"~1", b"~2", b"~3"])
    disk.write("q", (Erase(b"~1", b"~2"), Write(b"~2", b"anew")), OwnFence(1))
    for key in (b"~1", b"~2", b"~3"):
        disk.thin(key, b"thin")
    assert disk.begin(NOW).changes == (Write(b"~3", b"thin"),)
    assert [one[2] for one in disk.written()] == [Thinned()]


def test_what_is_about_to_be_erased_as_it_is_read_stays_erased():
    disk = WriteQueue()
    disk.write("q", (Erase(b"~1", b"~2"),), OwnFence(1))
    disk.thins("q", [b"~1", b"~2"])
    for key in (b"~1", b"~2"):
        disk.thin(key, b"thin")
    assert disk.begin(NOW).changes == (Write(b"~2", b"thin"),)
    disk.written()
    assert disk.begin(NOW).changes == (Erase(b"~1", b"~2"),)


def test_where_there_is_no_room_it_is_left_and_nobody_hears_of_a_full_disk():
    disk = WriteQueue()
    disk.thins("q", [b"~1"])
    disk.thin(b"~1", b"thin")
    disk.begin(NOW)
    assert (disk.failed("full", NOW), disk.full, disk.is_thinning) == ([], "", False)
    assert disk.begin(NOW) is None


def test_what_a_full_disk_erases_late_is_not_written_anew_behind_that():
    over = Erase(b"~1", b"~2")
    for first in (True, False):
        disk = WriteQueue()
        disk.write("q", (over, Write(b"~9", b"more")), OwnFence(1))
        if first:  # it is being read as that finds no room
            disk.thins("q", [b"~1"])
        disk.begin(NOW)
        disk.failed("full", NOW)
        if not first:
            disk.thins("q", [b"~1"])
        disk.thin(b"~1", b"thin")
        later = Instant(NOW + seconds(1))
        assert disk.begin(later).changes == (over, Write(b"~9", b"more"))
        disk.written()
        assert disk.begin(later) is None
