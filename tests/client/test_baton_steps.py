"""What a want and a hold ask, and what they make of each answer; without a node."""

from collections import deque
from typing import Any

import pytest

from snowmelt.client.baton.steps import AcquireRequest, BatonHold, CurrentNode, keep_many
from snowmelt.client.connection.steps import run
from snowmelt.core.errors import (
    BadOption,
    BatonLost,
    MachineError,
    NotGranted,
    OutcomeUnknown,
    SnowmeltError,
    TooLarge,
    Unreachable,
)
from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.names import Address, NodeId, contact
from snowmelt.protocols.baton.calls import (
    POLL,
    Acquire,
    Granted,
    HeldAt,
    Holding,
    Queued,
    Release,
    Released,
    Renew,
    Renewed,
    RenewedMany,
    RenewMany,
    SaveValue,
    ValueSaved,
)
from snowmelt.protocols.membership import Member, Status, View
from snowmelt.runtime.clock import steady_now

HERE = Address("127.0.0.1", 1)
LEASE = seconds(5)
WHERE = HeldAt(NodeId("n1"), 1, HERE)
VIEW = View(1, 1, NodeId("n1"), (Member(NodeId("n1"), HERE, 1, 1),))
STATUS = Status(NodeId("n1"), "current", VIEW, {})
GOT = b"before"
GRANTED = Granted(7, 3, GOT, LEASE, WHERE)


