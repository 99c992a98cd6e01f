"""Terms are begun once, and what mirrors say names exactly what they have."""

from copy import deepcopy
from typing import Any

import msgspec
import pytest
from cluster_bench import ClusterBench

from snowmelt.core.batch import Batch
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.api.calls import Put, PutDone
from snowmelt.protocols.queue.messages.words import Head
from snowmelt.protocols.queue.replication import sending
from snowmelt.protocols.queue.store import copy


def bodies(leased: Any) -> list[bytes]:
    return [bytes(part.blob) for part in leased.parts]


def restarted(bench: ClusterBench, name: str) -> None:
    """A process ends and begins again, and is in the next view."""
    bench.kill(name)
    bench.start(name)
    bench.view()
    bench.run(1)


def lose(*kinds: str) -> Any:
    return lambda *way: type(way[2]).__name__ in kinds


def test_a_term_that_was_left_is_claimed_anew() -> None:
    bench = ClusterBench(3)
    queue, master, *_ = bench.beside(replicas=2)
    bench.drops.append(lose("Activate"))
    restarted(bench, master)
    home = bench.home(queue)
    assert not home.active
    bench.cut_off(master)
    bench.sent.clear()
    bench.view()
    bench.run(1)
    assert bench.home(queue).term > home.term
    assert home.term not in [fence.term for fence in bench.messages("Fence")]


def test_a_home_is_served_by_who_began_its_very_term() -> None:
    bench = ClusterBench(3)
    queue, master, *_ = bench.beside(replicas=2)
    bench.drops.append(lose("Activate"))
    restarted(bench, master)
    home = bench.home(queue)
    terms = bench.terms(master)
    assert not terms.leaders[queue].serving
    terms.heard(msgspec.structs.replace(home, term=home.term + 5, active=True, before=()))
    assert queue not in terms.leaders


@pytest.mark.parametrize("lie", [Head(1, 1_000), Head(7, 3)])
def test_the_word_of_a_mirror_of_another_step_does_not_count(lie: Head) -> None:
    """One that this leader never made, or that was another's."""
    bench = ClusterBench(3)
    master = bench.open(replicas=3)
    for number in range(3):
        assert isinstance(bench.put(master, number), PutDone)
    leader = bench.terms(master).leaders["q"]
    before = {name: one.appended for name, one in leader.followers.all.items()}
    word = msgspec.structs.replace(bench.messages("Appended")[-1], head=lie)
    bench.receive("n2" if master != "n2" else "n3", master, word)
    assert {name: one.appended for name, one in leader.followers.all.items()} == before


@pytest.mark.parametrize("mirrors", [1, 2])
def test_a_cut_between_master_and_mirror_ends_with_another_mirror(mirrors: int) -> None:
    """Both see the coordinator; the queue needs all of its mirrors, or goes on without."""
    bench = ClusterBench(4)
    queue, master, mirror, *_ = bench.beside(replicas=mirrors + 1)
    assert isinstance(bench.put(master, 1, queue), PutDone)
    bench.drops.append(lambda source, target, _: {source, target} == {master, mirror})
    assert isinstance(bench.put("n1", 2, queue, within=20), PutDone)
    bench.run(10)
    assert mirror not in [one.partition("/")[0] for one in bench.home(queue).mirrors]
    assert isinstance(bench.put("n1", 3, queue), PutDone)
    assert b"".join(bodies(bench.get(master, queue=queue))) == b"item 1item 2item 3"


