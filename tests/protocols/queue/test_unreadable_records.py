"""A record that no leader wrote, by a member that lies or a disk: its queue stops, no node ends."""

import msgspec
import pytest
from alone import Alone
from cluster_bench import ClusterBench
from msgspec.structs import replace

from snowmelt.core.batch import Batch
from snowmelt.core.instant import seconds
from snowmelt.core.node import Persist
from snowmelt.core.record import Write
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.deletes import Delete, Deleted
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.api.statuses import ListQueues
from snowmelt.protocols.queue.controller.homes import FLOOR
from snowmelt.protocols.queue.controller.rescuing import TERMS_LEFT_OUT
from snowmelt.protocols.queue.limits import LIMITS
from snowmelt.protocols.queue.store.copy import COPY, RECORD, TWIN

ODD = {
    "no key": (b"", b"x"),
    "a key of no kind": (b"Q", b"x"),
    "a lease that does not read": (b"l" + bytes(8), b"\xc1"),
    "a status of another shape": (b"s", b"\x91\x05"),
    "a batch that is cut off": (b"b" + bytes(3), b"\x93\x01"),
    "a producer of no name": (b"p", b""),
    "a group that is no text": (b"g\xff\xfe", b"\x90"),
    "an end of nobody": (b"e" + bytes(40), b"\x01"),
}


@pytest.mark.parametrize("odd", ODD)
def test_a_record_that_no_leader_wrote_stops_its_queue_and_no_other(odd):
    alone = Alone.of()
    alone.said(calls.Open("other", QueueSettings()))
    batch = Batch.of([b"one"])
    put = calls.Put("other", "p", 1, bytes(batch.offsets), bytes(batch.blob))
    assert isinstance(alone.said(put), calls.PutDone)
    key, value = ODD[odd]
    alone.disk.ask(Persist(10**9, (Write(RECORD + b"q\0" + key, value),)))
    alone.disk.flush()
    alone.start()
    assert alone.said(calls.Describe("other")).ready == 1
    assert alone.node._terms.leaders.keys() == {"other"}
    assert not alone.node._copies.of("q").whole


def packed(*fields):
    return msgspec.msgpack.encode(fields)


REST = None, False, b"", 0, 7
"""Of a schedule: no expression, nothing skipped, no headers, no delay, and a priority."""
ABSURD = {
    "a position that nobody can count to": {b"s": packed((1 << 64) - 1, 0, 0, False, 0)},
    "a position below all": {b"s": packed(-5, 0, 0, False, 0)},
    "a bound above all": {b"s": packed(1, 0, 0, False, 0, 1 << 63)},
    "more priorities than there are": {b"s": packed([1, 1, 1], 0, 0, False, 0)},
    "moments of no schedule": {
        b"ms": packed(5),
        b"mt": packed(7),
        b"qt": packed(b"x", "1s", "", 10**9, *REST[:-1], 0),
    },
    "a schedule of no priority": {b"ms": packed(5), b"qs": packed(b"x", "1s", "", 10**9, *REST)},
    "a unique put that ends before it begins": {b"a" + bytes(16): packed((5, 1), 0)},
    "an item that failed too often": {b"y" + bytes(8): packed(1, ((1 << 64) - 1, "why"))},
    "a lease of what is below all": {b"l" + bytes(8): packed(("c-1", 1), [-9, 3], False)},
    "a put that went nowhere": {b"pp": packed((), {3: (5, 1, 7)}, 1)},
}


@pytest.mark.parametrize("absurd", ABSURD)
def test_records_that_read_and_can_not_be_end_no_node(absurd):
    alone = Alone.of()
    alone.said(calls.Open("other", QueueSettings()))
    alone.put(1)
    alone.flush()
    changes = [Write(RECORD + b"q\0" + key, value) for key, value in ABSURD[absurd].items()]
    alone.disk.ask(Persist(10**9, tuple(changes)))
    alone.disk.flush()
    for _ in range(2):
        alone.start()
        batch = Batch.of([b"one"])
        for number in range(20):
            unique = b"u%d" % number
            put = calls.Put("q", "p", 10 + number, *map(bytes, (batch.offsets, batch.blob)))
            alone.said(put)
            alone.said(msgspec.structs.replace(put, producer="u", unique=unique))
        alone.said(calls.Get("q", 9, 1 << 20, seconds(0)))
        alone.wait(seconds(100))
        alone.flush()
    assert alone.said(calls.Describe("other")).queue == "other"


