"""One verdict for each put that waits for room, however often it is asked for, and by whom."""

from random import Random
from typing import Any

import pytest
from node_bench import NodeBench

from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announced
from snowmelt.protocols.calling import Declined, Gone
from snowmelt.protocols.queue.api.calls import Describe, Get, Purge, Put, PutDone, Settle
from snowmelt.protocols.queue.limits import LIMITS, QueueLimits


def full(limits: QueueLimits = LIMITS) -> NodeBench:
    """A queue of two items at most, which has them."""
    bench = NodeBench(limits)
    bench.open(items_max=2)
    bench.answer(request(0, items=2, producer="before"))
    return bench


def request(
    number: int = 7,
    turn: int = 1,
    patience: float = 10,
    *,
    caller: str = "a",
    items: int = 1,
    producer: str = "p",
) -> Put:
    return Put(
        "q",
        producer,
        number,
        bytes(4 * items + 4),
        b"",
        patience=seconds(patience),
        caller=caller,
        turn=turn,
    )


def make_room(bench: NodeBench) -> None:
    bench.answer(Purge("q"))


def word(answer: Any) -> str:
    """What was told: put, repeated, or an error."""
    if isinstance(answer, Declined):
        return answer.error
    assert isinstance(answer, PutDone)
    return "repeated" if answer.repeated else "put"


def told(bench: NodeBench, *numbers: int) -> list[str]:
    """What was told under these, since it was asked last."""
    return [word(bench.told.pop(one)) if one in bench.told else "" for one in numbers]


# --- one put, many attempts -----------------------------------------------------------------------


def test_a_put_waits_once_however_often_it_is_asked_for() -> None:
    bench = full()
    asked = [bench.ask(request()) for _ in range(3)]
    assert bench.answer(Describe("q")).waiting_puts == 1
    make_room(bench)
    assert told(bench, *asked) == ["put", "repeated", "repeated"]
    assert bench.state.batches.live.total == 1


def test_when_patience_ends_all_attempts_are_refused_and_so_are_late_ones() -> None:
    """Three nodes without a fault did it: refused by one, and taken by another half a second on."""
    bench = full()
    first = bench.ask(request())
    bench.pass_time(9)
    second = bench.ask(request())  # of the same turn: it has no patience of its own
    bench.held = True
    bench.pass_time(1)
    assert told(bench, first, second) == ["", ""]  # not before it is safe
    bench.release()
    assert told(bench, first, second) == ["Full", "Full"]
    make_room(bench)
    for crash in (False, True):
        if crash:
            bench.crash()
        late = bench.ask(request()), bench.ask(request(turn=0))
        bench.ask(request(), first)  # its answer was lost
        assert told(bench, *late, first) == ["Full"] * 3
        assert bench.state.tails[0] == 2


def test_an_attempt_too_many_is_told_that_it_is_not_known() -> None:
    bench = full(QueueLimits(attempts=1))
    first, second = bench.ask(request()), bench.ask(request(caller="b"))
    assert told(bench, second) == ["OutcomeUnknown"]
    bench.pass_time(10)
    assert told(bench, first) == ["Full"]
    make_room(bench)
    assert word(bench.answer(request(caller="b"))) == "put"


def test_who_is_refused_may_try_again_under_the_same_number() -> None:
    bench = full()
    assert word(bench.answer(request(patience=0))) == "Full"
    second = bench.ask(request(turn=2))
    bench.pass_time(9)
    third = bench.ask(request(turn=3, patience=5))  # this counts now, for all of them
    bench.pass_time(4)
    assert told(bench, second, third) == ["", ""]
    make_room(bench)
    assert told(bench, second, third) == ["put", "repeated"]
    assert word(bench.answer(request())) == "repeated"


def test_another_program_of_the_same_name_may_try_what_the_first_was_refused() -> None:
    bench = full()
    assert word(bench.answer(request(patience=0, turn=50))) == "Full"
    make_room(bench)
    assert word(bench.answer(request(caller="b"))) == "put"


def test_an_impatient_try_ends_the_wait_of_the_one_before() -> None:
    bench = full()
    asked = bench.ask(request()), bench.ask(request(turn=2, patience=0))
    assert told(bench, *asked) == ["Full", "Full"]


def test_what_stands_behind_a_large_one_is_taken_when_that_one_is_refused() -> None:
    bench = NodeBench()
    bench.open(items_max=4)
    bench.answer(request(1, items=2))
    asked = bench.ask(request(7, items=3, patience=1)), bench.ask(request(8))
    assert told(bench, *asked) == ["", ""]
    bench.pass_time(1)
    assert told(bench, *asked) == ["Full", "put"]


