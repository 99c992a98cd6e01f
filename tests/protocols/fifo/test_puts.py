"""One verdict for each put, however many nodes offer it, and whatever becomes of them."""

from random import Random
from typing import Any

import msgspec
import pytest
from master_bench import KEEPERS, MEMBERS, OTHER, OWN, THIRD, Bench

from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.fifo.admission import AGE_MAX
from snowmelt.protocols.fifo.calls import Changed, Purge
from snowmelt.protocols.fifo.journal import Copyist
from snowmelt.protocols.fifo.limits import Limits
from snowmelt.protocols.fifo.messages import Admit, Admitted, Entry, Verdict
from snowmelt.protocols.fifo.records import KeptStream
from snowmelt.protocols.fifo.streams import Presence, keeper_of, stream_of
from snowmelt.protocols.membership import Member, View

SECOND = 10**9
RESTARTED = Member(NodeId("n2"), MEMBERS[1].address, birth=1, start=2)
REBORN = Member(NodeId("n2"), MEMBERS[1].address, birth=2, start=2)


def full(**more: Any) -> Bench:
    """A queue of two items at most, which has them."""
    bench = Bench(items_max=2, **more)
    bench.journal.mirrors = {KEEPERS[1]: Copyist(2**62)}  # who has all steps, should it be asked
    bench.offer(0, 2, THIRD, producer="before")
    bench.flush()
    bench.sent.clear()
    return bench


def wait(bench: Bench, first: int, stream: str, number: int = 7, **more: Any) -> None:
    """A node offers one item of the put with this number."""
    more = {"patience": 10 * SECOND, "caller": "a", "turn": 1, **more}
    bench.offer(first, first + 1, stream, sequence=number, **more)
    bench.flush()


def view(bench: Bench, *members: Member) -> None:
    """Others are here now."""
    bench.desk.set_presence(Presence(View(2, 1, NodeId("n1"), members)))
    bench.master.repair.viewed()
    bench.flush()


def make_room(bench: Bench) -> None:
    changed = bench.ask(bench.master.purge, Purge("q"))
    assert isinstance(changed, Changed)


def verdicts(bench: Bench) -> list[tuple[str, int, str]]:
    """What was told of whom since this was asked last: put, repeated, or an error."""
    told = [message for _, message in bench.sent if isinstance(message, Admitted)]
    bench.sent.clear()
    return [(some.stream, one.first, _word(one)) for some in told for one in some.verdicts]


def _word(verdict: Verdict) -> str:
    word = verdict.error or ("repeated" if verdict.repeated else "put")
    assert verdict.dropped == (word != "put")
    return word


# --- nodes that come and go -----------------------------------------------------------------------


def test_what_a_node_offered_before_it_restarted_is_never_taken() -> None:
    """It may have erased it: what waits is not in the list of what it is to keep."""
    bench = full()
    wait(bench, 0, OTHER)
    view(bench, MEMBERS[0], RESTARTED, MEMBERS[2])
    make_room(bench)
    assert (bench.queue.tail, verdicts(bench)) == (2, [])
    wait(bench, 2, THIRD)  # its client asks again, elsewhere
    assert verdicts(bench) == [(THIRD, 2, "put")]
    assert [lane.keepers for run in bench.queue.runs for lane in run.lanes] == [KEEPERS]
    wait(bench, 0, OTHER)  # a late word of that run
    assert verdicts(bench) == []
    wait(bench, 5, stream_of(RESTARTED))
    assert verdicts(bench) == [(stream_of(RESTARTED), 5, "repeated")]


def test_a_node_that_was_only_away_is_heard_when_it_is_back() -> None:
    bench = full()
    wait(bench, 0, OTHER)
    wait(bench, 2, THIRD, number=8)
    view(bench, MEMBERS[0], MEMBERS[2])
    make_room(bench)
    assert verdicts(bench) == [(THIRD, 2, "put")]
    view(bench, *MEMBERS)
    wait(bench, 0, OTHER)  # offered again
    assert verdicts(bench) == [(OTHER, 0, "put")]


