"""Rules 11 to 13 of membership: what a leader changes in etcd, however late its words arrive."""

from itertools import count

import msgspec
import pytest

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.node import Note, Send
from snowmelt.protocols.etcd import EtcdFailed, PutKey, Read, Row, Transact, Transacted, Trouble
from snowmelt.protocols.membership.records import (
    ANSWER,
    CLUSTER,
    HOMES,
    LEADER,
    LEDGER,
    Change,
    Records,
)
from snowmelt_world.etcd import Model

NOW = Instant(seconds(100))


class Bench:
    """One leader's records, and an etcd that hears what the test lets through."""

    def __init__(self, leader=b"one"):
        self.model = Model()
        self.let(
            Transact(0, (), (PutKey(LEADER, leader), PutKey(CLUSTER, b"c"), PutKey(LEDGER, b"v0")))
        )
        self.records = Records(leader, count(1))
        self.kept = []
        self.run(self.records.read(NOW))

    def let(self, request):
        return self.model.answer(request, NOW)

    def run(self, effects):
        """All that is asked comes through, and all that is answered comes back."""
        for effect in effects:
            if isinstance(effect, Send):
                self.hear(self.let(effect.message))

    def hear(self, answer):
        kept, more = self.records.answered(answer, NOW)
        self.kept += kept
        self.run(more)

    def asked(self, *changes):
        """What goes out for these, and no further."""
        (send,) = self.records.keep(list(changes), NOW)
        return send.message

    def value(self, key):
        return self.let(Transact(0, (), (Read(key),))).read[0][0].value


def change(ticket, value, key=LEDGER):
    return Change(ticket, key, value)


def test_what_there_is_is_read_before_anything_is_changed():
    bench = Bench()
    assert bench.records.complete
    assert bench.records.values == {CLUSTER: b"c", LEDGER: b"v0"}


def test_a_change_is_kept_once_it_is_answered():
    bench = Bench()
    bench.run(bench.records.keep([change(1, b"v1")], NOW))
    assert (bench.kept, bench.value(LEDGER)) == ([change(1, b"v1")], b"v1")


def test_a_change_of_who_leads_no_more_does_nothing_though_no_record_has_changed():
    bench = Bench()
    asked = bench.asked(change(1, b"v1"))
    bench.let(Transact(0, (), (PutKey(LEADER, b"two"),)))
    bench.hear(bench.let(asked))
    assert bench.records.deposed == "another leads"
    assert (bench.kept, bench.value(LEDGER)) == ([], b"v0")


def test_a_change_that_was_asked_twice_is_done_once_and_never_after_a_later_one():
    bench = Bench()
    first = bench.asked(change(1, b"v1"))
    bench.hear(bench.let(first))
    bench.run(bench.records.keep([change(2, b"v2")], NOW))
    assert not bench.let(first).succeeded  # the copy that was under way all the time
    assert bench.value(LEDGER) == b"v2"


def test_a_change_whose_answer_was_lost_is_found_to_be_done():
    bench = Bench()
    bench.let(bench.asked(change(1, b"v1")))  # its answer is lost
    assert not bench.records.tick(NOW)
    (again,) = bench.records.tick(later(NOW, ANSWER))
    bench.hear(bench.let(again.message))
    assert (bench.kept, bench.records.deposed) == ([change(1, b"v1")], "")
    bench.run(bench.records.keep([change(2, b"v2")], NOW))
    assert bench.value(LEDGER) == b"v2"


def test_a_record_that_somebody_else_changed_ends_the_lead_and_is_named():
    bench = Bench()
    bench.let(Transact(0, (), (PutKey(LEDGER, b"strange"),)))
    bench.run(bench.records.keep([change(1, b"v1")], NOW))
    assert bench.records.deposed == "the record 'ledger' was changed by somebody else"
    assert bench.value(LEDGER) == b"strange"


def test_a_prefix_that_was_founded_anew_takes_no_change():
    bench = Bench()
    bench.let(Transact(0, (), (PutKey(CLUSTER, b"another"),)))
    bench.run(bench.records.keep([change(1, b"v1")], NOW))
    assert bench.records.deposed
    assert bench.value(LEDGER) == b"v0"


def test_what_comes_while_one_is_under_way_goes_with_the_next():
    bench = Bench()
    first = bench.asked(change(1, b"v1"))
    homes = [change(number, b"h", f"{HOMES}q{number}") for number in range(2, 252)]
    for one in homes:
        assert not bench.records.keep([one], NOW)
    before = bench.model.state.revision
    bench.hear(bench.let(first))
    assert bench.kept == [change(1, b"v1"), *homes]
    assert bench.model.state.revision - before == 4  # the first, and a hundred at a time


def test_thousands_of_homes_are_read_in_pages():
    bench = Bench()
    names = [f"{HOMES}q{number:04}" for number in range(1_200)]
    for at in range(0, len(names), 100):
        bench.let(Transact(0, (), tuple(PutKey(name, b"h") for name in names[at : at + 100])))
    bench.records = Records(b"one", count(1_000))
    bench.run(bench.records.read(NOW))
    assert [key for key in bench.records.values if key.startswith(HOMES)] == names


@pytest.mark.parametrize("trouble", [Trouble.FULL, Trouble.REFUSED, Trouble.UNKNOWN])
def test_what_etcd_does_not_take_is_asked_again_and_a_reason_is_said(trouble):
    bench = Bench()
    asked = bench.asked(change(1, b"v1"))
    kept, said = bench.records.answered(EtcdFailed(asked.number, trouble, "no space"), NOW)
    assert not kept
    assert [type(one) for one in said] == ([] if trouble is Trouble.UNKNOWN else [Note])
    bench.run(bench.records.tick(later(NOW, ANSWER)))
    assert bench.kept == [change(1, b"v1")]


def test_an_answer_to_something_else_changes_nothing():
    bench = Bench()
    asked = bench.asked(change(1, b"v1"))
    other = Transacted(asked.number + 77, 9, True, ((Row(LEDGER, b"", 1),),))
    assert bench.records.answered(other, NOW) == ((), [])
    bench.hear(bench.let(asked))
    assert bench.kept == [msgspec.structs.replace(change(1, b"v1"))]
