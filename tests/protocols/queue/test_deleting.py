"""A queue that is deleted is gone for good: on every node, in every hand, whoever comes back."""

from typing import Any

import msgspec
import pytest
from cluster_bench import ClusterBench

from snowmelt.core.batch import Batch
from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.core.node import Requested
from snowmelt.core.record import BULK
from snowmelt.protocols.calling import Elsewhere
from snowmelt.protocols.queue.api.calls import Describe, Get, Open, Pause, Put, Settle
from snowmelt.protocols.queue.api.deletes import Delete, Deleted
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.limits import LIMITS, QueueLimits
from snowmelt.protocols.queue.messages import home_words


def with_three(count: int = 3, limits: QueueLimits = LIMITS, **settings: Any) -> ClusterBench:
    """Queue q on three nodes, with three items."""
    bench = ClusterBench(count, limits)
    bench.open("q", replicas=min(count, 3), **settings)
    for number in range(3):
        bench.put("n1", number)
    return bench


def records(bench: ClusterBench, name: str, queue: str = "q") -> list[bytes]:
    """What a node's disk has of a queue, but for homes and for marks."""
    disk, begin = bench.slots[NodeId(name)].disk, queue.encode() + b"\0"
    bodies = disk.scan(BULK + begin, BULK + begin[:-1] + b"\1", 1 << 40)
    kept = disk.start().records
    return [one.key for one in (*bodies, *kept) if one.key.startswith((b"j" + begin, BULK))]


# --- what is told ---------------------------------------------------------------------------------


def test_who_deletes_is_told_what_was_thrown_away() -> None:
    bench = with_three()
    bench.get("n2", items=1)
    told = bench.ask("n2", Delete("q"))
    assert told == Deleted(counted=True, ready=2, leased=1)
    assert told.items == 3


def test_nothing_of_it_is_left_on_any_node() -> None:
    bench = with_three()
    assert all(records(bench, name) for name in ("n1", "n2", "n3"))
    bench.ask("n3", Delete("q"))
    assert not any(records(bench, name) for name in ("n1", "n2", "n3"))


def test_deleting_it_again_says_that_there_is_none_and_the_same_call_is_told_the_same() -> None:
    bench = with_three()
    operation = bench.call("n2", Delete("q"))
    bench.run(1)
    told = bench.answers.pop(operation)
    slot = bench.slots[NodeId("n3")]
    bench._give(slot, Requested(operation, Delete("q")))
    bench.run(1)
    assert bench.answers[operation] == told
    assert bench.ask("n2", Delete("q")).error == "NoSuchQueue"
    assert bench.ask("n2", Delete("never")).error == "NoSuchQueue"


def test_only_an_empty_queue_is_deleted_where_that_is_asked_for() -> None:
    bench = with_three()
    told = bench.ask("n2", Delete("q", if_empty=True))
    assert (told.error, "'q' has 3 ready" in told.text) == ("NotEmpty", True)
    leased = bench.get("n2")
    assert "3 leased" in bench.ask("n2", Delete("q", if_empty=True)).text
    bench.ask("n2", Settle("q", leased.token, (Interval(0, 3),)))
    assert bench.ask("n2", Delete("q", if_empty=True)) == Deleted(counted=True)


# --- the name is free -----------------------------------------------------------------------------


def test_another_of_its_name_is_made_at_once_with_other_settings_and_higher_tokens() -> None:
    bench = with_three()
    before, lease = bench.home(), bench.get("n1", items=1)
    bench.ask("n1", Delete("q"))
    assert bench.ask("n1", Open("q", make=False)).error == "NoSuchQueue"
    opened = bench.ask("n1", Open("q", QueueSettings(replicas=2, priorities=3)))
    assert (opened.settings.replicas, opened.settings.priorities) == (2, 3)
    assert opened.since > before.term
    batch = Batch.of([b"new"])
    bench.ask("n1", Put("q", "p", 1, bytes(batch.offsets), bytes(batch.blob)))
    new = bench.get("n1")
    assert new.token > lease.token
    assert [one.count for one in new.parts] == [1]
    assert bench.ask("n1", Settle("q", lease.token, back=(Interval(0, 1),))).error == "LeaseLost"


def test_a_put_and_a_get_for_the_old_one_are_not_for_the_new_one() -> None:
    bench = with_three()
    since = bench.ask("n1", Open("q")).since
    bench.ask("n1", Delete("q"))
    bench.open("q")
    batch = Batch.of([b"old"])
    put = Put("q", "p", 9, bytes(batch.offsets), bytes(batch.blob), since=since)
    assert bench.ask("n1", put).error == "QueueDeleted"
    assert bench.ask("n1", Get("q", 1, 1, seconds(0), since=since)).error == "QueueDeleted"


def test_a_get_that_waits_is_told_at_once() -> None:
    bench = with_three()
    bench.get("n1")
    master = bench.home().master.partition("/")[0]
    waits = bench.call(master, Get("q", 1, 1 << 20, seconds(100), None))
    bench.run(1)
    assert waits not in bench.answers
    bench.ask("n2", Delete("q"))
    assert bench.answers[waits].error == "NoSuchQueue"
    assert "'q' was deleted" in bench.answers[waits].text