def test_of_those_who_offer_one_put_a_living_one_is_taken() -> None:
    bench = full()
    wait(bench, 0, OTHER)
    wait(bench, 2, THIRD)
    view(bench, MEMBERS[0], RESTARTED, MEMBERS[2])
    make_room(bench)
    assert verdicts(bench) == [(THIRD, 2, "put")]


def test_an_attempt_whose_copies_were_lost_waits_until_they_are_made_again() -> None:
    bench = full(replicas=3)
    wait(bench, 2, THIRD, keepers=(KEEPERS[2], KEEPERS[1]))
    wait(bench, 3, THIRD, number=8, keepers=(KEEPERS[2], KEEPERS[0]))
    view(bench, MEMBERS[0], REBORN, MEMBERS[2])
    make_room(bench)
    assert verdicts(bench) == [(THIRD, 3, "put")]  # it waits for nobody's copies but its own
    wait(bench, 4, THIRD, number=9, keepers=(KEEPERS[2], KEEPERS[0]))
    assert verdicts(bench) == [(THIRD, 4, "put")]  # nor does who comes later
    make_room(bench)
    wait(bench, 2, THIRD, keepers=(KEEPERS[2],))
    assert verdicts(bench) == []
    wait(bench, 2, THIRD, keepers=(KEEPERS[2], keeper_of(REBORN)))
    assert verdicts(bench) == [(THIRD, 2, "put")]


def test_what_waits_and_finds_no_room_on_its_disk_is_not_taken() -> None:
    bench = full()
    wait(bench, 0, OWN, keepers=KEEPERS[:1])
    bench.master.admission.unstored(OWN, 0)
    make_room(bench)
    assert (bench.queue.tail, verdicts(bench)) == (2, [])


# --- one put, many attempts -----------------------------------------------------------------------


def test_a_put_waits_once_however_many_nodes_offer_it() -> None:
    bench = full()
    wait(bench, 0, OTHER)
    wait(bench, 2, THIRD)
    wait(bench, 0, OWN)
    assert len(bench.master.waiting.puts) == 1
    make_room(bench)
    assert sorted(verdicts(bench)) == [
        (OWN, 0, "repeated"),
        (OTHER, 0, "put"),
        (THIRD, 2, "repeated"),
    ]
    assert bench.queue.alive.total == 1


def test_when_patience_ends_all_attempts_are_refused_and_so_are_late_ones() -> None:
    """Three nodes without a fault did it: refused by one, and taken by another half a second on."""
    bench = full()
    wait(bench, 0, OTHER)
    bench.pass_time(9)
    wait(bench, 2, THIRD)  # of the same turn: it has no patience of its own
    bench.pass_time(1)
    bench.collect()
    assert verdicts(bench) == []  # not before it is safe
    bench.flush()
    assert verdicts(bench) == [(OTHER, 0, "Full"), (THIRD, 2, "Full")]
    make_room(bench)
    for one in (bench, bench.crashed()):
        wait(one, 0, OWN)
        wait(one, 2, THIRD)  # its answer was lost
        wait(one, 3, THIRD, turn=0)
        expected = [(OWN, 0, "Full"), (THIRD, 2, "Full"), (THIRD, 3, "Full")]
        assert (verdicts(one), one.queue.tail) == (expected, 2)


def test_an_attempt_too_many_is_refused_for_good_though_there_be_room_for_its_last_offer() -> None:
    """Its node has dropped it; it was taken when its offer came twice, and was lost."""
    bench = full(limits=Limits(attempts=1))
    wait(bench, 0, OTHER)
    wait(bench, 2, THIRD, caller="b")
    assert verdicts(bench) == [(THIRD, 2, "OutcomeUnknown")]
    bench.pass_time(10)
    bench.flush()
    assert verdicts(bench) == [(OTHER, 0, "Full")]
    make_room(bench)
    for one in (bench, bench.crashed()):
        wait(one, 2, THIRD, caller="b")
        assert (verdicts(one), one.queue.tail) == ([(THIRD, 2, "OutcomeUnknown")], 2)
        wait(one, 3, THIRD, caller="b", turn=2)
        assert verdicts(one) == [(THIRD, 3, "put")]


