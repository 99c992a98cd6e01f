"""What is taken, put and acknowledged in one step, on whole nodes: all of it, or nothing."""

from typing import Any

import msgspec
import pytest
from cluster_bench import ClusterBench

from snowmelt.core.batch import Batch
from snowmelt.core.instant import seconds
from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.deletes import Delete
from snowmelt.protocols.queue.api.statuses import ChangeItem
from snowmelt.protocols.queue.messages import words
from snowmelt.protocols.queue.messages.partition_words import Numbers
from snowmelt.protocols.queue.state import transactions
from snowmelt.protocols.queue.state.records import records, restored

HOLD = seconds(60)


class Step:
    """A client with queues on different nodes, and one transaction."""

    def __init__(self, *queues: str, **settings: Any) -> None:
        self.bench = ClusterBench(3)
        self.queues = queues
        for queue in queues:
            self.bench.open(queue, replicas=3, **settings)
        self.number = 7

    def put(self, queue: str, *bodies: bytes) -> None:
        batch = Batch.of(list(bodies))
        put = calls.Put(queue, "other", 1, bytes(batch.offsets), bytes(batch.blob))
        assert isinstance(self.bench.ask("n1", put), calls.PutDone)

    def take(self, queue: str, items: int = 1) -> calls.Settle:
        leased = self.bench.ask("n2", calls.Get(queue, items, 1 << 20, seconds(0)))
        where = [one for part in leased.parts for one in [part.start, part.start + part.count]]
        done = (calls.Interval(where[0], where[-1]),)
        return calls.Settle(queue, leased.token, done, secret=leased.secret)

    def stage(self, queue: str, home: str, *bodies: bytes) -> calls.Share:
        batch = Batch.of(list(bodies))
        put = calls.Put(
            queue, "me", self.number, bytes(batch.offsets), bytes(batch.blob), hold=HOLD, home=home
        )
        receipt = self.bench.ask("n1", put)
        assert isinstance(receipt, calls.Receipt), receipt
        return calls.Share(queue, (receipt,), 0)

    def commit(self, home: str, settles: Any, shares: Any, sources: Any = ()) -> Any:
        return self.bench.ask("n1", self.asks(home, settles, shares, sources))

    def asks(self, home: str, settles: Any, shares: Any, sources: Any = ()) -> calls.Commit:
        patience = seconds(1)
        return calls.Commit(
            home, "me", self.number, tuple(settles), tuple(shares), tuple(sources), patience
        )

    def counts(self, queue: str) -> tuple[int, int, int]:
        """How many are ready, leased, and done."""
        told = self.bench.ask("n3", calls.Describe(queue))
        return told.ready, told.leased, told.done

    def is_over(self) -> bool:
        """Whether nothing is staged, promised, or open anywhere."""
        slots = self.bench.slots.values()
        states = [
            leader.state
            for slot in slots
            if slot.node is not None
            for leader in slot.node._terms.leaders.values()
        ]
        return not any(
            one.staged.items or one.transactions.open or one.transactions.promised for one in states
        )


def leader_of(step: Step, queue: str) -> str:
    return str(step.bench.home(queue).master.partition("/")[0])


def test_all_of_it_happens_over_leaders_of_different_nodes() -> None:
    step = Step("in", "out", "log", "more")
    leaders = {step.bench.home(one).master for one in step.queues}
    assert len(leaders) > 1, "else this shows less than it says"
    step.put("in", b"one", b"two")
    settle = step.take("in")
    shares = [step.stage("out", "in", b"1"), step.stage("log", "in", b"a", b"b")]
    assert step.counts("out") == (0, 0, 0)
    assert step.commit("in", [settle], shares) == calls.Committed(0)
    assert [step.counts(one) for one in step.queues] == [(1, 0, 1), (1, 0, 0), (2, 0, 0), (0, 0, 0)]
    assert step.is_over()


def test_what_is_committed_twice_happens_once() -> None:
    step = Step("in", "out")
    step.put("in", b"one")
    settle, share = step.take("in"), step.stage("out", "in", b"1")
    for _ in range(3):
        assert step.commit("in", [settle], [share]) == calls.Committed(0)
    decided = [(a, b, one) for a, b, one in step.bench.sent if isinstance(one, words.Decided)]
    for source, target, word in decided:
        step.bench.receive(source, target, word)
    step.bench.run(2)
    assert (step.counts("in"), step.counts("out")) == ((0, 0, 1), (1, 0, 0))