# --- it was moved ---------------------------------------------------------------------------------


def emptied(bench: ClusterBench) -> None:
    leased = bench.get("n2")
    bench.ask("n2", Settle("q", leased.token, (Interval(0, 3),)))


def test_a_moved_queue_says_where_its_items_are_and_is_not_made_until_its_name_is_free() -> None:
    bench = with_three()
    assert bench.ask("n2", Delete("q", if_empty=True, moved_to="new")).error == "NotEmpty"
    emptied(bench)
    master = bench.home().master.partition("/")[0]
    waits = bench.call(master, Get("q", 1, 1 << 20, seconds(100), None))
    bench.run(1)
    assert bench.ask("n2", Delete("q", if_empty=True, moved_to="new")) == Deleted(counted=True)
    told = bench.answers[waits]
    assert (told.error, "was moved: what was in it is in 'new'" in told.text) == (
        "QueueMoved",
        True,
    )
    bench.kill("n1")  # who decides next has read it, too
    bench.view()
    bench.run(2)
    bench.start("n1")
    bench.view()
    bench.run(2)
    for ask in (Open("q"), Open("q", make=False), Open("q", QueueSettings(partitions=2))):
        for name in ("n1", "n3"):
            assert bench.ask(name, ask).error == "QueueMoved"
    operation = bench.call("n2", Delete("q"))
    bench.run(1)
    assert bench.answers[operation] == Deleted(counted=True)
    bench._give(bench.slots[NodeId("n3")], Requested(operation, Delete("q")))  # the same call
    bench.run(1)
    assert bench.answers[operation] == Deleted(counted=True)
    assert bench.ask("n3", Open("q", make=False)).error == "NoSuchQueue"
    assert bench.ask("n3", Open("q")).settings.partitions == 1


def test_puts_wait_while_a_queue_is_moved_and_not_for_ever() -> None:
    bench = with_three()
    assert bench.ask("n1", Pause("q", True, "new")).items == 0
    batch = Batch.of([b"late"])
    put = Put("q", "p", 9, bytes(batch.offsets), bytes(batch.blob))
    refused = bench.ask("n1", put)
    assert (refused.error, "'q' is moved to 'new' just now" in refused.text) == ("Full", True)
    assert bench.ask("n1", Put("q", "p", 0, put.offsets, put.blob)).repeated  # that one is in
    waits = bench.call("n1", msgspec.structs.replace(put, sequence=10, patience=seconds(60)))
    bench.run(8)
    assert waits not in bench.answers
    assert bench.get("n2").parts[0].count == 3  # gets go on
    bench.run(3)
    assert bench.answers[waits].start == 3


@pytest.mark.parametrize("ask", [Delete("q/1", moved_to="q"), Pause("q", True, "q")])
def test_a_queue_moves_to_another_only(ask: Any) -> None:
    assert "allowed: another one" in with_three().ask("n1", ask).text


# --- who is away ----------------------------------------------------------------------------------


def away(bench: ClusterBench, *names: str) -> None:
    """They are killed, and the others see it."""
    for name in names:
        bench.kill(name)
    bench.view()
    bench.run(2)


def back(bench: ClusterBench, *names: str) -> None:
    """They come back on their disks."""
    for name in names:
        bench.start(name)
    bench.view()
    bench.run(2)


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_copy_that_comes_back_is_erased(anew: bool, restarts: bool) -> None:
    bench = with_three()
    away(bench, "n3")
    bench.ask("n2", Delete("q"))
    if anew:
        bench.open("q", replicas=0)
        bench.put("n1", 9)
    if restarts:  # the coordinator as well, which has the grave on its disk
        bench.kill("n1")
        bench.start("n1")
    assert records(bench, "n3")
    back(bench, "n3")
    if anew:
        assert [one.count for one in bench.get("n3").parts] == [1]
    else:
        assert not records(bench, "n3")
        assert bench.get("n3").error == "NoSuchQueue"


def test_who_asks_where_an_old_copy_is_erased_hears_of_the_queue_that_there_is() -> None:
    bench = with_three()
    away(bench, "n3")
    bench.ask("n2", Delete("q"))
    bench.open("q", replicas=2)
    bench.drops.append(lambda _, to, message: to == "n3" and type(message) is home_words.Assignment)
    bench.start("n3")
    bench.view()
    get = bench.call("n3", Get("q", 1, 1 << 20, seconds(9), None))
    bench.run(1)
    assert get not in bench.answers, bench.answers[get]
    bench.drops.clear()
    bench.run(1)
    assert isinstance(bench.answers[get], Elsewhere)