def test_a_mirror_that_was_replaced_may_be_one_again_when_it_was_restarted() -> None:
    """All mirrors are needed, and the one that took its place can't be reached for good."""
    bench = ClusterBench(4)
    for queue in map("q{}".format, range(40)):
        master = bench.open(queue, replicas=3, durable_copies=3)
        mirrors = [one.partition("/")[0] for one in bench.home(queue).mirrors]
        if "n1" in mirrors:  # which decides, and is to be reached
            break
    (mirror,) = set(mirrors) - {"n1"}
    (other,) = {"n1", "n2", "n3", "n4"} - {master, *mirrors}
    cut = [mirror, other]
    bench.drops.append(lambda source, target, _: {source, target} in [{master, c} for c in cut])
    assert bench.put("n1", 1, queue, within=8) is None
    assert other in [one.partition("/")[0] for one in bench.home(queue).mirrors]
    bench.kill(mirror)
    bench.start(mirror)
    cut.remove(mirror)
    bench.view()
    bench.run(30)
    assert mirror in [one.partition("/")[0] for one in bench.home(queue).mirrors]
    assert isinstance(bench.put("n1", 1, queue, within=5), PutDone)


def test_who_was_replaced_is_a_mirror_again_when_nothing_goes_on_without() -> None:
    """All mirrors are needed; one was away for a while, and who took its place is cut off."""
    bench = ClusterBench(4)
    for queue in map("q{}".format, range(40)):
        master = bench.open(queue, replicas=3, durable_copies=3)
        mirrors = [one.partition("/")[0] for one in bench.home(queue).mirrors]
        if "n1" in mirrors:
            break
    (mirror,) = set(mirrors) - {"n1"}
    (other,) = {"n1", "n2", "n3", "n4"} - {master, *mirrors}
    cut = [mirror, other]
    bench.drops.append(lambda source, target, _: {source, target} in [{master, c} for c in cut])
    assert bench.put("n1", 1, queue, within=8) is None
    assert other in [one.partition("/")[0] for one in bench.home(queue).mirrors]
    cut.remove(mirror)
    bench.run(20)
    assert mirror in [one.partition("/")[0] for one in bench.home(queue).mirrors]
    assert isinstance(bench.put("n1", 1, queue, within=5), PutDone)


def test_a_new_leader_that_does_not_hear_whom_it_needs_makes_room_for_the_next() -> None:
    """With every copy needed for an answer, one link that is cut would stop it for ever."""
    bench = ClusterBench(4)
    queue, master, mirror, _ = bench.beside(replicas=3, durable_copies=1)
    assert isinstance(bench.put(master, 1, queue), PutDone)
    bench.kill(master)
    bench.view()
    bench.run(3)
    bench.start(master)
    bench.drops.append(lambda source, target, _: {source, target} == {mirror, master})
    bench.view()
    bench.run(10)
    assert bench.home(queue).active
    assert isinstance(bench.put("n1", 2, queue, within=5), PutDone)


def test_without_another_mirror_no_term_follows_the_other() -> None:
    bench = ClusterBench(2)
    queue, master, *_ = bench.beside(replicas=2)
    bench.put(master, 1, queue)
    bench.drops.append(lose("Append", "Appended", "SnapshotChunk", "AppendRejected"))
    bench.put(master, 2, queue, within=1)
    term = bench.home(queue).term
    bench.sent.clear()
    bench.run(200)
    assert bench.home(queue).term == term
    assert 1 <= len(bench.messages("Unreached")) <= 7


# --- an older copy of the coordinator's disk ------------------------------------------------------


def with_old_disk(bench: ClusterBench, old: Any) -> None:
    """The coordinator begins again, on its disk of before."""
    bench.kill("n1")
    bench.slots[NodeId("n1")].disk = old
    bench.start("n1")
    bench.view()
    bench.run(3)


@pytest.mark.parametrize("lost", ["terms", "the queue"])
def test_a_coordinator_with_an_older_disk_learns_from_those_who_keep(lost: str) -> None:
    bench = ClusterBench(3)
    oldest = deepcopy(bench.slots[NodeId("n1")].disk)
    queue, master, *_ = bench.beside(replicas=2)
    old = deepcopy(bench.slots[NodeId("n1")].disk)
    bench.put(master, 1, queue)
    for _ in range(3):  # the master restarts, and has later terms
        restarted(bench, master)
    term = bench.home(queue).term
    bench.put(master, 2, queue)
    with_old_disk(bench, old if lost == "terms" else oldest)
    settings = {"replicas": 2}
    bench.open(queue, **settings)
    master = bench.home(queue).master.partition("/")[0]
    assert isinstance(bench.put(master, 3, queue, within=5), PutDone)
    assert bench.home(queue).term > term
    assert b"".join(bodies(bench.get(master, queue=queue))) == b"item 1item 2item 3"