def test_nothing_happens_when_a_lease_is_not_held_any_more() -> None:
    step = Step("in", "out", lease=seconds(1))
    step.put("in", b"one")
    settle, share = step.take("in"), step.stage("out", "in", b"1")
    step.bench.run(2)
    told = step.commit("in", [settle], [share])
    assert (told.error, "nothing of this step was done" in told.text) == ("LeaseLost", True)
    assert (step.counts("in"), step.counts("out")) == ((1, 0, 0), (0, 0, 0))
    step.bench.run(70)  # its hold is over: the home is asked, and gives it up
    assert step.is_over()
    assert step.commit("in", [step.take("in")], [share]).error == "NotStaged"
    assert (step.counts("in")[:2], step.counts("out")) == ((0, 1), (0, 0, 0))


def test_a_settled_item_is_not_taken_twice() -> None:
    step = Step("in", "out")
    step.put("in", b"one")
    settle, share = step.take("in"), step.stage("out", "in", b"1")
    assert step.bench.ask("n1", settle) == calls.Settled(0)
    assert step.commit("in", [settle], [share]).error == "LeaseLost"
    assert step.counts("out") == (0, 0, 0)


def test_what_was_staged_waits_for_its_home_for_as_long_as_that_is_away() -> None:
    step = Step("in", "out")
    step.put("in", b"one")
    settle, share = step.take("in"), step.stage("out", "in", b"1")
    step.bench.drops.append(lambda _, __, one: isinstance(one, words.Decided | words.AskDecision))
    assert step.commit("in", [settle], [share]) == calls.Committed(1)
    step.bench.run(200)  # its hold is over for long
    assert step.counts("out") == (0, 0, 0)
    step.bench.drops.clear()
    step.bench.run(2)
    assert (step.counts("in"), step.counts("out")) == ((0, 0, 1), (1, 0, 0))
    assert step.is_over()


@pytest.mark.parametrize("committed", [True, False])
def test_leaders_who_never_hear_each_other_are_told_by_another_node(committed: bool) -> None:
    step = Step(*[f"q{number}" for number in range(6)])
    home, target = [
        next(one for one in step.queues if leader_of(step, one) == leader)
        for leader in ("n2", "n3")  # neither decides on homes: who does hears all who are here
    ]
    cut = {"n2", "n3"}
    share = step.stage(target, home, b"1")
    step.bench.drops.append(lambda source, to, _: {source, to} == cut)
    if committed:
        assert step.commit(home, [], [share]) in (calls.Committed(0), calls.Committed(1))
    step.bench.run(2 if committed else 80)
    assert step.counts(target)[0] == committed
    assert step.is_over()


def test_the_next_leader_of_the_home_does_what_was_decided() -> None:
    step = Step("in", "out")
    step.put("in", b"one")
    settle, share = step.take("in"), step.stage("out", "in", b"1")
    step.bench.drops.append(lambda _, __, one: isinstance(one, words.Decided))
    step.bench.call("n1", step.asks("in", [settle], [share]))
    step.bench.run(0.3)
    for name in ("n1", "n2", "n3"):
        step.bench.kill(name)
    step.bench.drops.clear()
    for name in ("n1", "n2", "n3"):
        step.bench.start(name)
    step.bench.view()
    step.bench.run(5)
    assert (step.counts("in"), step.counts("out")) == ((0, 0, 1), (1, 0, 0))
    assert step.commit("in", [settle], [share]) == calls.Committed(0)
    assert step.is_over()


def test_nothing_is_told_of_a_decision_that_is_not_safe() -> None:
    step = Step("in", "out")
    step.put("in", b"one")
    settle, share = step.take("in"), step.stage("out", "in", b"1")
    for slot in step.bench.slots.values():
        slot.held = True
    step.bench.call("n1", step.asks("in", [settle], [share]))
    step.bench.run(1)
    assert not step.bench.messages("Decided")
    for name in ("n1", "n2", "n3"):
        step.bench.kill(name)
        step.bench.slots[NodeId(name)].held = False
        step.bench.start(name)
    step.bench.view()
    step.bench.run(100)
    assert (step.counts("in"), step.counts("out")) == ((1, 0, 0), (0, 0, 0))
    assert step.is_over()


