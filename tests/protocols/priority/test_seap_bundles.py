"""What many stretches have together (`bundles.py`): one record, and the same shelf as with many."""

from random import Random
from typing import Any

import pytest
from priority_bench import Nodes, bodies, receipt
from test_seap_nodes import SMALL, numbers, opened, put

from snowmelt.core.batch import Batch as Bodies
from snowmelt.core.interval import Interval
from snowmelt.core.names import OperationId
from snowmelt.core.record import BULK, Write
from snowmelt.protocols.priority import bundles, calls
from snowmelt.protocols.priority.batches import Share
from snowmelt.protocols.priority.limits import LIMITS, Limits
from snowmelt.protocols.priority.messages import Elements, Mark, Origin
from snowmelt.protocols.priority.settings import State
from snowmelt.protocols.priority.shelf import Shelf
from snowmelt.protocols.priority.standing import Standing

LOT, LOTS = 20, 8
ALL = (Share(0, (Interval(0, LOT * LOTS),)),)


class Kept:
    """A shelf, and its small records as they are on its disk."""

    def __init__(self, few: int = LIMITS.few) -> None:
        self.few = few
        self.shelf = Shelf(b"q/", Limits(few=few))
        self.disk: dict[bytes, bytes] = {}

    def write(self) -> int:
        """How many records it takes."""
        changes = self.shelf.changes(0)
        for one in changes:
            if isinstance(one, Write):
                self.disk[one.key] = one.value
            else:
                for key in [key for key in self.disk if one.start <= key < one.stop]:
                    del self.disk[key]
        return len(changes)

    def again(self, dice: Random) -> "Kept":
        """As it begins on its disk, the records in any order."""
        kept = Kept(self.few)
        kept.disk = dict(self.disk)
        records = [one for one in kept.disk.items() if not one[0].startswith(BULK)]
        dice.shuffle(records)
        for key, value in records:
            kept.shelf.restore(key, value)
        return kept

    def seen(self) -> Any:
        """All that is known of each position."""
        told = self.shelf.rows.standings(ALL)
        each = [(at, standing) for _, where, standing in told for at in where]
        marks = [
            (at, mark.epoch, mark.turn, mark.token)
            for mark in self.shelf.rows.marks()
            for share in mark.shares
            for one in share.intervals
            for at in one
        ]
        void = [(mark.epoch, mark.shares) for mark in self.shelf.rows.voids()]
        return each, marks, void, self.shelf.rows.gone(), self.shelf.rows.stored()


def stocked(few: int = LIMITS.few) -> Kept:
    kept, batch = Kept(few), Bodies.of([b"x"] * LOT)
    for at in range(LOTS):
        where = (Share(0, (Interval(at * LOT, (at + 1) * LOT),)),)
        made = (Origin(OperationId("c", at), 0, LOT),)
        kept.shelf.store(Elements(where, made, bytes(batch.offsets), bytes(batch.blob)))
    return kept


def some(dice: Random) -> tuple[Share, ...]:
    """Some of each of some lots, or of what was drawn before."""
    edges = sorted(dice.sample(range(LOT * LOTS), 2 * dice.choice((1, 3, 9, 14))))
    return (Share(0, tuple(map(Interval, edges[::2], edges[1::2]))),)