def test_a_copy_that_comes_back_when_the_grave_is_forgotten_is_erased() -> None:
    bench = with_three(limits=QueueLimits(graves=2))
    away(bench, "n3")
    bench.ask("n2", Delete("q"))
    for number in range(9):
        bench.open(f"other{number}", replicas=1)
        assert bench.ask("n2", Delete(f"other{number}")).counted
    kept = bench.slots[NodeId("n1")].node._controller._kept
    assert "q" not in kept.graves
    assert kept.floor > 1
    back(bench, "n3")
    assert not records(bench, "n3")
    opened = bench.ask("n1", Open("q"))
    assert opened.since >= kept.floor


def test_the_next_of_that_name_goes_on_without_the_old_copy_whoever_fails() -> None:
    bench = with_three()
    away(bench, "n3")
    bench.ask("n2", Delete("q"))
    bench.open("q", replicas=0)
    bench.put("n1", 7)
    back(bench, "n3")
    for name in ("n2", "n3"):
        away(bench, name)
        told = bench.ask("n1", Describe("q"), 5)
        assert (told.ready, told.tail) == (1, 1)
        back(bench, name)
    away(bench, "n2")
    told = bench.ask("n1", Delete("q"))
    assert told.items == 1


# --- nobody can say what is in it -----------------------------------------------------------------


def test_a_queue_whose_nodes_are_away_is_deleted_only_as_one_that_is_lost() -> None:
    bench = ClusterBench(3)
    queue, keeper = bench.beside(replicas=1)[:2]
    bench.put("n1", 1, queue)
    away(bench, keeper)
    told = bench.ask("n1", Delete(queue))
    assert told.error == "Unavailable"
    assert "waits for " + keeper in told.text
    assert "lost=True" in told.text
    assert bench.ask("n1", Delete(queue, lost=True)) == Deleted(counted=False)
    bench.open(queue, replicas=1)
    back(bench, keeper)
    assert bench.get("n1", queue=queue).parts == ()


def test_a_leader_that_dies_while_it_closes_the_queue_closed_nothing() -> None:
    bench = ClusterBench(4)
    queue, master, *_ = bench.beside(replicas=3)
    bench.put("n1", 1, queue)
    bench.drops.append(lambda source, *_: source == master)
    operation = bench.call("n1", Delete(queue))
    bench.run(1)
    assert operation not in bench.answers
    bench.drops.clear()
    away(bench, master)
    assert bench.ask("n1", Delete(queue), 5).items == 1


def test_a_leader_that_closed_it_leads_again_when_nobody_wrote_that_down() -> None:
    bench = ClusterBench(4)
    queue, *_ = bench.beside(replicas=3)
    bench.put("n2", 1, queue)
    bench.drops.append(lambda *one: isinstance(one[2], home_words.CopyClosed))
    bench.call("n2", Delete(queue))
    bench.run(1)
    bench.drops.clear()
    bench.kill("n1")
    bench.start("n1")
    bench.view()
    bench.run(2)
    assert bench.put("n2", 2, queue, 5).start == 1


def test_an_older_disk_of_the_coordinator_hears_that_the_queue_was_deleted() -> None:
    bench = ClusterBench(4)
    queue, *_ = bench.beside(replicas=3)
    bench.put("n2", 1, queue)
    older = bench.slots[NodeId("n1")].disk.copy()
    assert bench.ask("n2", Delete(queue)).items == 1
    bench.kill("n1")
    bench.slots[NodeId("n1")].disk.put_back(older)
    back(bench, "n1")
    assert bench.ask("n2", Get(queue, 1, 1, seconds(0))).error == "NoSuchQueue"
    bench.open(queue, replicas=3)
    assert bench.put("n2", 9, queue).start == 0


# --- several partitions ---------------------------------------------------------------------------


def with_parts(queue: str) -> ClusterBench:
    """A queue of two partitions, on three nodes."""
    bench = ClusterBench(3)
    bench.ask("n1", Open(queue, QueueSettings(replicas=2, partitions=2)))
    return bench


def test_the_first_partition_is_not_deleted_while_another_is_there() -> None:
    bench = with_parts("q")
    told = bench.ask("n2", Delete("q/0"))
    assert (told.error, "'q/1' was made again" in told.text) == ("QueueExists", True)
    assert bench.ask("n2", Delete("q/1")) == Deleted(counted=True)
    assert bench.ask("n2", Delete("q/0")) == Deleted(counted=True)


def test_no_partition_is_made_while_the_first_is_being_deleted() -> None:
    bench = with_parts("r")
    assert not bench.home("r/0").master.startswith("n1/")  # or it is closed at once
    bench.ask("n1", Delete("r/1"))
    bench.drops.append(lambda _, __, word: isinstance(word, home_words.Close))
    deletes = bench.call("n1", Delete("r/0"))
    bench.run(1)
    opens = bench.call("n1", Open("r", QueueSettings(replicas=2, partitions=2)))
    bench.run(1)
    with pytest.raises(KeyError):
        bench.home("r/1")
    bench.drops.clear()
    bench.run(2)
    assert bench.answers[deletes] == Deleted(counted=True)
    assert bench.answers[opens].since > 1