def test_a_part_waits_for_room_in_its_queue() -> None:
    step = Step("in", "out", items_max=2)
    step.put("in", b"one")
    step.put("out", b"x", b"y")
    settle, share = step.take("in"), step.stage("out", "in", b"1")
    assert step.commit("in", [settle], [share]) == calls.Committed(1)
    assert (step.counts("in"), step.counts("out")) == ((0, 0, 1), (2, 0, 0))
    step.bench.ask("n1", step.take("out"))
    step.bench.run(2)
    assert step.counts("out") == (2, 0, 1)
    assert step.is_over()


def test_a_queue_that_was_deleted_has_no_part() -> None:
    step = Step("in", "out", "log")
    step.put("in", b"one")
    settle = step.take("in")
    shares = [step.stage("out", "in", b"1"), step.stage("log", "in", b"a")]
    step.bench.ask("n1", Delete("out"))
    told = step.bench.ask("n1", step.asks("in", [settle], shares), within=5)
    assert isinstance(told, calls.Committed)
    step.bench.run(5)
    assert (step.counts("in"), step.counts("log")) == ((0, 0, 1), (1, 0, 0))
    assert step.is_over()


def test_what_is_of_a_home_that_was_deleted_is_given_up() -> None:
    step = Step("in", "out")
    step.stage("out", "in", b"1")
    step.bench.ask("n1", Delete("in"))
    step.bench.run(70)
    assert step.counts("out") == (0, 0, 0)
    assert step.is_over()


# --- several sources ------------------------------------------------------------------------------


def promise(step: Step, settle: calls.Settle, home: str) -> Any:
    ask = calls.Promise(settle.queue, "me", step.number, home, (settle,))
    return step.bench.ask("n1", ask)


def test_what_is_taken_from_several_queues_ends_together() -> None:
    step = Step("in", "also", "out", lease=seconds(2))
    step.put("in", b"one")
    step.put("also", b"two")
    settle, other = step.take("in"), step.take("also")
    share = step.stage("out", "in", b"1")
    assert promise(step, other, "in") == calls.Settled(0) == promise(step, other, "in")
    assert step.commit("in", [settle], [share], ["also"]) == calls.Committed(0)
    counts = [step.counts(one) for one in step.queues]
    assert counts == [(0, 0, 1), (0, 0, 1), (1, 0, 0)]
    assert step.is_over()


def test_what_is_promised_does_not_end_before_its_home_has_said_so() -> None:
    step = Step("in", "also", lease=seconds(1))
    step.put("in", b"one")
    step.put("also", b"two")
    settle, other = step.take("in"), step.take("also")
    promise(step, other, "in")
    step.bench.drops.append(lambda _, __, one: isinstance(one, words.Decided))
    assert step.commit("in", [settle], [], ["also"]) == calls.Committed(1)
    assert step.bench.ask("n1", other).error == "LeaseLost"
    for name in ("n1", "n2", "n3"):
        step.bench.kill(name)
        step.bench.start(name)
    step.bench.view()
    step.bench.run(30)
    assert step.counts("also") == (0, 1, 0)
    step.bench.drops.clear()
    step.bench.run(2)
    assert (step.counts("in"), step.counts("also")) == ((0, 0, 1), (0, 0, 1))
    assert step.is_over()


def test_what_is_promised_and_never_decided_goes_back_and_is_not_decided_later() -> None:
    step = Step("in", "also", lease=seconds(30))
    step.put("in", b"one")
    step.put("also", b"two")
    settle, other = step.take("in"), step.take("also")
    promise(step, other, "in")
    step.bench.run(7)
    assert step.counts("also") == (1, 0, 0)
    assert step.commit("in", [settle], [], ["also"]).error == "NotStaged"
    assert step.counts("in") == (0, 1, 0)
    assert step.is_over()


def test_what_is_promised_is_left_alone_by_who_changes_one_item() -> None:
    step = Step("in", "also")
    step.put("in", b"one")
    step.put("also", b"two")
    settle, other = step.take("in"), step.take("also")
    promise(step, other, "in")
    for drop in (False, True):
        assert step.bench.ask("n1", ChangeItem("also", 0, drop)) == calls.Changed(0)
    assert step.commit("in", [settle], [], ["also"]) == calls.Committed(0)
    assert step.counts("also") == (0, 0, 1)