@pytest.mark.parametrize("seed", range(40))
def test_a_shelf_is_the_same_with_bundles_and_without_also_when_it_begins_again(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "FOLDED", 30)
    dice, kept, plain = Random(seed), stocked(), stocked(few=1 << 20)
    drawn = [some(dice) for _ in range(4)]
    written = 0
    for turn in range(60):
        state = dice.choice((State.LEASED, State.LEASED, State.FREE, State.GONE, State.GONE))
        if dice.random() < 0.05:
            state = State.VOID
        drawn[0] = drawn[0] if dice.random() < 0.3 else dice.choice([*drawn, some(dice)])
        shares = drawn[0]
        epoch = 1 + turn // 20
        version = dice.randrange(turn + 1) if dice.random() < 0.2 else turn
        mark = Mark(shares, epoch, version, state, token=turn, failures=turn % 3)
        kept.shelf.mark(mark)
        plain.shelf.mark(mark)
        assert kept.seen() == plain.seen()
        if dice.random() < 0.5:
            written += kept.write()
            plain.write()
            assert kept.again(dice).seen() == plain.again(dice).seen()
        if dice.random() < 0.1:
            kept.write(), plain.write()
            kept, plain = kept.again(dice), plain.again(dice)
    kept.write()
    everything = Mark(ALL, 9, 0, State.GONE)
    kept.shelf.mark(everything)
    kept.write()
    assert kept.again(dice).seen() == (([], [], [], ALL, ()))
    left = [key for key in kept.disk if key.startswith(b"q/s/")]
    assert not left, "a standing of what is gone"


def test_what_is_leased_and_done_is_a_record_each_and_the_account_follows() -> None:
    kept = stocked()
    kept.write()
    counts = []
    for turn in range(6):
        stretches = tuple(Interval(at * LOT + turn, at * LOT + turn + 1) for at in range(LOTS))
        kept.shelf.mark(Mark((Share(0, stretches),), 1, 1, State.LEASED, token=turn + 1))
        counts.append(kept.write())
        kept.shelf.mark(Mark((Share(0, stretches),), 1, 2, State.GONE, token=turn + 1))
        counts.append(kept.write())
    assert counts == [1, 2] * 6  # the lease; its end, and the lease erased
    kept.shelf.rows.row(0).bundles._folds = 1
    stretches = tuple(Interval(at * LOT + 6, at * LOT + 7) for at in range(LOTS))
    kept.shelf.mark(Mark((Share(0, stretches),), 1, 2, State.GONE))
    assert kept.write() == 7 + LOTS  # all bundles go, and the account has a piece for each lot
    assert [key for key in kept.disk if key.startswith(b"q/t/")] == []
    assert kept.again(Random(1)).seen() == kept.seen()


@pytest.mark.parametrize("turned", [False, True])
def test_what_is_done_in_one_piece_with_a_bundle_that_joins_it_is_written(turned: bool) -> None:
    kept = stocked()
    kept.write()
    one = Mark((Share(0, (Interval(5, 8),)),), 1, 2, State.GONE, token=1)
    stretches = tuple(Interval(at * LOT, at * LOT + 5) for at in range(LOTS))
    many = Mark((Share(0, stretches),), 1, 2, State.GONE, token=2)
    for mark in (many, one) if turned else (one, many):
        kept.shelf.mark(mark)
    kept.write()
    assert kept.again(Random(1)).seen() == kept.seen()


def test_a_part_that_is_told_of_later_counts_as_that_and_the_bundle_stays_as_it_was() -> None:
    kept = stocked()
    stretches = tuple(Interval(at * LOT, at * LOT + 2) for at in range(LOTS))
    kept.shelf.mark(Mark((Share(0, stretches),), 1, 1, State.LEASED, token=7))
    kept.write()
    record = kept.disk[next(key for key in kept.disk if key.startswith(b"q/t/"))]
    kept.shelf.mark(Mark((Share(0, (Interval(0, 1),)),), 1, 2, State.FREE, token=7))
    kept.shelf.mark(Mark((Share(0, (Interval(LOT, LOT + 1),)),), 1, 2, State.GONE, token=7))
    kept.write()
    assert record in kept.disk.values()
    kept = kept.again(Random(2))
    told = {at: one.state for _, where, one in kept.shelf.rows.standings(ALL) for at in where}
    assert (told[0], told[1], told.get(LOT), told[2]) == (State.FREE, State.LEASED, None, 0)
    rest = tuple(Interval(at * LOT, at * LOT + 2) for at in range(2, LOTS))
    kept.shelf.mark(Mark((Share(0, (Interval(1, 2), Interval(LOT + 1, LOT + 2))),), 1, 2, 3))
    kept.shelf.mark(Mark((Share(0, rest),), 1, 2, State.FREE, token=7))
    kept.write()
    assert record not in kept.disk.values()