def test_a_batch_that_could_not_be_staged_is_not_staged_by_its_last_offer() -> None:
    """As above: its node was told to drop it."""
    bench = Bench(limits=Limits(staged=1))
    bench.stage(0, 1)
    bench.stage(4, 5)
    bench.flush()
    assert verdicts(bench) == [(OTHER, 0, "put"), (OTHER, 4, "Full")]
    bench.pass_time(2)
    bench.flush()
    assert len(bench.queue.staged) == 0
    bench.stage(4, 5)
    bench.flush()
    assert (verdicts(bench), len(bench.queue.staged)) == ([(OTHER, 4, "OutcomeUnknown")], 0)


def test_who_is_refused_may_try_again_under_the_same_number() -> None:
    bench = full()
    wait(bench, 0, OTHER, patience=0)
    assert verdicts(bench) == [(OTHER, 0, "Full")]
    wait(bench, 1, OTHER, turn=2)
    bench.pass_time(9)
    wait(bench, 2, OTHER, turn=3, patience=5 * SECOND)  # this counts now, for all of them
    bench.pass_time(4)
    bench.flush()
    assert verdicts(bench) == []
    make_room(bench)
    assert verdicts(bench) == [(OTHER, 1, "put"), (OTHER, 2, "repeated")]
    wait(bench, 0, OWN)
    assert verdicts(bench) == [(OWN, 0, "repeated")]


def test_another_program_of_the_same_name_may_try_what_the_first_was_refused() -> None:
    bench = full()
    wait(bench, 0, OTHER, patience=0, turn=50)
    make_room(bench)
    wait(bench, 1, OTHER, caller="b")
    assert verdicts(bench) == [(OTHER, 0, "Full"), (OTHER, 1, "put")]


def test_an_impatient_try_ends_the_wait_of_the_one_before() -> None:
    bench = full()
    wait(bench, 0, OTHER)
    wait(bench, 2, THIRD, turn=2, patience=0)
    assert verdicts(bench) == [(OTHER, 0, "Full"), (THIRD, 2, "Full")]


def test_what_stands_behind_a_large_one_is_taken_when_that_one_is_refused() -> None:
    bench = Bench(items_max=4)
    bench.offer(0, 2, THIRD)
    bench.offer(0, 3, OTHER, sequence=7, patience=SECOND, caller="a")
    wait(bench, 3, OTHER, number=8)
    bench.sent.clear()
    bench.pass_time(1)
    bench.flush()
    assert verdicts(bench) == [(OTHER, 0, "Full"), (OTHER, 3, "put")]


def test_an_attempt_is_taken_when_the_one_it_repeats_found_no_room_on_the_disk() -> None:
    bench = Bench()
    bench.offer(0, 1, OWN, keepers=KEEPERS[:1])
    bench.offer(0, 1, OTHER)
    bench.write()
    bench.master.admission.unstored(OWN, 0)
    bench.flush()
    assert verdicts(bench) == []
    bench.offer(0, 1, OTHER)  # again, since it heard nothing
    bench.flush()
    assert verdicts(bench) == [(OTHER, 0, "put")]
    assert [lane.keepers for run in bench.queue.runs for lane in run.lanes] == [KEEPERS]