def test_a_home_is_deleted_when_its_steps_are_done() -> None:
    step = Step("in", "also", "out")
    step.put("in", b"one")
    step.put("also", b"two")
    settle, other = step.take("in"), step.take("also")
    share = step.stage("out", "in", b"1")
    promise(step, other, "in")
    kept = step.bench.drops
    kept.append(lambda _, __, one: isinstance(one, words.Decided) and one.to == "also")
    assert step.commit("in", [settle], [share], ["also"]) == calls.Committed(1)
    assert step.counts("out") == (1, 0, 0)
    told = step.bench.ask("n1", Delete("in"), within=5)
    assert (told.error, "decided 1 steps" in told.text) == ("NotEmpty", True)
    step.number = 8
    share = step.stage("out", "in", b"2")
    assert step.commit("in", [], [share]).error == "Full"
    kept.clear()
    step.bench.run(2)
    assert step.bench.ask("n1", Delete("in"), within=5).counted
    step.bench.run(10)
    assert (step.counts("also"), step.counts("out")) == ((0, 0, 1), (1, 0, 0))


def test_a_home_waits_a_moment_for_its_steps_before_it_is_deleted() -> None:
    step = Step("in", "out")
    step.put("in", b"one")
    settle, share = step.take("in"), step.stage("out", "in", b"1")
    step.bench.drops.append(lambda _, __, one: isinstance(one, words.Decided))
    assert step.commit("in", [settle], [share]) == calls.Committed(1)
    step.bench.call("n1", Delete("in"))
    step.bench.run(1)
    assert step.counts("in") == (0, 0, 1)
    step.bench.drops.clear()
    step.bench.run(1)
    assert step.counts("out") == (1, 0, 0)
    assert step.bench.ask("n1", calls.Describe("in")).error == "NoSuchQueue"


def test_a_home_whose_parts_are_never_done_may_be_given_up() -> None:
    step = Step("in", "out", items_max=1)
    step.put("out", b"x")
    assert step.commit("in", [], [step.stage("out", "in", b"1")]) == calls.Committed(1)
    assert step.bench.ask("n1", Delete("in"), within=5).error == "NotEmpty"
    assert step.bench.ask("n1", Delete("in", lost=True), within=5).counted
    step.bench.run(70)
    assert step.is_over()


def test_what_its_client_gave_up_is_not_decided_by_a_call_that_comes_late() -> None:
    step = Step("in", "out")
    share = step.stage("out", "in", b"1")
    late = step.asks("in", [], [share])
    told = step.bench.ask("n1", msgspec.structs.replace(late, give_up=True))
    assert (told.error, "was given up" in told.text) == ("NotStaged", True)
    assert step.bench.ask("n1", late).error == "NotStaged"
    step.bench.run(70)
    assert (step.counts("out"), step.is_over()) == ((0, 0, 0), True)
    step.number = 8
    share = step.stage("out", "in", b"2")
    assert step.commit("in", [], [share]) == calls.Committed(0)
    given_up = msgspec.structs.replace(step.asks("in", [], [share]), give_up=True)
    assert step.bench.ask("n1", given_up) == calls.Committed(0)


def test_so_many_are_open_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "OPEN_MAX", 1)
    step = Step("in", "out", items_max=1)
    step.put("out", b"x")
    assert step.commit("in", [], [step.stage("out", "in", b"1")]) == calls.Committed(1)
    step.number = 8
    told = step.commit("in", [], [step.stage("out", "in", b"2")])
    assert (told.error, "parts are not done yet" in told.text) == ("Full", True)
    step.bench.ask("n1", step.take("out"))
    step.bench.run(2)
    assert step.commit("in", [], [step.stage("out", "in", b"2")]) == calls.Committed(1)


def test_a_part_of_a_lease_is_promised_and_the_rest_stays_as_it_was() -> None:
    step = Step("in", "also", lease=seconds(2))
    step.put("in", b"one")
    step.put("also", b"two", b"three")
    settle, both = step.take("in"), step.take("also", items=2)
    half = calls.Settle("also", both.token, (calls.Interval(0, 1),), secret=both.secret)
    assert promise(step, half, "in") == calls.Settled(0)
    assert promise(step, both, "in").error == "LeaseLost"
    step.number = 8
    assert promise(step, half, "in").error == "LeaseLost"
    step.number = 7
    assert step.commit("in", [settle], [], ["also"]) == calls.Committed(0)
    assert step.counts("also") == (0, 1, 1)
    step.bench.run(3)
    assert step.counts("also") == (1, 0, 1)
    assert step.is_over()


