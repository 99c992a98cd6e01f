"""What a producer keeps and lends, against a model that is a list of numbers."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.core.record import BULK, Damaged, Erase, Missing, Record
from snowmelt.protocols.pool.loans import Loans
from snowmelt.protocols.pool.shelf import Shelf
from snowmelt.protocols.pool.stock import JOIN_BYTES, Parcel, Stock, packed

NOW = Instant(0)
CONSUMER = NodeId("c-1")


def parcel(start, *bodies):
    return Parcel(start, Batch.of(bodies))


def row(*counts, size=3):
    """Parcels one after another, of so many objects each; each body tells its number."""
    parcels, start = [], 0
    for count in counts:
        numbers = range(start, start + count)
        parcels.append(parcel(start, *(str(n).zfill(size).encode() for n in numbers)))
        start += count
    return parcels


def numbers(parcels):
    """Which objects they hold; and their bodies must be those of these numbers."""
    found = [number for one in parcels for number in range(one.start, one.stop)]
    assert [int(bytes(body)) for one in parcels for body in one.batch] == found
    return found


intervals = st.lists(
    st.tuples(st.integers(-5, 25), st.integers(0, 12)).map(lambda it: Interval(it[0], sum(it))),
    max_size=5,
).map(tuple)
counts = st.lists(st.integers(1, 6), min_size=1, max_size=5)


@given(
    counts,
    st.lists(st.tuples(st.integers(-2, 8), st.integers(-2, 30), st.booleans()), max_size=12),
)
def test_a_stock_is_a_list_of_numbers(sizes, steps):
    stock, model = Stock(), []
    for one in row(*sizes):
        stock.add(one)
        model += range(one.start, one.stop)
    for objects_max, bytes_max, back in steps:
        taken = stock.take(objects_max, bytes_max)
        found = numbers(taken)
        assert found == model[: len(found)]
        assert len(found) <= max(0, objects_max)
        assert len(found) * 3 <= max(3, bytes_max)
        assert bool(found) == bool(model and objects_max > 0)
        del model[: len(found)]
        if back:
            stock.put_back(taken)
            model[:0] = found
        stock.check()
        assert stock.count == len(model)
        assert stock.size == 3 * len(model)
    assert numbers(stock.clear()) == model
    stock.check()


@given(counts, st.lists(intervals, max_size=6))
def test_a_loan_is_cut_as_a_list_of_numbers(sizes, cuts):
    loans = Loans(Random(1))
    loan = loans.lend(CONSUMER, 1, 1, row(*sizes), NOW, once=False)
    model = list(range(sum(sizes)))
    for named in cuts:
        if loan.over:
            break
        taken = numbers(loans.take(loan, named))
        gone = [n for n in model if not named or any(n in one for one in named)]
        assert sorted(taken) == gone
        model = [n for n in model if n not in gone]
        assert sorted(numbers(loan.parcels)) == model
        assert loans.count == len(model)
        loans.check()
    assert (loans.get(loan.token) is None) == (not model)


def test_a_loan_that_is_being_settled_is_over_only_when_that_is_safe():
    loans = Loans(Random(1))
    loan = loans.lend(CONSUMER, 1, 1, row(3), NOW, once=False)
    done = loans.settle(loan, ())
    assert (loans.count, loans.held(loan.token, CONSUMER)) == (3, loan)
    loans.unsettled(loan, done)
    loans.check()
    assert numbers(loan.parcels) == [0, 1, 2]
    loans.settled(loan, loans.settle(loan, ()), ())
    loans.check()
    assert (loans.count, loans.size, loans.get(loan.token)) == (0, 0, None)


def test_at_least_one_is_taken_however_large():
    stock = Stock()
    stock.add(parcel(0, b"x" * 100, b"y"))
    assert [len(one.batch) for one in stock.take(5, 1)] == [1]
    assert [len(one.batch) for one in stock.take(5, 0)] == [1]


def test_parcels_travel_as_one_only_while_they_are_small():
    stock = Stock()
    for start in range(3):
        stock.add(parcel(start, b"x" * (JOIN_BYTES // 2)))
    assert [one.start for one in stock.take(9, 1 << 30)] == [0, 1]


def test_a_body_is_not_copied_when_one_parcel_travels():
    one = parcel(0, b"body" * 1000)
    _, blob = packed([one])
    assert blob.obj is one.batch.blob.obj


def test_what_is_packed_of_a_cut_parcel_tells_of_nothing_else():
    spans, blob = packed([row(4)[0].part(1, 3)])
    assert (spans[0].interval, spans[0].size, bytes(blob)) == (Interval(1, 3), 6, b"001002")


class Rack:
    """A disk that does at once what a shelf asks, or refuses."""

    def __init__(self):
        self.shelf = Shelf()
        self.records = {}

    def write(self, one):
        self._do(self.shelf.write(one))

    def settle(self, parcels, *, refused=False):
        changes = self.shelf.settle(parcels)
        if refused:
            self.shelf.unsettled(parcels)
            return
        self._do(changes)
        self.shelf.settled(parcels)

    def restored(self):
        """What the next life has to give, and the number its own objects begin at."""
        shelf = Shelf()
        small = [Record(key, value) for key, value in self.records.items() if key[:1] != BULK]
        found = [Record(key, self.records[key]) for key in shelf.restore(small)]
        stop = shelf.stop
        return [part for one in found for part in shelf.restored(one)[0]], stop

    def _do(self, changes):
        for change in changes:
            if isinstance(change, Erase):
                for key in [one for one in self.records if change.start <= one < change.stop]:
                    del self.records[key]
            else:
                self.records[change.key] = bytes(change.value)


@given(counts, st.lists(st.tuples(intervals, st.booleans()), max_size=8))
def test_a_shelf_is_a_list_of_numbers_in_the_next_life(sizes, steps):
    rack, parcels = Rack(), row(*sizes)
    for one in parcels:
        rack.write(one)
    loans = Loans(Random(1))
    loan = loans.lend(CONSUMER, 1, 1, list(parcels), NOW, once=False)
    model = list(range(sum(sizes)))
    for named, refused in steps:
        if loan.over:
            break
        taken = loans.settle(loan, named)
        rack.settle(taken, refused=refused)
        if refused:
            loans.unsettled(loan, taken)
        else:
            loans.settled(loan, taken, named)
            model = [n for n in model if n not in numbers(taken)]
        left, stop = rack.restored()
        assert numbers(left) == model
        assert stop > max(model, default=-1)
    assert bool(rack.records) == bool(model)


def test_a_parcel_whose_last_settlement_was_refused_can_be_settled_again():
    rack = Rack()
    one, other = row(2, 2)
    rack.write(one)
    rack.write(other)
    rack.settle([other], refused=True)
    rack.settle([other])
    rack.settle([one])
    assert not rack.records


def test_two_settlements_under_way_at_once_are_both_told():
    shelf = Shelf()
    (one,) = row(3)
    shelf.write(one)
    first, second = [one.part(0, 1)], [one.part(1, 2)]
    shelf.settle(first)
    (change,) = shelf.settle(second)
    again = Shelf()
    again.restore([Record(change.key, change.value)])
    shelf.settled(first)
    shelf.settled(second)
    assert len(shelf.settle([one.part(2, 3)])) == 2, "it is erased with the last"


@pytest.mark.parametrize("found", [Missing, Damaged])
def test_a_parcel_that_is_damaged_is_named(found):
    rack = Rack()
    rack.write(row(3)[0])
    shelf = Shelf()
    (key,) = shelf.restore([Record(k, v) for k, v in rack.records.items() if k[:1] != BULK])
    parcels, reason = shelf.restored(found(key))
    assert (parcels, reason) == ([], "objects from 0 on are damaged on the disk, and lost")


# --- memory ---------------------------------------------------------------------------------------


def kept(parcels):
    """How many bytes they keep in memory."""
    return sum({id(one.batch.blob.obj): len(one.batch.blob.obj) for one in parcels}.values())


@pytest.mark.parametrize("step", [1, 7, 300])
def test_what_is_left_of_a_large_put_keeps_no_more_than_twice_its_size(step):
    stock = Stock()
    stock.add(Parcel(0, Batch.of([bytes(100)] * 1000)))
    while stock.count:
        row = stock.clear()
        assert kept(row) <= 2 * sum(one.batch.size for one in row)
        for one in row:
            stock.add(one)
        stock.take(step, 1 << 30)


def test_what_comes_back_of_a_large_put_keeps_no_more_than_twice_its_size():
    stock = Stock()
    stock.add(Parcel(0, Batch.of([bytes(100)] * 1000)))
    (taken,) = stock.take(1000, 1 << 30)
    stock.put_back([taken.part(17, 18)])
    assert kept(stock.clear()) == 100


def test_a_loan_that_lasts_keeps_no_more_than_twice_its_size():
    loans = Loans(Random(1))
    whole = Parcel(0, Batch.of([bytes(100)] * 1000))
    loan = loans.lend(NodeId("c"), 1, 1, [whole.part(3, 5)], Instant(9), once=False)
    loan.compact()
    assert kept(loan.parcels) == 200
    loans.check()