class Script:
    """A node that gives these answers, one after the other, and notes what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self._answers = deque(answers)
        self.asked: list[Any] = []

    def call(self, body: Any, timeout: float, *_: Any) -> Any:
        assert timeout < 10
        self.asked.append(body)
        answer = self._answers.popleft()
        if callable(answer):
            answer = answer()
        if isinstance(answer, SnowmeltError):
            raise answer
        return answer


def held(lease: Duration = LEASE, asked: Instant | None = None) -> BatonHold:
    granted = Granted(7, 3, GOT, lease, WHERE)
    return BatonHold("index", 11, granted, steady_now() if asked is None else asked)


def test_a_want_asks_the_same_node_under_the_same_ticket_until_it_is_granted() -> None:
    node = Script(STATUS, Queued(), STATUS, Queued(), STATUS, GRANTED)
    hold = run(node, AcquireRequest(CurrentNode(), "index", 30.0).granted())
    asked = [body for body in node.asked if isinstance(body, Acquire)]
    assert len({one.ticket for one in asked}) == 1
    assert all(one.wait == POLL for one in asked)
    assert (hold.fence, hold.made, hold.value) == (7, 3, b"before")
    assert 4.5 < hold.seconds_left <= 5


def test_a_home_that_is_cut_off_is_left_for_the_one_that_decides() -> None:
    there = Address("127.0.0.1", 2)
    view = View(1, 4, NodeId("n1"), (*VIEW.members, Member(NodeId("n2"), there, 1, 1)))
    home = CurrentNode()
    assert run(Script(Status(NodeId("n2"), "current", view, {})), home.target()) == contact(there)
    assert run(Script(), home.target()) == contact(there)
    assert run(Script(Status(NodeId("n2"), "cut off", view, {})), home.find()) == contact(HERE)


def test_a_home_that_is_known_is_asked_at_once() -> None:
    home = CurrentNode()
    run(Script(STATUS, GRANTED), AcquireRequest(home, "index", 30.0).granted())
    run(Script(GRANTED), AcquireRequest(home, "index", 30.0).granted())


def test_a_want_that_is_not_granted_gives_up_its_place() -> None:
    node = Script(STATUS, Queued(), Released())
    want = AcquireRequest(CurrentNode(), "index", 0.0)
    with pytest.raises(NotGranted, match=r"no turn within 0 s at baton 'index'$") as raised:
        run(node, want.granted())
    assert isinstance(raised.value, TimeoutError)
    assert raised.value.exit_code == 4
    _, acquire, release = node.asked
    assert (release.ticket, release.fence, release.value) == (acquire.ticket, 0, None)
    assert not want.open


def test_a_place_that_could_not_be_given_up_is_known_to_be_open() -> None:
    want = AcquireRequest(CurrentNode(), "index", 0.0)
    with pytest.raises(NotGranted, match="silence"):
        run(Script(STATUS, OutcomeUnknown("silence"), OutcomeUnknown("silence")), want.granted())
    assert want.open


def test_nobody_there_is_said_so() -> None:
    with pytest.raises(Unreachable, match="nobody"):
        run(Script(Unreachable("nobody")), AcquireRequest(CurrentNode(), "index", 0.0).granted())


def test_a_grant_that_nobody_heard_of_is_asked_for_anew_under_another_ticket() -> None:
    node = Script(STATUS, OutcomeUnknown("silence"), STATUS, BatonLost("over"), STATUS, GRANTED)
    assert run(node, AcquireRequest(CurrentNode(), "index", 30.0).granted()).fence == 7
    first, second, third = (body.ticket for body in node.asked if isinstance(body, Acquire))
    assert first == second != third


def test_a_grant_that_came_late_is_renewed_before_it_is_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = [0]
    monkeypatch.setattr(
        "snowmelt.client.baton.steps.steady_now", lambda: later(steady_now(), Duration(ahead[0]))
    )

    def granted_late() -> Granted:
        ahead[0] += seconds(4.9)
        return GRANTED

    node = Script(STATUS, granted_late, Renewed(LEASE))
    hold = run(node, AcquireRequest(CurrentNode(), "index", 30.0).granted())
    assert isinstance(node.asked[-1], Renew)
    assert hold.until > later(steady_now(), seconds(9))


def test_the_lease_counts_from_when_it_was_asked_for() -> None:
    hold = held(asked=later(steady_now(), Duration(-seconds(6))))
    assert hold.seconds_left == 0
    with pytest.raises(BatonLost, match="'index' could not be renewed before its lease was over"):
        hold.check()
    run(Script(), hold.keep())  # it asks nobody any more
    assert hold.lost


def test_what_is_over_stays_over_whatever_comes_late() -> None:
    hold = held()

    def lost_meanwhile() -> Renewed:
        hold.lose("first")
        return Renewed(LEASE)

    run(Script(lost_meanwhile), hold.keep())
    hold.lose("second")
    with pytest.raises(BatonLost, match=r"^first$"):
        hold.check()


def test_silence_loses_nothing_before_the_lease_is_over() -> None:
    hold = held()
    assert not run(Script(OutcomeUnknown("silence")), hold.keep())
    hold.check()
    assert run(Script(BatonLost("another's")), hold.keep())
    with pytest.raises(BatonLost, match="another's"):
        hold.check()


@pytest.mark.parametrize(
    ("does", "changed", "passed"),
    [
        ([], True, None),
        ([], False, None),
        (["set"], True, b"set"),
        (["set"], False, None),
        (["save"], True, b"saved"),
        (["save"], False, b"saved"),
        (["save", "set"], True, b"set"),
        (["save", "set"], False, b"saved"),
        (["set", "save"], True, b"saved"),
        (["set", "put back"], True, None),
        (["save", "put back"], True, b"before"),
        (["save", "put back"], False, b"saved"),
        (["fail"], True, b"before"),
        (["fail"], False, b"before"),
        (["save", "fail"], True, b"saved"),
        (["save", "set", "fail"], False, b"saved"),
        (["break off"], True, b"before"),
        (["break off"], False, b"before"),
        (["save", "break off"], False, b"saved"),
    ],
)
def test_what_is_passed_on(does: list[str], changed: bool, passed: bytes | None) -> None:
    hold = held()
    for one in does:
        match one:
            case "set":
                hold.set_value(b"set")
            case "put back":
                hold.set_value(bytes(bytearray(GOT)))  # the same, and another object
            case "save":
                run(Script(ValueSaved()), hold.save(b"saved", 5.0))
            case "fail":
                with pytest.raises(MachineError, match="full"):
                    run(Script(MachineError("the disk is full")), hold.save(b"failed", 5.0))
            case _:  # as a task that is cancelled: nobody hears what came of it
                saving = hold.save(b"broken off", 5.0)
                next(saving)
                saving.close()
    node = Script(Released())
    run(node, hold.release(changed=changed))
    assert node.asked == [Release("index", 11, 7, WHERE, passed)]
    with pytest.raises(BatonLost, match="'index' was given up already"):
        run(Script(), hold.release())
    assert not hold.lost


def test_a_save_is_asked_again_and_ends_in_time() -> None:
    hold = held()
    node = Script(OutcomeUnknown("silence"), ValueSaved())
    run(node, hold.save(b"x", 5.0))
    assert node.asked == [SaveValue("index", 11, 7, WHERE, b"x", 1)] * 2
    with pytest.raises(OutcomeUnknown):
        run(Script(OutcomeUnknown("silence")), hold.save(b"y", 0.0))
    assert hold.value == b"x"


def test_a_value_that_can_not_travel_is_refused_and_harms_nothing() -> None:
    hold = held()
    with pytest.raises(TooLarge, match="at most 1048576 can travel"):
        hold.set_value(bytes(2_000_000))
    with pytest.raises(BadOption, match="bytes, bytearray or memoryview"):
        hold.set_value("text")  # type: ignore[arg-type]
    with pytest.raises(TooLarge):
        run(Script(), hold.save(bytes(2_000_000), 1.0))
    assert hold.value == b"before"
    hold.check()


def test_a_release_that_nobody_could_be_told_of_is_a_loss() -> None:
    hold = held()
    with pytest.raises(BatonLost, match="could not be given up before its lease was over"):
        run(Script(Unreachable("nobody")), hold.release())
    assert hold.lost


def test_an_empty_value_is_put_back_as_any_other() -> None:
    hold = BatonHold("index", 11, Granted(7, 3, b"", LEASE, WHERE), steady_now())
    run(Script(ValueSaved()), hold.save(b"x", 5.0))
    hold.set_value(b"")
    node = Script(Released())
    run(node, hold.release())
    assert node.asked[0].value == b""


def test_of_two_saves_at_a_time_the_later_one_counts() -> None:
    hold = held()
    first, second = hold.save(b"first", 5.0), hold.save(b"second", 5.0)
    asked = [next(first).body, next(second).body]  # type: ignore[union-attr]
    assert [one.number for one in asked] == [1, 2]
    for saving in (second, first):
        with pytest.raises(StopIteration):
            saving.send(ValueSaved())
    assert hold.value == b"second"


def test_a_release_that_was_broken_off_is_said_again_as_it_was() -> None:
    hold = held()
    hold.set_value(b"done")
    releasing = hold.release()
    first = next(releasing)
    releasing.close()
    assert not hold.settled
    node = Script(Released())
    run(node, hold.give_back())
    assert [first.body] == node.asked  # type: ignore[union-attr]
    run(Script(), hold.give_back())  # and nobody is asked a third time
    with pytest.raises(BatonLost, match="was given up already"):
        hold.check()


def test_what_nobody_has_any_more_goes_on_as_by_a_holder_that_failed() -> None:
    hold = held()
    hold.set_value(b"half done")
    node = Script(OutcomeUnknown("silence"))
    run(node, hold.give_back())
    assert node.asked == [Release("index", 11, 7, WHERE, None)]
    assert hold.settled


def test_a_want_that_a_child_goes_on_with_gives_the_child_nothing() -> None:
    want = AcquireRequest(CurrentNode(), "index", 30.0)
    want._origin._forks -= 1  # as in a child of the process that asked
    hold = run(Script(STATUS, GRANTED), want.granted())
    with pytest.raises(BatonLost, match="is held by the process that this one was forked from"):
        hold.check()


def test_many_are_renewed_by_one_call_and_each_that_is_lost_says_why() -> None:
    holds = [held() for _ in range(3)]
    holds[1].lose("before")
    later_lease = RenewedMany(seconds(9), ((1, "another has it"),))
    node = Script(later_lease)
    assert run(node, keep_many(holds))
    assert node.asked == [RenewMany((Holding("index", 11, 7),) * 2, WHERE)]
    assert holds[0].seconds_left > 8
    for one, why in ((holds[1], "before"), (holds[2], "baton 'index' is lost: another has it")):
        with pytest.raises(BatonLost, match=why):
            one.check()
    assert not run(Script(OutcomeUnknown("silence")), keep_many(holds))
    holds[0].check()
    assert run(Script(BatonLost("its node is gone")), keep_many(holds))
    with pytest.raises(BatonLost, match="its node is gone"):
        holds[0].check()