@pytest.mark.parametrize(
    "steps", [[3], [3, 0], [0, 1, 0, 1], [1, 1 << 62, 1, 1 << 62], [1, 2, 3]], ids=str
)
def test_a_record_that_is_no_bundle_is_not_taken_for_one(steps: list[int]) -> None:
    record = bundles._ENCODE((steps, Standing(1, 1, State.LEASED)))
    with pytest.raises(ValueError, match=r"stretches|integer"):
        bundles.unpacked(record)


def gathering(nodes: Nodes, node: str, most: int, **options: Any) -> calls.Leased:
    call = calls.Get("jobs", nodes.via(node), most, 0, gathered=True, **options)
    leased = nodes.call(node, call)
    assert isinstance(leased, calls.Leased), leased
    return leased


def filled(count: int = 1, limits: Any = None, **settings: Any) -> tuple[Nodes, list[int]]:
    nodes = opened(count, *(() if limits is None else (limits,)), **settings)
    dice, there = Random(5), list[int]()
    for at in range(12):
        keys = [dice.randrange(1 << 40) for _ in range(10)]
        put(nodes, f"n{1 + at % count}", *keys)
        there += keys
    return nodes, sorted(there)


def test_a_get_of_many_stretches_is_one_piece_for_who_asks_so() -> None:
    nodes, there = filled()
    held = gathering(nodes, "n1", 50)
    (one,) = held.pieces
    assert len(one.share.intervals) > 8
    assert numbers(held) == there[:50]
    before = nodes.written[-1]
    assert nodes.settle("n1", done=(calls.Receipt(held.token, (one.share,)),)) == calls.Settled()
    assert (before, nodes.written[-1]) == (1, 2)
    plain = nodes.get("n1", 50)
    assert len(plain.pieces) > 8
    assert numbers(plain) == there[50:100]


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("replicas", [1, 3])
def test_gathered_or_not_it_is_the_same_on_any_number_of_nodes(count: int, replicas: int) -> None:
    nodes, there = filled(count, SMALL, replicas=replicas)
    for turn in range(6):
        node = f"n{1 + turn % count}"
        held = gathering(nodes, node, 20) if turn % 2 else nodes.get(node, 20)
        assert numbers(held) == there[:20]
        assert nodes.settle(node, done=(receipt(held),)) == calls.Settled()
        there = there[20:]
    assert not there


def test_what_is_too_much_for_one_answer_is_the_least_of_it_also_when_gathered() -> None:
    nodes, there = filled()
    held = gathering(nodes, "n1", 100, bytes_max=1_000)
    assert numbers(held) == there[: len(numbers(held))]
    assert 1 <= len(numbers(held)) < 100
    rest = gathering(nodes, "n1", 200)
    assert numbers(rest) == there[len(numbers(held)) :]


def test_a_lease_of_many_puts_lasts_over_a_restart_and_then_ends() -> None:
    nodes, there = filled(3, replicas=3)
    held = gathering(nodes, "n1", 60)
    done = receipt(held)
    part = calls.Receipt(held.token, (Share(0, done.shares[0].intervals[:5]),))
    assert nodes.settle("n1", done=(part,)) == calls.Settled()
    gone = sum(one.size for one in part.shares[0].intervals)
    for name in ("n2", "n3"):
        nodes.stop(name)
        nodes.restart(name)
    nodes.view("n1", "n2", "n3")
    stats = nodes.call("n2", calls.Statistics("jobs"))
    assert (stats.leased, sum(one.count for one in stats.ready)) == (60 - gone, 60)
    nodes.pass_time(120)
    left = nodes.get("n3", 1_000)
    assert sorted(map(int, bodies(left))) == numbers(left)
    assert len(bodies(left)) == 120 - gone
    assert set(numbers(left)) <= set(there)
