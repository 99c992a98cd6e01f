"""Nothing that is read can reduce the copies of what lives; what is damaged is mended."""

from typing import Any

import pytest
from nodes_bench import Nodes

from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.fifo import calls
from snowmelt.protocols.fifo.messages import (
    Broken,
    Copy,
    Drop,
    Extent,
    Keep,
    Pulled,
    Replicate,
    Replicated,
)

ITEMS = [b"%03d" % at for at in range(600)]
HALF = Interval(0, 300)


def spans_of(nodes: Nodes) -> list[calls.Span]:
    """Where the first items lie, wherever the master is: told by a survey, and never by a lease."""
    located = nodes.ask(calls.Survey("q", 0, 1000))
    return list(located.spans)


def fetched(nodes: Nodes, span: calls.Span, at: str) -> calls.Fetched:
    told: calls.Fetched = nodes.ask(calls.Fetch("q", span, 1 << 20), at)
    return told


def three_copies() -> Nodes:
    nodes = Nodes(3)
    nodes.open(replicas=3)
    for at in range(0, 600, 100):
        nodes.put(ITEMS[at : at + 100], at, "n1")
    return nodes


def half_settled(nodes: Nodes) -> None:
    leased = nodes.get(300)
    nodes.settle(leased.token, HALF)
    nodes.pass_time(1)


def as_it_was(nodes: Nodes, name: str) -> None:
    """Nothing in memory: the node reads its disk from now on."""
    nodes.restart(name)
    nodes.view(*nodes.members)
    nodes.pass_time(3)


def test_a_late_read_of_what_was_dropped_takes_no_keeper_off() -> None:
    nodes = three_copies()
    (span,) = spans_of(nodes)
    half_settled(nodes)
    assert any(isinstance(message, Drop) for _, _, message in nodes.sent)
    for name in ("n1", "n2", "n3"):
        assert not fetched(nodes, span, name).parts
    assert nodes.status().short_of_copies == 0
    assert nodes.status().ready == 300
    nodes.pass_time(10)
    assert not any(isinstance(message, Replicate) for _, _, message in nodes.sent)


def test_who_reads_what_was_dropped_is_told_that_it_is_gone_and_not_that_it_is_damaged() -> None:
    nodes = three_copies()
    (span,) = spans_of(nodes)
    half_settled(nodes)
    told = fetched(nodes, span, "n2")
    assert (told.parts, told.damaged, told.gone) == ((), 0, 300)


def test_one_damaged_copy_is_replaced_before_its_keeper_is_taken_off() -> None:
    nodes = three_copies()
    as_it_was(nodes, "n2")
    nodes.lose("n2", damage=True, first=200, stop=300)
    (span,) = spans_of(nodes)
    nodes.lost = lambda _source, _target, message: isinstance(message, Replicated)
    told = fetched(nodes, span, "n2")
    assert sum(part.count for part in told.parts) == 200
    assert nodes.status().short_of_copies == 600
    nodes.pass_time(5)
    assert housed(nodes) == {("n1", "n2", "n3"): 600}, "taken off, and no other copy was told of"
    nodes.lost = lambda *_: False
    nodes.pass_time(10)
    assert nodes.status().short_of_copies == 0
    assert housed(nodes) == {("n1", "n2", "n3"): 600}
    told = fetched(nodes, span, "n2")
    assert (sum(part.count for part in told.parts), told.damaged) == (600, 0)


def housed(nodes: Nodes) -> dict[tuple[str, ...], int]:
    """On which nodes how many living items are, by the journal."""
    (queue,) = (
        master.journal.queue
        for node in nodes.nodes.values()
        for master in node._scribe.masters.values()
    )
    return {
        tuple(sorted(keeper.split("/")[0] for keeper in keepers)): count
        for keepers, count in queue.runs.housed.items()
    }


def test_parts_that_are_damaged_here_and_there_are_put_together_from_all() -> None:
    nodes = three_copies()
    for name, first in (("n1", 0), ("n2", 100), ("n3", 200)):
        as_it_was(nodes, name)
        nodes.lose(name, damage=True, first=first, stop=first + 100)
    (span,) = spans_of(nodes)
    for name in ("n1", "n2", "n3"):
        fetched(nodes, span, name)
    nodes.pass_time(60)
    assert nodes.status().lost == 0
    assert nodes.status().short_of_copies == 0
    for name in ("n1", "n2", "n3"):
        assert sum(part.count for part in fetched(nodes, span, name).parts) == 600


def test_what_nobody_can_read_is_lost_and_counted_and_its_neighbours_are_not() -> None:
    nodes = three_copies()
    for name in ("n1", "n2", "n3"):
        as_it_was(nodes, name)
        nodes.lose(name, damage=True, first=100, stop=200)
    (span,) = spans_of(nodes)
    fetched(nodes, span, "n3")
    nodes.pass_time(30)
    status = nodes.status()
    assert (status.ready, status.lost, status.short_of_copies) == (500, 100, 0)


