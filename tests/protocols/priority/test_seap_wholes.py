"""Leases that are kept as a whole (`wholes.py`): the same shelf as with every stretch entered."""

from random import Random
from typing import Any

import pytest
from priority_bench import Nodes, receipt
from test_seap_bundles import LOT, LOTS, some, stocked
from test_seap_nodes import numbers, opened, put

from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.priority import bundles, calls
from snowmelt.protocols.priority.batches import Share, Shares
from snowmelt.protocols.priority.messages import Mark
from snowmelt.protocols.priority.settings import State
from snowmelt.protocols.priority.shelf import Shelf
from snowmelt.protocols.priority.standing import Standing, marked


def heads(free: list[int], dice: Random) -> Shares:
    """The first ones of some lots, of which so many have left."""
    taken = []
    for lot in sorted(dice.sample(range(LOTS), dice.randrange(1, LOTS + 1))):
        count = min(dice.choice((1, 1, 2, 5)), LOT - free[lot])
        if count:
            start = lot * LOT + free[lot]
            taken.append(Interval(start, start + count))
            free[lot] += count
    return (Share(0, tuple(taken)),) if taken else ()


def lease(shelf: Shelf, shares: Shares, token: int) -> None:
    standing = Standing(1, 1, State.LEASED, token)
    if not shelf.wholes.lease(shares, standing):
        shelf.mark(marked(shares, standing))


def end(shelf: Shelf, shares: Shares, token: int) -> bool:
    """Whether it was as a whole."""
    if shelf.wholes.end(token, shares) is not None:
        shelf.ended.add(token, shares)
        return True
    shelf.mark(Mark(shares, 1, 2, State.GONE, token))
    return False


@pytest.mark.parametrize("few", [1, 4])
@pytest.mark.parametrize("seed", range(20))
def test_a_shelf_is_the_same_with_wholes_and_without_also_when_it_begins_again(
    seed: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "FOLDED", 30)
    dice, kept, plain = Random(seed), stocked(few), stocked(few=1 << 20)
    free, held, whole = [0] * LOTS, list[tuple[int, Shares]](), 0
    for token in range(1, 61):
        shares = heads(free, dice) if dice.random() < 0.5 else ()
        if shares:
            lease(kept.shelf, shares, token)
            plain.shelf.mark(marked(shares, Standing(1, 1, State.LEASED, token)))
            held.append((token, shares))
        elif dice.random() < 0.05:  # of some that are leased, and of some that are not
            mark = Mark(some(dice), 1, 3, dice.choice((State.FREE, State.GONE)), token)
            kept.shelf.mark(mark)
            plain.shelf.mark(mark)
        if held and dice.random() < 0.5:
            token_of, theirs = held.pop(dice.randrange(len(held)))
            part = theirs if dice.random() < 0.8 else (Share(0, theirs[0].intervals[:1]),)
            whole += end(kept.shelf, part, token_of)
            plain.shelf.mark(Mark(part, 1, 2, State.GONE, token_of))
        if dice.random() < 0.4:
            kept.write(), plain.write()
            assert kept.again(dice).seen() == plain.again(dice).seen()
        if dice.random() < 0.1:
            assert kept.seen() == plain.seen()
            assert kept.shelf._left == plain.shelf._left
    assert kept.seen() == plain.seen()
    assert whole or few > 1, "none ended as a whole"


def test_a_lease_and_its_end_are_one_record_which_is_written_twice() -> None:
    kept = stocked()
    kept.write()
    for turn in range(6):
        stretches = tuple(Interval(at * LOT + turn, at * LOT + turn + 1) for at in range(LOTS))
        lease(kept.shelf, (Share(0, stretches),), turn + 1)
        assert kept.write() == 1
        kept.shelf.wholes.of((Share(0, stretches),)).weight = LOTS
        assert end(kept.shelf, (Share(0, stretches),), turn + 1)
        assert kept.write() == 1
    assert len([key for key in kept.disk if key.startswith(b"q/t/")]) == 6
    assert kept.again(Random(1)).seen() == kept.seen()


def test_bodies_are_erased_when_much_has_ended_though_nobody_looks() -> None:
    kept = stocked()
    kept.write()
    bulks = len(kept.disk)
    most = tuple(Interval(at * LOT, (at + 1) * LOT - 1) for at in range(LOTS))
    last = tuple(Interval(one.stop, one.stop + 1) for one in most)
    for token, shares in enumerate(((Share(0, most),), (Share(0, last),)), start=1):
        lease(kept.shelf, shares, token)
        assert end(kept.shelf, shares, token)  # how much it weighs nobody knows: it may be much
    kept.write()
    assert not kept.shelf.wholes.open
    assert len(kept.disk) < bulks


# --- whole nodes ----------------------------------------------------------------------------------