# --- a copy goes in pieces ------------------------------------------------------------------------

COPY = ("Append", "SnapshotChunk")
SIZE_MAX = 6_000


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few steps are kept, and a piece has some of a copy."""
    monkeypatch.setattr(sending, "PIECE_BYTES", 2_000)
    monkeypatch.setattr(sending, "PIECE_BODIES", 20)
    monkeypatch.setattr(copy, "STEPS_BYTES", 2_000)
    monkeypatch.setattr(copy, "RECENT_BYTES", 2_000)


def put_of(queue: str, number: int) -> Put:
    batch = Batch.of([b"%d" % number])
    return Put(queue, f"p{number % 7}", number, bytes(batch.offsets), bytes(batch.blob))


def many_puts(bench: ClusterBench, node: str, queue: str, numbers: range) -> None:
    for number in numbers:
        bench.call(node, put_of(queue, number))
        if number % 4 == 0:
            bench.run(0.01)
    bench.run(0.5)


def largest(bench: ClusterBench) -> int:
    encode = msgspec.msgpack.encode
    return max(len(encode(one)) for kind in COPY for one in bench.messages(kind))


def living(bench: ClusterBench, queue: str) -> list[Interval]:
    leader = bench.terms(bench.home(queue).master.partition("/")[0]).leaders[queue]
    return list(leader.state.batches.live)


@pytest.mark.usefixtures("small")
def test_a_long_copy_catches_up_in_pieces_while_its_queue_changes() -> None:
    bench = ClusterBench(4)
    queue, master, mirror, third = bench.beside(replicas=3)
    many_puts(bench, master, queue, range(300))
    bench.kill(mirror)
    many_puts(bench, master, queue, range(300, 350))  # more than can be told in one message
    bench.sent.clear()
    bench.start(mirror)
    bench.view()
    many_puts(bench, master, queue, range(350, 400))
    bench.run(2)
    assert largest(bench) < SIZE_MAX
    assert len(bench.messages("SnapshotChunk")) > 10
    bench.kill(third)
    bench.kill(master)  # what the mirror has is what the master had
    bench.start(third)
    bench.drops.append(lambda source, *_: source == third)
    bench.view(*(name for name in bench.slots if name != master))
    bench.run(1)
    bench.drops.clear()
    bench.run(4)
    assert living(bench, queue) == [Interval(0, 400)]


@pytest.mark.usefixtures("small")
def test_a_new_leader_takes_the_copy_of_another_in_pieces() -> None:
    bench = ClusterBench(4)
    queue, master, mirror, _ = bench.beside(replicas=3)
    many_puts(bench, master, queue, range(100))
    bench.kill(mirror)
    many_puts(bench, master, queue, range(100, 300))
    bench.kill(master)
    bench.start(mirror)
    bench.sent.clear()
    bench.view()
    bench.run(5)
    assert bench.home(queue).master.startswith(mirror + "/")
    assert living(bench, queue) == [Interval(0, 300)]
    assert len(bench.messages("SnapshotChunk")) > 5
    assert largest(bench) < SIZE_MAX


def test_a_mirror_that_missed_a_word_gets_that_and_no_more() -> None:
    bench = ClusterBench(3)
    queue, master, *_ = bench.beside(replicas=2)
    bench.put(master, 1, queue)
    bench.run(1)
    bench.sent.clear()
    bench.drops.append(lose("Append"))
    bench.put(master, 2, queue, within=1)
    bench.drops.clear()
    assert isinstance(bench.put(master, 3, queue), PutDone)
    assert not bench.messages("SnapshotChunk")