def test_what_one_that_is_away_may_have_is_not_given_up() -> None:
    nodes = three_copies()
    for name in ("n1", "n2"):
        as_it_was(nodes, name)
        nodes.lose(name, damage=True, first=100, stop=200)
    nodes.lost = lambda source, target, _: "n3" in (source, target)
    nodes.view("n1", "n2")
    nodes.pass_time(3)
    (span,) = spans_of(nodes)
    fetched(nodes, span, "n2")
    fetched(nodes, span, "n1")
    nodes.pass_time(60)
    assert nodes.status().lost == 0
    nodes.lost = lambda *_: False
    nodes.view("n1", "n2", "n3")
    nodes.pass_time(120)
    status = nodes.status()
    assert (status.ready, status.lost, status.short_of_copies) == (600, 0, 0)


def test_the_answer_of_an_earlier_term_counts_for_no_other_extent() -> None:
    """The numbers of orders begin anew with each master; only n4 can take the copies."""
    nodes = Nodes(4)
    nodes.open(replicas=3)
    nodes.put(ITEMS[:100], 1, "n1")
    nodes.put(ITEMS[100:200], 2, "n2")
    replies: list[Replicated] = []

    def lost(_source: str, _target: str, message: Any) -> bool:
        if isinstance(message, Replicated):
            replies.append(message)
        return isinstance(message, Replicated | Pulled)

    nodes.lost = lost
    nodes.view("n1", "n2", "n4")
    nodes.pass_time(30)
    asked = [
        (source, target, message)
        for source, target, message in nodes.sent
        if isinstance(message, Replicate)
    ]
    assert asked
    before = housed(nodes)
    for source, target, message in asked:
        for other in asked:
            old = _answer(nodes, message, target, other[2])
            nodes.receive(target, source, old)
    assert housed(nodes) == before, "counted as a copy, though nobody stored it"


def _answer(nodes: Nodes, asked: Replicate, target: str, other: Replicate) -> Any:
    """What the target would have said in an earlier term, of another extent."""
    member = nodes.members[target]  # type: ignore[index]
    keeper, run = f"{member.id}/{member.birth:x}", f"{member.id}/{member.birth:x}/{member.start}"
    values: dict[str, Any] = {
        "queue": "q",
        "term": asked.term - 1,
        "number": asked.number,
        "keeper": keeper,
        "stored": True,
        "missing": (),
    }
    if "extent" in Replicated.__struct_fields__:
        values |= {"extent": other.extent, "run": run}
    return Replicated(**values)


def test_a_copy_that_was_made_in_an_earlier_run_of_its_keeper_does_not_count() -> None:
    """It may have been erased since: what a keeper is told to keep did not name it yet."""
    nodes = Nodes(5)
    nodes.open(replicas=3)
    nodes.put(ITEMS[:100], 1, "n2")
    late: list[tuple[str, str, Replicated]] = []

    def lost(source: str, target: str, message: Any) -> bool:
        if isinstance(message, Replicated):
            late.append((source, target, message))
        return isinstance(message, Replicated)

    nodes.lost = lost
    nodes.view("n1", "n2", "n4", "n5")
    nodes.pass_time(5)
    assert late
    source, target, message = late[-1]
    nodes.restart(source)
    nodes.view("n1", "n2", "n4", "n5")
    assert any(isinstance(told, Keep) for _, to, told in nodes.sent if to == source)
    assert not nodes.bodies(source)
    before = housed(nodes)
    nodes.receive(source, target, message)
    assert housed(nodes) == before


@pytest.mark.parametrize("position", [0, 299, 300, 10**12])
def test_what_a_keeper_says_of_other_items_than_those_that_live_there_is_ignored(
    position: int,
) -> None:
    nodes = three_copies()
    half_settled(nodes)
    before = housed(nodes)
    (span,) = spans_of(nodes)
    broken = Broken("q", Extent(span.stream, 0, 300), "n2/2", position)
    for name in nodes.members:
        nodes.receive("n2", name, broken)
    nodes.pass_time(5)
    assert housed(nodes) == before
    assert not any(isinstance(message, Replicate) for _, _, message in nodes.sent)


def test_a_keeper_that_its_master_cannot_reach_is_passed_over() -> None:
    """All are here for the registry; between two of them nothing arrives."""
    nodes = Nodes(4)
    master = nodes.open(replicas=3).master.node
    mirrors = nodes.status().mirrors
    out = next(name for name in nodes.members if name not in (master, *mirrors))
    source = next(name for name in nodes.members if _after(nodes, name)[0] == out)
    nodes.lost = lambda here, there, message: (
        {here, there} == {master, out} or (there == out and isinstance(message, Copy))
    )
    nodes.put(ITEMS[:3], 0, source)
    assert nodes.status().short_of_copies == 3
    nodes.pass_time(20)
    assert nodes.status().short_of_copies == 0
    (keepers,) = housed(nodes)
    assert out not in keepers


def _after(nodes: Nodes, name: str) -> list[NodeId]:
    """The other nodes, as the ring has them behind this one."""
    names = list(nodes.members)
    at = names.index(NodeId(name))
    return names[at + 1 :] + names[:at]