def filled(count: int = 1, **settings: Any) -> Nodes:
    """A queue with eight puts of four, which follow each other by turns."""
    nodes = opened(count, **settings)
    for at in range(8):
        put(nodes, "n1", *range(at, 32, 8))
    return nodes


def shelf_of(nodes: Nodes, node: NodeId) -> Shelf:
    return nodes.nodes[node]._queues.all["jobs"].shelf


def get(nodes: Nodes, most: int, settle: calls.Settle | None = None) -> calls.Leased:
    call = calls.Get("jobs", nodes.via("n1"), most, seconds(0), settle, gathered=True)
    leased = nodes.call("n1", call)
    assert isinstance(leased, calls.Leased)
    return leased


@pytest.mark.parametrize("count", [1, 3])
def test_nothing_is_entered_while_gets_acknowledge_what_those_before_had(count: int) -> None:
    nodes = filled(count, replicas=count)
    shelf, settle, got = shelf_of(nodes, nodes.anchor("n1")), None, list[int]()
    for _ in range(4):
        held = get(nodes, 8, settle)
        settle = calls.Settle("jobs", done=(receipt(held),))
        got += sorted(numbers(held))
        row = shelf.entered.row(0)
        assert (row.bundles.pieces.count, row.gone.count) == (0, 0)
    assert got == list(range(32))
    row = shelf.rows.row(0)
    assert (row.bundles.pieces.count, row.gone.total) == (8, 24)


def test_what_is_leased_as_a_whole_comes_back_when_its_lease_ends() -> None:
    nodes = filled()
    held = get(nodes, 16)
    nodes.pass_time(31)
    again = get(nodes, 16)
    assert numbers(again) == numbers(held)
    assert again.token > held.token
    lost = nodes.settle("n1", done=(receipt(held),)).lost
    assert [one.shares for one in lost] == [receipt(held).shares]


def test_a_part_of_a_whole_is_acknowledged_and_the_rest_comes_back() -> None:
    nodes = filled()
    held = get(nodes, 16)
    (share,) = receipt(held).shares
    first = calls.Receipt(held.token, (Share(0, share.intervals[:3]),))
    rest = calls.Receipt(held.token, (Share(0, share.intervals[3:]),))
    assert nodes.settle("n1", done=(first,)) == calls.Settled()
    assert nodes.settle("n1", back=(rest,)) == calls.Settled()
    assert nodes.settle("n1", done=(rest,)).lost == (rest,)
    left = get(nodes, 32)
    there = {at for one in receipt(left).shares[0].intervals for at in one}
    done = {at for one in first.shares[0].intervals for at in one}
    assert len(there) == 32 - len(done)
    assert not there & done


def test_who_acknowledges_a_whole_again_is_told_that_it_is_done() -> None:
    nodes = filled()
    held = get(nodes, 16)
    for _ in range(2):
        assert nodes.settle("n1", done=(receipt(held),)) == calls.Settled()
    assert nodes.call("n1", calls.Statistics("jobs")).leased == 0
    assert nodes.settle("n1", back=(receipt(held),)).lost == (receipt(held),)


@pytest.mark.parametrize("ended", [False, True])
def test_a_whole_is_found_on_the_disk_as_it_was(ended: bool) -> None:
    nodes = filled()
    held = get(nodes, 16)
    if ended:
        nodes.settle("n1", done=(receipt(held),))
    nodes.stop("n1")
    nodes.restart("n1")
    nodes.view("n1")
    status = nodes.call("n1", calls.Statistics("jobs"))
    assert (status.leased, status.ready[0].count) == (0 if ended else 16, 16)
    if not ended:
        assert nodes.settle("n1", done=(receipt(held),)) == calls.Settled()
    assert sorted(numbers(get(nodes, 32))) == list(range(16, 32))


def test_what_is_stored_again_while_it_is_leased_as_a_whole_is_not_free() -> None:
    nodes = filled()
    held = get(nodes, 16)
    here = nodes.nodes[NodeId("n1")]._queues.all["jobs"].here
    assert here is not None
    urgency = here.home.urgency
    assert urgency is not None
    for _ in range(2):
        urgency.stored(receipt(held).shares)
        assert len(urgency.free) == 16
        nodes.settle("n1", done=(receipt(held),))


def test_gets_of_one_phase_have_each_their_own() -> None:
    nodes = filled()
    nodes.hanging.add("n1")
    nodes.ask("n1", nodes.put_call("n1"))
    nodes.ask("n1", calls.Settle("jobs", back=()))
    call = calls.Get("jobs", nodes.via("n1"), 8, seconds(0), gathered=True)
    asked = nodes.at_once("n1", [call, call])
    nodes.flush()
    told = [nodes.told(number) for number in asked]
    assert sorted([one for each in told for one in numbers(each)]) == list(range(16))
    for one in told:
        assert nodes.settle("n1", done=(receipt(one),)) == calls.Settled()
    assert sorted(numbers(get(nodes, 32))) == list(range(16, 32))