@pytest.mark.parametrize("ask", [
    calls.Commit("in", "me", 1, (calls.Settle("out", 5),), ()),
    calls.Commit("in", "me", 1, (calls.Settle("in", 5), calls.Settle("in", 5)), ()),
    calls.Commit("in", "me", 1, (), (), ("in",)),
    calls.Commit("in", "", 1, (), ()),
    calls.Commit("in", "me", 1, (), (calls.Share("out", (), 0), calls.Share("out", (), 0))),
    calls.Commit("in", "me", 1, (), (), ("no name",)),
    calls.Promise("in", "me", 1, "in", ()),
    calls.Promise("in", "me", -1, "out", ()),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(ask: Any) -> None:
    step = Step("in", "out")
    assert step.bench.ask("n1", ask).error == "BadOption"


@pytest.mark.parametrize("home", ["in", "many/1"])
def test_partitions_have_parts_as_queues_have_and_number_what_comes_in(home: str) -> None:
    step = Step("in")
    step.bench.open("many", replicas=3, partitions=2)
    own = step.stage("in", home, b"first")
    shares = [step.stage("many/0", home, b"a", b"b"), step.stage("many/1", home, b"c"), own]
    parts = "many/0", "many/1", "in"
    assert [step.counts(one)[0] for one in parts] == [0, 0, 0]
    assert step.commit(home, [], shares) == calls.Committed(0)
    assert [step.counts(one)[0] for one in parts] == [2, 1, 1]
    step.put("many/0", b"d")
    assert step.counts("many/0")[0] == 3
    assert step.is_over()


def test_a_part_of_a_partition_is_told_until_it_has_numbers() -> None:
    step = Step("in", "out")
    step.bench.open("many", replicas=3, partitions=2)
    share = step.stage("many/1", "in", b"a")
    step.bench.drops.append(lambda _, __, one: isinstance(one, Numbers))
    lost = len({step.bench.home(one).master for one in ("many/0", "many/1")}) > 1
    assert step.commit("in", [], [share]) == calls.Committed(int(lost))
    step.bench.drops.clear()
    step.bench.run(3)
    assert (step.counts("many/1"), step.is_over()) == ((1, 0, 0), True)


def test_nothing_stays_open_for_a_queue_that_can_have_no_part() -> None:
    step = Step("in")
    step.bench.open("many", replicas=3, partitions=2)
    receipt = calls.Receipt("1", 5, 6, 1)
    for number, queue in enumerate(("many", "many/1", "never")):
        step.number = number
        told = step.bench.ask("n1", step.asks("in", [], [calls.Share(queue, (receipt,), 0)]))
        assert isinstance(told, calls.Committed), told
        step.bench.run(3)
        assert step.is_over(), queue


def test_its_records_tell_all_of_it() -> None:
    step = Step("in", "also", "out")
    step.put("in", b"one")
    step.put("also", b"two")
    settle, other = step.take("in"), step.take("also")
    share = step.stage("out", "in", b"1")
    promise(step, other, "in")
    step.bench.drops.append(lambda _, __, one: isinstance(one, words.Decided))
    step.commit("in", [settle], [share], ["also"])
    for slot in step.bench.slots.values():
        assert slot.node is not None
        for leader in slot.node._terms.leaders.values():
            while leader.copy.head.step % 16:
                leader.state.changed[b"s"] = None
                leader.step()
                step.bench.run(0.1)
            told = restored(leader.home.settings, leader.copy.records)
            assert records(told) == records(leader.state)
    assert NodeId("n1") in step.bench.slots


def test_steps_that_wait_name_only_so_many_batches_together() -> None:
    many = (calls.Receipt("p", 0, 1, 1),) * (transactions.NAMED_MAX // 2)
    share = calls.Share("full", many, 0)
    known = transactions.Transactions({})
    ask = calls.Commit("home", "p", 9, (), (share,))
    for number in range(2):
        assert known.too_many(ask) == ""
        known.keep(("p", number), transactions.OpenTransaction((share,), ()))
    later = transactions.Transactions({})
    for key in list(known.keys()):
        later.restore(key, known.record(key))
    for one in (known, later):
        assert "2 steps whose parts are not done" in one.too_many(ask)
        one.done(("p", 0), "full")
        assert one.too_many(ask) == ""
