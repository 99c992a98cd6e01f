"""What of a whole history of a priority queue is judged, and what nobody can know."""

import pytest

from snowmelt.check.history import Ended
from snowmelt.core.instant import Instant, seconds
from snowmelt.protocols.priority.anchor import first_of
from snowmelt.protocols.priority.settings import QueueSettings
from snowmelt.sim.families.priority_words import Ledger
from snowmelt.sim.judge.copies import Excuses
from snowmelt.sim.judge.urgency import Got, Lost
from snowmelt.sim.judge.urgency_end import judge
from snowmelt.sim.judge.values import Place, Put
from snowmelt.sim.world import Broken

FIRST = first_of(1)


def at(second):
    return Instant(seconds(second))


def put(ledger, value, called, order):
    one = Put("p1", (value,), b"", at(called), priorities=(0,), sent=True)
    ledger.asked(one)
    one.ended, one.returned = Ended.SUCCEEDED, at(called + 0.1)
    one.places, one.orders = (Place(0, FIRST + order),), (FIRST + order,)


def got(ledger, value, called, order):
    token, returned = FIRST + order, at(called + 0.1)
    one = Got("k1", token, at(called), returned, returned, returned, order=token, asked=1)
    one.values, one.places, one.failures = (value,), ledger.by_value[value].places, (0,)
    ledger.gets.append(one)


def passed(*lost):
    """The first of two elements is passed at 70 s; these are when gets were asked and given up."""
    excuses = Excuses(("n1",))
    excuses.viewed(at(0), "n1", 1, ("n1",))
    ledger = Ledger(QueueSettings(queue="jobs", priorities=1), excuses, 4)
    put(ledger, "first", 1, 1)
    put(ledger, "second", 2, 2)
    put(ledger, "third", 50, 3)
    got(ledger, "second", 70, 4)
    got(ledger, "first", 75, 5)
    ledger.lost_gets += [Lost("k2", at(called), at(over), light=False) for called, over in lost]
    judge(ledger)


@pytest.mark.parametrize("lost", [(), ((10, 11),), ((71, 72),)])
def test_an_element_is_passed_when_no_get_may_have_had_it_then(lost):
    with pytest.raises(Broken, match="'second' was got while the smaller 'first' was in the queue"):
        passed(*lost)


def test_what_one_get_gave_back_another_may_have_that_was_given_up_later():
    passed((60, 61))
    passed((10, 11), (60, 61))  # what the first had is back for what is asked from 50 s on
