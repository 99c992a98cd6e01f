"""What is old: numbers, questions that come again, forms of another version, a disk put back."""

from random import Random

import msgspec
import pytest
from cluster_bench import ClusterBench
from node_bench import WALL, NodeBench

from snowmelt.core.instant import Instant, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Halt
from snowmelt.core.record import Record
from snowmelt.protocols.queue import QueueNode
from snowmelt.protocols.queue.api.calls import Get, PublishStaged, Purge, Put, PutDone
from snowmelt.protocols.queue.limits import QueueLimits
from snowmelt.protocols.queue.messages.words import Fenced
from snowmelt.protocols.queue.store.copy import FORM

# --- numbers that are too old ---------------------------------------------------------------------

FEW_GAPS = QueueLimits(producer_gaps=4)


def put(sequence: int, items: int = 1, patience: float = 0) -> Put:
    return Put("q", "p", sequence, bytes(4 * items + 4), b"", patience=seconds(patience))


def test_a_number_that_was_refused_as_too_old_is_refused_by_the_next_leader_too() -> None:
    bench = NodeBench(FEW_GAPS)
    bench.open()
    for at in range(6):
        assert isinstance(bench.answer(put(10 * at + 10)), PutDone)
    assert bench.answer(put(15)).error == "SequenceTooOld"
    for at in range(21, 30):  # there are fewer gaps by now
        bench.answer(put(at))
    bench.crash()
    assert bench.answer(put(15)).error == "SequenceTooOld"


def test_a_put_that_waits_is_not_refused_as_too_old_when_it_is_asked_again() -> None:
    bench = NodeBench(FEW_GAPS)
    bench.open(items_max=2)
    bench.answer(put(1, items=2))
    before = [bench.ask(put(10 * at + 20, patience=100)) for at in range(6)]
    late = [bench.ask(put(15, items=2, patience=100)) for _ in range(2)]
    for _ in range(4):
        bench.answer(Purge("q"))
    assert bench.state.producers.past("p", 15) != ""
    late.append(bench.ask(put(15, items=2, patience=100)))
    told = [bench.told[one] for one in (*before, *late)]
    assert all(isinstance(one, PutDone) for one in told)
    assert {one.start for one in told[6:]} == {8}
    assert bench.answer(Get("q", 9, 9, seconds(0))).parts[0].count == 2


# --- a question that was long on its way ----------------------------------------------------------


def test_a_publication_that_was_refused_does_not_come_when_it_is_asked_again() -> None:
    bench = NodeBench()
    bench.open(items_max=2)
    receipt = bench.answer(msgspec.structs.replace(put(1, items=2), hold=seconds(60)))
    bench.answer(put(2))
    ask = PublishStaged("q", "load", 1, (receipt,))
    number = bench.ask(ask)
    for _ in range(2):
        assert bench.told.pop(number).error == "Full"
        bench.answer(Purge("q"))  # the answer is on its way, and now there is room
        bench.ask(ask, number)
    assert bench.state.tails[0] == 1
    assert isinstance(bench.answer(ask), PutDone)


def test_numbers_by_region_and_hour_are_all_published() -> None:
    """As a job with a batch for each has them: with many gaps, and in no order."""
    bench = NodeBench()
    bench.open()
    numbers = [region * 10_000 + 7 * hour for hour in range(150) for region in range(12)]
    for at, number in enumerate(numbers):
        receipt = bench.answer(msgspec.structs.replace(put(1), hold=seconds(60)))
        told = bench.answer(PublishStaged("q", "load", number, (receipt,)))
        assert (told.start, told.repeated) == (at, False)
    bench.crash()
    for number in numbers[::100]:
        assert bench.answer(PublishStaged("q", "load", number, ())).repeated
    assert bench.state.tails[0] == len(numbers)


# --- another version's copy -----------------------------------------------------------------------


@pytest.mark.parametrize("form", [None, FORM, FORM + 1])
def test_a_copy_in_another_form_is_refused_and_not_taken_for_lost(form: int | None) -> None:
    bench = NodeBench()
    bench.open("orders")
    bench.put("orders", 3)
    started = bench._disk.start(WALL)
    records = []
    for record in started.records:
        if record.key == b"morders":
            head, fence, *_ = msgspec.msgpack.decode(record.value)
            value = msgspec.msgpack.encode([head, "x"] if form is None else [head, fence, form])
            records.append(Record(record.key, value))
        else:
            records.append(record)
    assert records != list(started.records) or form == FORM
    node = QueueNode(NodeId("n1"), Random(1))
    effects = node.handle(msgspec.structs.replace(started, records=tuple(records)), Instant(0))
    halts = [one for one in effects if isinstance(one, Halt)]
    assert [one.error for one in halts] == ([] if form == FORM else ["StoreVersion"])
    assert all("queue 'orders' on this disk was written by another" in one.reason for one in halts)


# --- a master's disk that was put back ------------------------------------------------------------


def test_an_older_disk_of_a_master_is_not_believed_over_mirrors_that_are_here() -> None:
    bench = ClusterBench(4)
    queue, master, *_ = bench.beside(replicas=3)
    bench.put(master, 1, queue)
    older = bench.slots[NodeId(master)].disk.copy()
    assert [bench.put(master, number, queue).start for number in (2, 3)] == [1, 2]
    bench.kill(master)
    bench.slots[NodeId(master)].disk.put_back(older)
    first: list[str] = []

    def late(_: NodeId, __: NodeId, message: object) -> bool:
        """The mirrors' first answers are lost."""
        if not isinstance(message, Fenced) or message.keeper in (master + "/1", *first):
            return False
        first.append(message.keeper)
        return True

    bench.drops.append(late)
    bench.start(master)
    bench.view()
    bench.run(3)
    assert len(first) == 2
    assert bench.put("n1", 4, queue, within=5).start == 3
