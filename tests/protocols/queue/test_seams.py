"""Where one part of the machine relies on another: what each could lose for the other."""

from random import Random

import msgspec
import pytest
from cluster_bench import ClusterBench
from master_bench import KEEPERS, MEMBERS, OTHER, THIRD, Bench
from node_bench import WALL, NodeBench

from snowmelt.core.instant import Instant, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Halt, Send
from snowmelt.core.record import Record
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.fifo import FifoNode
from snowmelt.protocols.fifo.calls import (
    Assign,
    Changed,
    Publish,
    PutDone,
    Receipt,
    Release,
    Settle,
)
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.limits import LIMITS
from snowmelt.protocols.fifo.messages import (
    Admitted,
    Fenced,
    Home,
    JournalRead,
    ReadJournal,
    Verdict,
)
from snowmelt.protocols.fifo.mirrors import FORM, Mirrors
from snowmelt.protocols.fifo.settings import QueueSettings
from snowmelt.protocols.fifo.streams import Presence
from snowmelt.protocols.fifo.succession import Succession
from snowmelt.protocols.membership import View

# --- positions that lingered ----------------------------------------------------------------------


@pytest.mark.parametrize("needed", [1, 2])
def test_positions_are_not_given_again_though_a_mirror_that_lags_was_never_stopped(
    needed: int,
) -> None:
    bench = ClusterBench(4)
    queue, master, second, third = bench.beside(
        replicas=3, durable_copies=needed, linger=seconds(10)
    )
    first = bench.put(master, 1, queue)
    bench.run(12)  # this one is on the disks
    for name in (master, second):
        bench.slots[NodeId(name)].held = True
    assert isinstance(bench.put(master, 2, queue), PutDone)
    away = (third, second)[: 3 - needed]
    bench.drops.append(lambda _, target, __: target in away)
    lost = bench.put(master, 3, queue)
    assert isinstance(lost, PutDone)
    bench.drops.clear()
    killed = (master, second)[:needed]
    for name in (master, second):
        if name in killed:
            bench.kill(name)
        bench.slots[NodeId(name)].held = False
    for name in killed:
        bench.start(name)
    bench.view()
    bench.run(3)
    again = bench.put("n1", 4, queue, within=6)
    assert again.start > lost.start > first.start


# --- a copy whose keeper falls silent -------------------------------------------------------------


def test_when_the_newest_copy_falls_silent_the_others_do_if_they_are_enough() -> None:
    desk = Desk(NodeId("n1"), Random(1))
    before = ("n2/1", "n3/1", "n4/1")
    home = Home(
        "q", 2, "n1/1", ("n4/1", "n2/1"), QueueSettings(replicas=3), before=before, before_term=1
    )
    succession = Succession(desk, home, Mirrors(desk))

    def asked() -> list[str]:
        sent = [one for one in desk.taken() if isinstance(one, Send)]
        return [one.target for one in sent if isinstance(one.message, ReadJournal)]

    succession.begin()
    for keeper, step in (("n3/1", 9), ("n4/1", 8), ("n2/1", 7)):
        assert "n4" not in asked()
        succession.fenced(
            Fenced("q", 2, succession.name, keeper, 1, 5, step, sound=True, unbroken=True)
        )
    for half in range(1, 12):  # n3 is silent from now on, and no node of this term
        desk.now = Instant(half * seconds(0.5))
        succession.tick()
    assert asked()[-1] == "n4"


def test_a_whole_copy_of_nothing_is_less_than_one_with_gaps() -> None:
    """Its keeper lost all it had, took in a first step of another term, and forgot the loss."""
    desk = Desk(NodeId("n1"), Random(1))
    home = Home("q", 3, "n1/1", ("n2/1",), QueueSettings(), before=("n2/1", "n3/1"), before_term=2)
    succession = Succession(desk, home, Mirrors(desk))
    succession.begin()
    desk.taken()
    succession.fenced(Fenced("q", 3, succession.name, "n2/1", 0, 0, 0, sound=True, unbroken=True))
    succession.fenced(Fenced("q", 3, succession.name, "n3/1", 2, 5, 40, sound=False, unbroken=True))
    reads = [(one.target, one.message) for one in desk.taken() if isinstance(one, Send)]
    assert [node for node, message in reads if isinstance(message, ReadJournal)] == ["n3"]


def test_a_copy_on_its_way_to_a_master_survives_that_its_own_disk_is_asked_again() -> None:
    desk = Desk(NodeId("n1"), Random(1))
    desk.set_presence(Presence(View(1, 1, NodeId("n1"), MEMBERS)))
    mirrors = Mirrors(desk)
    home = Home("q", 2, KEEPERS[0], (), QueueSettings(replicas=3), before=KEEPERS, before_term=1)
    succession = Succession(desk, home, mirrors)
    succession.begin()
    mirrors.fence(desk.me, desk.inside.popleft())  # this disk takes its time
    for keeper in KEEPERS[1:]:
        succession.fenced(Fenced("q", 2, succession.name, keeper, 1, 5, 7, True, True))
    desk.now = Instant(seconds(1.5))
    succession.tick()  # the others are enough by now
    while desk.inside:
        mirrors.fence(desk.me, desk.inside.popleft())
    reads = [one.target for one in desk.taken() if isinstance(one, Send)]
    assert "n2" in reads
    told = JournalRead("q", 2, succession.name, KEEPERS[1], b"", (), b"", more=False, sound=True)
    succession.read(told)
    assert succession.journal is not None


