"""What comes together lies together, on one node after another: which positions an anchor gives."""

from collections import Counter
from collections.abc import Iterable

import pytest
from priority_bench import Nodes, bodies, receipt

from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.anchor import Anchor, first_of
from snowmelt.protocols.priority.batches import Batch, Run, Share, Shares, Some
from snowmelt.protocols.priority.limits import LIMITS, Limits
from snowmelt.protocols.priority.placing import Placing, spread_of

NAMES = [NodeId(f"n{at}") for at in range(1, 9)]
PLACING = Placing(spread_of(NAMES), "jobs", 1)
FOUR = ((0, 250), (1, 250), (2, 250), (3, 250))


def put(anchor: Anchor, *somes: tuple[int, int]) -> Shares:
    run = Run(tuple([Some(*one) for one in somes]))
    return anchor.granted(Batch((run,))).runs[0].puts


def homes(shares: Iterable[Share]) -> Counter[NodeId]:
    """How many lie with whom."""
    found: Counter[NodeId] = Counter()
    for home, theirs in PLACING.by_home(shares).items():
        found[home] += sum([share.total for share in theirs])
    return found


def test_a_call_of_a_thousand_goes_to_one_home_and_so_do_some_after_it() -> None:
    anchor = Anchor(1, 4, placing=PLACING)
    calls_of = [homes(put(anchor, *FOUR)) for _ in range(80)]
    assert sum([len(one) for one in calls_of]) < 100
    assert all(one.total() == 1_000 for one in calls_of)
    gets = [anchor.granted(Batch((Run((), 1_000),))).runs[0].gets for _ in range(80)]
    assert sum([len(homes(one)) for one in gets]) < 160


@pytest.mark.parametrize("asked", [[FOUR], [((0, 1_000),), ((3, 1_000),)], [((1, 20_000),)]])
def test_all_homes_have_as_much_of_each_priority(asked: list[tuple[tuple[int, int], ...]]) -> None:
    anchor = Anchor(1, 4, placing=PLACING)
    found: dict[int, Counter[NodeId]] = {row: Counter() for row in range(4)}
    items = 0
    while items < 800_000:
        for one in asked:
            for share in put(anchor, *one):
                found[share.priority] += homes([share])
                items += share.total
    for counts in found.values():
        if counts:
            assert max(counts.values()) - min(counts.values()) <= 2 * LIMITS.deal


def test_positions_of_a_priority_grow_and_none_is_given_twice() -> None:
    anchor = Anchor(1, 4, placing=PLACING)
    last = dict.fromkeys(range(4), 0)
    for at in range(300):
        for share in put(anchor, *FOUR[: 1 + at % 4], *[(3, 1)] * (at % 4 < 3)):
            for one in share.intervals:
                assert last[share.priority] <= one.start < one.stop
                last[share.priority] = one.stop


def test_what_was_passed_over_keeps_nothing_apart_of_what_is_gone() -> None:
    anchor = Anchor(1, 4, placing=PLACING)
    given = [share for _ in range(60) for share in put(anchor, *FOUR)]
    assert sum([len(share.intervals) for share in given]) > 100
    anchor.granted(Batch(gone=tuple(given)))
    anchor.check()
    assert anchor.free == 0
    told = anchor.granted(Batch(gone=put(anchor, (0, 70_000)))).gone
    assert [(share.priority, len(share.intervals)) for share in told] == [(0, 1)]


def test_in_the_second_half_of_an_epoch_nothing_is_passed_over() -> None:
    half = (first_of(1) + first_of(2)) // 2
    anchor = Anchor(1, 4, placing=PLACING)
    for row in anchor._rows:
        row.next = half
    assert put(anchor, (0, 20_000)) == (Share(0, (Interval(half, half + 20_000),)),)


@pytest.mark.timeout(60)
def test_a_batch_that_nobody_can_have_put_holds_up_nobody() -> None:
    anchor = Anchor(1, 4, placing=PLACING)
    put(anchor, *FOUR)
    (share,) = put(anchor, (0, 1 << 39))
    assert (len(share.intervals), share.total) == (1, 1 << 39)
    assert len(homes(put(anchor, (1, 1_000)))) <= 2, "whoever comes then is dealt to one home"


def test_calls_of_all_nodes_are_one_message_each_and_come_in_order() -> None:
    nodes = Nodes(4)
    nodes.open("n1", replicas=1)
    asked = [[(row, b"%d %d %d" % (row, call, at)) for row in range(4) for at in range(250)]
             for call in range(24)]  # fmt: skip
    for call, items in enumerate(asked):
        nodes.put(f"n{1 + call % 4}", *items)
    assert len(nodes.sent_of("Store")) <= 24
    got = [body for call in range(24) for body in bodies(nodes.get(f"n{1 + call % 4}", most=1_000))]
    assert got == [b"%d %d %d" % (row, call, at)
                   for row in range(4) for call in range(24) for at in range(250)]  # fmt: skip
    assert len({target for _, target, _ in nodes.sent_of("Store")}) > 1
    assert len(nodes.sent_of("Take")) <= 40


def test_what_older_versions_put_lies_where_it_did_and_nodes_of_both_go_together() -> None:
    nodes = Nodes(3, Limits(block=2, deal=0))
    nodes.open("n1", replicas=1)
    expected = []
    for call in range(12):
        nodes.limits = Limits(block=2, deal=8 * (call % 3))
        name = f"n{1 + call % 3}"  # one after the other is restarted, some of them as newer ones
        nodes.stop(name)
        nodes.view(*[one for one in nodes.members if one != name])
        nodes.restart(name)
        nodes.view(*nodes.members)
        nodes.pass_time(1)
        done = nodes.put(name, *[(0, b"%d %d" % (call, at)) for at in range(9)])
        assert done.copies == 1
        expected += [b"%d %d" % (call, at) for at in range(9)]
    leased = nodes.get("n2", most=200)
    assert bodies(leased) == expected
    nodes.settle("n2", done=(receipt(leased),))
    status: calls.Status = nodes.call("n3", calls.Statistics("jobs"))
    assert (sum(some.count for some in status.ready), status.leased) == (0, 0)