def test_all_puts_on_their_way_may_find_no_room_on_the_disk_however_many_they_are() -> None:
    """Of the first of them it is not remembered any more where they went, or that they were."""
    bench = Bench(limits=Limits(producer_gaps=4, producer_recent=2))
    for number in range(20):
        bench.offer(number, number + 1, OWN, sequence=3 * number, keepers=KEEPERS[:1])
    bench.write()
    for number in range(20):
        bench.master.admission.unstored(OWN, number)
    bench.flush()
    bench.master.check()
    assert (verdicts(bench), bench.queue.alive.total, bench.queue.bytes) == ([], 0, 0)


class Play:
    """Clients that ask several nodes, nodes that restart, masters that crash; and what was told."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.members = list(MEMBERS)
        self.bench = Bench(items_max=2)
        self.tries: list[tuple[str, Entry]] = []
        """What nodes have stored, and have no verdict about."""
        self.indexes: dict[str, int] = {}
        self.turns: dict[int, int] = {}
        self.refused: dict[int, int] = {}
        """By number: the last turn that was told that it was refused."""
        self.put: dict[int, int] = {}
        """By number: the turn that was told that it was put."""
        self.repeated: dict[int, None] = {}

    def step(self) -> None:
        chance = self.chance
        acts = [self.ask, self.ask, self.ask_elsewhere, self.offer, self.offer, self.room]
        acts += [self.flush, self.flush, self.time]
        chance.choice(acts)()
        if chance.random() < 0.05:
            chance.choice((self.restart, self.crash))()
        self.hear()

    def ask(self) -> None:
        """A client puts, or tries again under the same number."""
        number = self.chance.randrange(12)
        self.turns[number] = self.turns.get(number, 0) + 1
        self._store(number)

    def ask_elsewhere(self) -> None:
        if self.turns:
            self._store(self.chance.choice(list(self.turns)))

    def _store(self, number: int) -> None:
        stream = stream_of(self.chance.choice(self.members))
        first = self.indexes.get(stream, 0)
        self.indexes[stream] = first + 1
        patience = self.chance.choice((0, SECOND, 3 * SECOND))
        turn = self.turns[number]
        entry = Entry(first, first + 1, 10, "p", number, 0, patience, KEEPERS, 0, "a", turn)
        self.tries.append((stream, entry))

    def offer(self) -> None:
        here = {stream_of(one) for one in self.members}
        offered = [one for one in self.tries if one[0] in here and self.chance.random() < 0.4]
        for stream, entry in offered:
            firsts = [one.first for other, one in self.tries if other == stream]
            self.bench.master.admission.admit(Admit("q", stream, (entry,), min(firsts)))

    def room(self) -> None:
        self.bench.begin(self.bench.master.purge, Purge("q"))

    def flush(self) -> None:
        self.bench.flush()

    def time(self) -> None:
        self.bench.pass_time(self.chance.random())

    def restart(self) -> None:
        at = self.chance.randrange(len(self.members))
        old = self.members[at]
        self.members[at] = Member(old.id, old.address, birth=1, start=old.start + 1)
        self._view()

    def crash(self) -> None:
        self.bench = self.bench.crashed()
        self._view()

    def _view(self) -> None:
        members = View(2, 1, NodeId("n1"), tuple(self.members))
        self.bench.desk.set_presence(Presence(members))
        self.bench.desk.stream = OWN
        self.bench.master.repair.viewed()

    def hear(self) -> None:
        """No number is both refused and put, or put twice; and what is told as put is so."""
        known = {(stream, entry.first): entry for stream, entry in self.tries}
        for message in [one for _, one in self.bench.sent if isinstance(one, Admitted)]:
            for verdict in message.verdicts:
                entry = known.pop((message.stream, verdict.first), None)
                if entry is not None:
                    self._judged(message.stream, entry, verdict)
        self.bench.sent.clear()

    def _judged(self, stream: str, entry: Entry, verdict: Verdict) -> None:
        number, turn, word = entry.sequence, entry.turn, _word(verdict)
        self.tries.remove((stream, entry))
        if word == "Full":
            self.refused[number] = max(turn, self.refused.get(number, 0))
        elif word == "put":
            assert number not in self.put
            self.put[number] = turn
        else:
            self.repeated[number] = None
        # What was put, or is so by now, was put by a turn that was never refused.
        if number in self.put:
            assert self.put[number] > self.refused.get(number, 0)

    def end(self) -> None:
        """All who still wait hear what became of theirs."""
        for _ in range(200):
            self.offer()
            self.room()
            self.time()
            self.flush()
            self.hear()
        here = {stream_of(one) for one in self.members}
        assert not [one for one in self.tries if one[0] in here]
        known = self.bench.queue.producers
        for number in {**self.repeated, **self.put}:
            assert known.earlier("p", number) is not None


@pytest.mark.parametrize("seed", range(40))
def test_no_put_is_both_refused_and_put_whatever_happens(seed: int) -> None:
    play = Play(seed)
    for _ in range(300):
        play.step()
    play.end()


# --- what is told, and what is remembered ---------------------------------------------------------


def copies(bench: Bench) -> list[int]:
    told = [message for _, message in bench.sent if isinstance(message, Admitted)]
    bench.sent.clear()
    return [one.copies for some in told for one in some.verdicts]


def test_the_copies_that_are_told_are_those_of_what_is_in_the_queue() -> None:
    bench = Bench(replicas=3, durable_copies=1)
    bench.offer(0, 1, THIRD, sequence=7, keepers=KEEPERS[1:])
    bench.flush()
    bench.offer(0, 1, OWN, sequence=7, keepers=KEEPERS)
    bench.flush()
    assert copies(bench) == [2, 2]
    view(bench, MEMBERS[0], REBORN, MEMBERS[2])
    bench.sent.clear()
    bench.offer(1, 2, OWN, sequence=7, keepers=KEEPERS)
    bench.flush()
    assert copies(bench) == [1]
    make_room(bench)
    bench.offer(2, 3, OWN, sequence=7, keepers=KEEPERS)
    bench.flush()
    assert copies(bench) == [0]  # it was taken out meanwhile


def test_what_a_node_asks_for_no_more_is_not_kept() -> None:
    bench = full()
    for first in range(0, 400, 2):  # every other one is refused, so nothing is adjacent
        entry = Entry(first, first + 1, 10, "p", first, 0, 0, KEEPERS, caller="a", turn=first)
        bench.master.admission.admit(Admit("q", OTHER, (entry,), low=max(0, first - 10)))
        bench.flush()
    kept = msgspec.msgpack.decode(bench.written[b"d" + OTHER.encode()], type=KeptStream)
    assert (kept.decided[0], len(kept.decided)) == (Interval(0, 389), 6)
    assert len(kept.refused) == 6
    bench.sent.clear()
    bench.master.admission.admit(Admit("q", OTHER, (entry,), low=400))  # late, and nobody asks
    bench.flush()
    assert verdicts(bench) == []


@pytest.mark.parametrize(("age", "word"), [(AGE_MAX, "put"), (AGE_MAX + 1, "OutcomeUnknown")])
def test_what_is_older_than_memory_may_be_is_not_taken(age: int, word: str) -> None:
    bench = Bench()
    for _ in range(2):
        bench.offer(0, 1, OTHER, age=age)
        bench.flush()
    assert verdicts(bench) == [(OTHER, 0, word)] * 2


def test_a_number_of_which_nothing_is_known_any_more_is_refused() -> None:
    bench = Bench(limits=Limits(producer_gaps=4, producer_recent=2))
    for number in range(10, 60, 5):
        wait(bench, number, OTHER, number=number)
    bench.sent.clear()
    wait(bench, 70, OTHER, number=11)  # never used
    wait(bench, 71, OTHER, number=15)  # put once
    wait(bench, 72, OTHER, number=55)
    wait(bench, 73, OTHER, number=54)
    told = [word for _, _, word in verdicts(bench)]
    assert told == ["SequenceTooOld", "SequenceTooOld", "repeated", "put"]
