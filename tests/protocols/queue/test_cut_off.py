"""A node that is cut off tells all whom it owes an answer to ask another: it hears no news."""

from typing import Any

import pytest
from cluster_bench import ClusterBench

from snowmelt.core.batch import Batch
from snowmelt.core.instant import seconds
from snowmelt.core.names import OperationId
from snowmelt.protocols.calling import AskAnother, Declined
from snowmelt.protocols.queue.api.calls import Get, Leased, Open, Put, PutDone
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.api.statuses import ListQueues


class Bench(ClusterBench):
    """Four nodes with a queue of three copies; who leads is not who decides."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(4)
        self.queue, self.master, *_ = self.beside(replicas=3, **settings)
        self.run(1)

    def put_of(self, number: int, size: int = 1) -> Put:
        batch = Batch.of([b"%d" % number * size])
        return Put(self.queue, "p", number, bytes(batch.offsets), bytes(batch.blob))

    def told(self, *operations: OperationId) -> list[Any]:
        return [self.answers.get(one) for one in operations]


def test_who_waits_at_a_leader_asks_another_and_what_was_put_comes_once() -> None:
    bench = Bench()
    bench.drops.append(lambda source, _target, _message: source == bench.master)  # not safe
    put = bench.call(bench.master, bench.put_of(1))
    get = bench.call(bench.master, Get(bench.queue, 1, 1 << 20, seconds(60), None))
    bench.run(1)
    assert bench.told(put, get) == [None, None]
    bench.cut_off(bench.master)
    assert bench.told(put, get) == [AskAnother(), AskAnother()]
    bench.drops.clear()
    bench.view(*[name for name in bench.slots if name != bench.master])
    bench.run(3)
    assert isinstance(bench.ask("n1", bench.put_of(1)), PutDone)
    leased = bench.get("n1", queue=bench.queue)
    assert [part.count for part in leased.parts] == [1]


def test_what_is_asked_later_is_refused_as_before() -> None:
    bench = Bench()
    bench.cut_off(bench.master)
    told = bench.ask(bench.master, bench.put_of(1))
    assert isinstance(told, Declined)
    assert told.error == "Unavailable"


@pytest.mark.parametrize("news", [True, False])
def test_who_waits_for_news_of_a_queue_asks_another(news: bool) -> None:
    """Of one that another node leads, or that is to be made, or of which there are."""
    bench = Bench()
    door = next(name for name in bench.slots if name not in ("n1", bench.master))
    if not news:
        bench.drops.append(lambda source, _target, _message: source == door)
    asked = (
        bench.call(door, Open("new", QueueSettings(replicas=1))),
        bench.call(door, Get("unheard-of", 1, 1 << 20, seconds(0), None)),
        bench.call(door, ListQueues()),
    )
    bench.run(1)
    before = bench.told(*asked)
    bench.cut_off(door)
    if news:
        assert AskAnother not in {type(one) for one in before}
        assert bench.told(*asked) == before
    else:
        assert (before, bench.told(*asked)) == ([None] * 3, [AskAnother()] * 3)
    bench.run(12)
    assert len(bench.told(*asked)) == 3


def test_a_door_that_is_cut_off_while_it_carries_bodies_leaves_them_to_another() -> None:
    bench = Bench(inline_max=0)
    door = next(name for name in bench.slots if name not in ("n1", bench.master))
    bench.ask(door, Open(bench.queue))
    bench.drops.append(lambda source, _target, _message: source == door)
    put = bench.call(door, bench.put_of(1, 1000))
    bench.run(2)
    assert bench.told(put) == [None]
    bench.cut_off(door)
    assert bench.told(put) == [AskAnother()]
    bench.drops.clear()
    bench.view(*[name for name in bench.slots if name != door])
    bench.run(1)
    assert isinstance(bench.ask("n1", bench.put_of(1, 1000), within=5), PutDone)
    leased = bench.get(bench.master, queue=bench.queue, within=5)
    assert isinstance(leased, Leased)
    assert (
        sum(part.count for part in leased.parts)
        + sum(span.stop - span.start for span in leased.spans)
        == 1
    )