def hurt_homes(bench, queue, hurt):
    """Nobody can read where this queue is at home, on the disk that decides."""
    disk = bench.slots["n1"].disk
    for kind in (b"h", b"i"):
        if hurt == "damaged":
            hurt_record(disk, kind + queue.encode())
        else:
            disk.ask(Persist(10**9, (Write(kind + queue.encode(), hurt),)))
    disk.flush()


def hurt_record(disk, key):
    value, check = disk._values[key]
    disk._values[key] = value, check ^ 1


@pytest.mark.parametrize("hurt", ["damaged", b"\xc1", b"\x93\xa1q\x05\xa2n1"])
def test_where_a_queue_is_at_home_can_not_be_read_that_queue_waits_and_all_others_go_on(hurt):
    bench = ClusterBench(3)
    for queue in ("q", "other"):
        bench.open(queue, replicas=3)
    bench.put("n1", 1)
    bench.kill("n1")
    hurt_homes(bench, "q", hurt)
    bench.start("n1")
    bench.view()
    bench.run(3)
    for node in ("n1", "n2", "n3"):
        told = bench.ask(node, calls.Describe("other"))
        assert told.queue == "other"
    bench.kill("n3")
    bench.kill("n2")  # nobody has heard of its home any more
    for node in ("n2", "n3"):
        bench.start(node)
    bench.view()
    bench.run(3)
    for ask in (calls.Describe("q"), calls.Open("q", QueueSettings(replicas=3)), Delete("q")):
        told = bench.ask("n2", ask)
        assert told.error == "StoreDamaged"
        assert "where queue 'q' is at home can't be read on the disk of n1" in told.text
        assert "snowmelt delete q --lost" in told.text
    parted = bench.ask("n2", calls.Open("q", QueueSettings(replicas=1, partitions=2)))
    assert parted.error == "StoreDamaged"
    assert bench.ask("n2", ListQueues()).names == ("other", "q")
    assert any("can't be read" in note for note in bench.slots["n1"].notes)
    assert bench.ask("n2", Delete("q", lost=True)) == Deleted(counted=False)
    bench.run(1)
    bench.open("q", replicas=3)
    assert bench.ask("n2", calls.Describe("q")).ready == 0


@pytest.mark.parametrize("value", [b"\xc1", b"\xa1x", None])
def test_how_late_terms_are_can_not_be_read_new_queues_begin_far_above(value):
    bench = ClusterBench(3, replace(LIMITS, graves=2))
    bench.open("keeps", replicas=3)
    for number in range(6):
        bench.open(f"q{number}", replicas=3)
        bench.ask("n1", Delete(f"q{number}"))
        bench.run(1)
    bench.open("kept", replicas=3)
    disk = bench.slots["n1"].disk
    assert FLOOR[0] in disk._keys
    bench.kill("n1")
    for key in FLOOR:
        if value is None:
            hurt_record(disk, key)
        else:
            disk.ask(Persist(10**9, (Write(key, value),)))
    disk.flush()
    bench.start("n1")
    bench.view()
    bench.run(3)
    assert bench.ask("n2", calls.Describe("keeps")).ready == 0
    bench.open("new", replicas=3)
    assert bench.ask("n2", calls.Describe("new")).term > TERMS_LEFT_OUT
    bench.kill("n1")
    bench.start("n1")
    bench.view()
    bench.run(3)
    bench.open("newer", replicas=3)
    assert bench.ask("n2", calls.Describe("newer")).term < 2 * TERMS_LEFT_OUT


def test_a_copy_of_which_it_can_not_be_read_how_far_it_is_is_as_one_with_a_damaged_record():
    alone = Alone.of()
    alone.said(calls.Open("other", QueueSettings()))
    for key in (COPY, TWIN):
        alone.disk.ask(Persist(10**9, (Write(key + b"q", b"\xc1"),)))
    alone.disk.flush()
    alone.start()  # nobody has another: it goes on from the records
    assert [alone.said(calls.Describe(name)).ready for name in ("other", "q")] == [0, 0]