# --- numbers that are too old ---------------------------------------------------------------------

FEW_GAPS = msgspec.structs.replace(LIMITS, producer_gaps=4)


def verdicts(bench: Bench) -> list[Verdict]:
    told = [message for _, message in bench.sent if isinstance(message, Admitted)]
    return [verdict for one in told for verdict in one.verdicts]


def work_off(bench: Bench) -> None:
    lease = bench.queue.lease(OperationId(NodeId("c-2"), 1), 100, 1 << 20, bench.desk.now)
    assert lease is not None
    bench.ask(bench.master.settle, Settle("q", lease.token, done=tuple(lease.left)))


def test_a_number_that_was_refused_as_too_old_is_refused_by_the_next_master_too() -> None:
    bench = Bench(limits=FEW_GAPS)
    for at in range(6):
        bench.offer(at, at + 1, sequence=10 * at + 10)
        bench.flush()
    bench.offer(6, 7, sequence=15)
    bench.flush()
    assert verdicts(bench)[-1].error == "SequenceTooOld"
    for at in range(10, 19):  # there are fewer gaps by now
        bench.offer(at, at + 1, sequence=11 + at)
        bench.flush()
    later = bench.crashed()
    later.offer(0, 1, THIRD, sequence=15)  # another node's, that was long on its way
    later.flush()
    assert verdicts(later)[-1].error == "SequenceTooOld"


def test_a_put_that_waits_is_not_refused_as_too_old_to_another_node() -> None:
    bench = Bench(limits=FEW_GAPS, items_max=2)
    bench.offer(0, 2, sequence=1)
    for at in range(6):  # these wait before it
        bench.offer(2 + at, 3 + at, sequence=10 * at + 20, patience=10**11)
    bench.offer(8, 10, sequence=15, patience=10**11)
    bench.flush()
    for _ in range(3):
        work_off(bench)
    assert bench.queue.producers.past("p", 15) != ""
    bench.offer(0, 2, THIRD, sequence=15, patience=10**11)
    bench.flush()
    work_off(bench)
    told = verdicts(bench)
    assert [one.error for one in told] == [""] * 9
    assert [one.repeated for one in told] == [False] * 8 + [True]


# --- a question that was long on its way ----------------------------------------------------------


def test_a_publication_that_was_refused_does_not_come_when_it_is_asked_again() -> None:
    bench = Bench(items_max=2)
    bench.stage(0, 2)
    bench.offer(2, 3, producer="other")
    bench.flush()
    operation = OperationId(NodeId("c-1"), 1)
    ask = Publish("q", "load", 1, (Receipt(OTHER, 0, 2, 20),))
    for _ in range(2):
        bench.master.publishing.publish(operation, ask)
        bench.flush()
        told = bench.told[-1]
        assert isinstance(told, Declined)
        assert told.error == "Full"
        if bench.queue.alive.total:  # the answer is on its way, and now there is room
            work_off(bench)
    assert bench.queue.tail == 1
    anew = bench.ask(bench.master.publishing.publish, ask)
    assert isinstance(anew, PutDone)


def test_a_release_that_is_asked_again_leaves_the_group_that_began_since() -> None:
    bench = Bench()
    bench.offer(0, 3)
    bench.flush()
    bench.ask(bench.master.grouping.assign, Assign("q", "g", 0, "r1", 0, 10, 1 << 20))
    operation = OperationId(NodeId("c-2"), 1)
    bench.master.grouping.release(operation, Release("q", "g"))
    bench.flush()
    assert bench.told[-1] == Changed(3)
    begun = bench.ask(bench.master.grouping.assign, Assign("q", "g", 0, "r2", 0, 10, 1 << 20))
    bench.master.grouping.release(operation, Release("q", "g"))
    bench.flush()
    assert bench.told[-1] == Changed(3)
    group = bench.queue.groups.named("g")
    assert group is not None
    assert (group.lease, group.given) == (begun.lease, 3)


# --- another version's journal --------------------------------------------------------------------


@pytest.mark.parametrize("form", [None, FORM, FORM + 1])
def test_a_journal_in_another_form_is_refused_and_not_taken_for_lost(form: int | None) -> None:
    bench = NodeBench()
    bench.open("orders")
    bench.put("orders", 3)
    bench._disk.flush()
    started = bench._disk.start(WALL)
    records = []
    for record in started.records:
        if record.key == b"morders":
            *kept, _ = msgspec.msgpack.decode(record.value)
            value = msgspec.msgpack.encode(kept if form is None else [*kept, form])
            records.append(Record(record.key, value))
        else:
            records.append(record)
    assert records != list(started.records) or form == FORM
    node = FifoNode(NodeId("n1"), Random(1))
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
