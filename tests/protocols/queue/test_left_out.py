"""A leader that is left out by a hint, and lives, and does not know: what it says is still true.

Rule 3 of `queue/log.py`. No clock has a part in it: nobody here is cut off.
"""

import pytest
from cluster_bench import ClusterBench

from snowmelt.core.instant import seconds
from snowmelt.core.names import NodeId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.calls import (
    Assign,
    Describe,
    Get,
    ItemRun,
    Leased,
    Locate,
    Peek,
    Peeked,
    PutDone,
    QueueStatus,
    Settle,
    Settled,
)
from snowmelt.protocols.queue.limits import QueueLimits


def others(bench: ClusterBench, node: str) -> list[str]:
    return [str(name) for name in bench.slots if name != node]


def silence_mirrors(bench: ClusterBench) -> None:
    """No mirror is heard to confirm who leads, until drops are cleared."""
    bench.drops.append(lambda _, __, message: type(message).__name__ == "Confirmed")


@pytest.mark.parametrize("replicas", [2, 3])
@pytest.mark.parametrize("met", [True, False])
def test_nothing_is_told_by_a_master_that_another_followed(replicas: int, met: bool) -> None:
    """Whether it heard those who know better before it was asked, or not."""
    bench = ClusterBench(5)
    queue, old, *_ = bench.beside(replicas=replicas)
    if not met:
        bench.drops.append(lambda source, target, _: old in (source, target))
    bench.view(*others(bench, old))
    bench.run(3)
    new = bench.home(queue).master.partition("/")[0]
    assert new != old
    assert isinstance(bench.put(new, 1, queue), PutDone)
    bench.drops.clear()
    asked = [
        bench.call(old, Get(queue, 1, 1 << 20, seconds(0), None)),
        bench.call(old, Peek(queue, 9, 1 << 20)),
        bench.call(old, Describe(queue)),
    ]
    bench.run(3)
    for operation in asked:
        answer = bench.answers.get(operation)
        assert not isinstance(answer, Leased | Peeked | QueueStatus), answer


def test_a_lease_is_not_prolonged_by_a_master_that_another_followed() -> None:
    bench = ClusterBench(5)
    queue, old, *_ = bench.beside(replicas=2)
    assert isinstance(bench.put(old, 1, queue), PutDone)
    leased = bench.get(old, queue=queue)
    assert [type(part) for part in leased.parts] == [ItemRun]
    bench.drops.append(lambda source, target, _: old in (source, target))
    bench.view(*others(bench, old))
    bench.run(3)
    bench.drops.clear()
    prolonged = bench.call(old, Settle(queue, leased.token, (), (), extend=True))
    bench.run(3)
    assert not isinstance(bench.answers.get(prolonged), Settled)


def test_a_group_is_not_refused_by_a_master_that_another_followed() -> None:
    """The group was begun anew since, by a reader that is told there that it has lost it."""
    bench = ClusterBench(5)
    queue, old, *_ = bench.beside(replicas=2)
    assert isinstance(bench.put(old, 1, queue), PutDone)
    first = bench.ask(old, Assign(queue, "g", 0, "r1", 0, 10, 1 << 20))
    bench.drops.append(lambda source, target, _: old in (source, target))
    bench.view(*others(bench, old))
    bench.run(3)
    heir = bench.home(queue).master.partition("/")[0]
    anew = bench.ask(heir, Assign(queue, "g", 0, "r2", 0, 10, 1 << 20))
    assert anew.lease != first.lease
    bench.drops.clear()
    asked = bench.call(old, Assign(queue, "g", anew.lease, "r2", 0, 10, 1 << 20))
    located = bench.call(old, Locate(queue, "g", anew.lease, 0, 1))
    bench.run(3)
    for operation in (asked, located):
        told = bench.answers.get(operation)
        assert not isinstance(told, Declined) or told.error == "Unavailable"


def test_an_empty_get_waits_for_the_word_of_a_mirror_and_asks_again() -> None:
    bench = ClusterBench(3)
    queue, master, *_ = bench.beside(replicas=3)
    silence_mirrors(bench)
    asked = bench.call(master, Get(queue, 1, 1 << 20, seconds(0), None))
    bench.run(2)
    assert asked not in bench.answers
    assert len(bench.messages("Confirm")) >= 6  # both, every half a second
    bench.drops.clear()
    bench.run(1)
    assert isinstance(bench.answers[asked], Leased)
    count = len(bench.messages("Confirm"))
    bench.run(5)
    assert len(bench.messages("Confirm")) == count


def test_so_much_waits_for_silent_mirrors_and_no_more() -> None:
    bench = ClusterBench(3, limits=QueueLimits(waiting_answers=10))
    queue, master, *_ = bench.beside(replicas=3)
    silence_mirrors(bench)
    asked = [bench.call(master, Describe(queue)) for _ in range(30)]
    bench.run(2)
    bench.drops.clear()
    bench.run(1)
    answered = [operation for operation in asked if operation in bench.answers]
    assert answered == asked[:10]
    assert isinstance(bench.ask(master, Describe(queue)), QueueStatus)


def test_a_put_is_told_though_nobody_confirms_who_leads() -> None:
    """A step that a mirror took is more than its word; what was asked before it waits on."""
    bench = ClusterBench(3)
    queue, master, *_ = bench.beside(replicas=3)
    silence_mirrors(bench)
    asked = bench.call(master, Get(queue, 1, 1 << 20, seconds(0), None))
    bench.run(0.1)
    assert asked not in bench.answers
    assert isinstance(bench.put(master, 1, queue), PutDone)
    bench.drops.clear()
    bench.run(1)
    assert isinstance(bench.answers[asked], Leased)
    assert not bench.answers[asked].parts


def test_a_mirror_that_confirms_nothing_is_replaced() -> None:
    bench = ClusterBench(4)
    queue, master, mirror, *_ = bench.beside(replicas=2)
    bench.drops.append(lambda source, target, _: {source, target} == {master, mirror})
    bench.call(master, Get(queue, 1, 1 << 20, seconds(0), None))
    bench.run(20)
    assert mirror not in [one.partition("/")[0] for one in bench.home(queue).mirrors]


def test_a_question_to_a_mirror_that_is_away_costs_no_turns_until_it_is_back() -> None:
    """Its master was woken for what was due long ago, again and again (fifo seed 38)."""
    bench = ClusterBench(2)
    queue, master, mirror = bench.beside(replicas=2)
    silence_mirrors(bench)
    asked = bench.call(master, Get(queue, 1, 1 << 20, seconds(0), None))
    bench.run(1)
    bench.view(master)
    bench.run(1)
    due = bench.slots[NodeId(master)].due
    assert due is None or due[1] > bench.now
    bench.drops.clear()
    bench.view(master, mirror)
    bench.run(1)
    assert asked in bench.answers