def test_what_can_never_fit_is_refused_at_once() -> None:
    assert word(full().answer(request(items=3))) == "Full"


def test_nobody_waits_behind_what_nobody_waits_for() -> None:
    bench = full()
    bench.ask(request(7, items=2))
    bench.give(Announced(Gone(NodeId("c-1"))))
    assert bench.answer(Describe("q")).waiting_puts == 0
    token = bench.answer(Get("q", 1, 99, seconds(0))).token
    asked = bench.ask(request(8))
    bench.answer(Settle("q", token, done=(Interval(0, 1),)))
    assert told(bench, asked) == ["put"]


def test_of_what_is_not_in_the_queue_any_more_no_copies_are_told() -> None:
    bench = NodeBench()
    bench.open()
    assert bench.answer(request()).copies == 1
    assert bench.answer(request()).copies == 1
    make_room(bench)
    assert bench.answer(request()).copies == 0


def test_a_number_of_which_nothing_is_known_any_more_is_refused() -> None:
    bench = NodeBench(QueueLimits(producer_gaps=4, producer_recent=2))
    bench.open()
    for number in range(10, 60, 5):
        assert word(bench.answer(request(number))) == "put"
    asked = [bench.ask(request(number)) for number in (11, 15, 55, 54)]  # 11 was never used
    assert told(bench, *asked) == ["SequenceTooOld", "SequenceTooOld", "repeated", "put"]


# --- all of it together ---------------------------------------------------------------------------


class Play:
    """Programs that ask, and ask again, and a leader that crashes; and what was told."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.bench = full()
        self.open: dict[int, Put] = {}
        """Attempts that have no answer yet, by their calls."""
        self.turns: dict[int, int] = {}
        self.refused: dict[int, int] = {}
        """By number: the last turn that was told that it was refused."""
        self.put: dict[int, tuple[int, int]] = {}
        """By number: where it was told to be put, and by which turn."""

    def step(self) -> None:
        acts = [self.try_anew, self.try_anew, self.try_too, self.again, self.again]
        acts += [self.room, self.time, self.flush]
        self.chance.choice(acts)()
        if self.chance.random() < 0.05:
            self.bench.crash(alone=self.chance.random() < 0.5)
        self.hear()

    def try_anew(self) -> None:
        """A program puts, or tries again under the same number."""
        number = self.chance.randrange(12)
        self.turns[number] = self.turns.get(number, 0) + 1
        self._ask(number)

    def try_too(self) -> None:
        """The same try, on another way."""
        if self.turns:
            self._ask(self.chance.choice(list(self.turns)))

    def _ask(self, number: int) -> None:
        put = request(number, self.turns[number], self.chance.choice((0, 1, 3)))
        self.open[self.bench.ask(put)] = put

    def again(self) -> None:
        """Who hears nothing asks again."""
        for call, put in list(self.open.items()):
            if self.chance.random() < 0.4:
                self.bench.ask(put, call)

    def room(self) -> None:
        if self.chance.random() < 0.5:
            self.bench.ask(Purge("q"))

    def time(self) -> None:
        self.bench.pass_time(self.chance.random())

    def flush(self) -> None:
        if self.bench.held:
            self.bench.release()
        self.bench.held = self.chance.random() < 0.7

    def hear(self) -> None:
        """No number is both refused and put, or put twice; and what is told as put is so."""
        for call, put in list(self.open.items()):
            answer = self.bench.told.pop(call, None)
            if answer is None:
                continue
            del self.open[call]
            number = put.sequence
            if word(answer) == "Full":
                self.refused[number] = max(put.turn, self.refused.get(number, 0))
            else:
                where, _ = self.put.setdefault(number, (answer.start, put.turn))
                assert (where, answer.stop) == (answer.start, answer.start + 1)
            if number in self.put and word(answer) == "put":
                assert put.turn > self.refused.get(number, 0)

    def end(self) -> None:
        """All who still wait hear what became of theirs."""
        self.bench.release()
        for _ in range(200):
            self.again()
            self.room()
            self.time()
            self.hear()
        assert not self.open
        for number, (start, _) in self.put.items():
            earlier = self.bench.state.producers.earlier("p", number)
            assert earlier == (start, start + 1)


@pytest.mark.parametrize("seed", range(40))
def test_no_put_is_both_refused_and_put_whatever_happens(seed: int) -> None:
    play = Play(seed)
    for _ in range(300):
        play.step()
    play.end()
    assert play.put
