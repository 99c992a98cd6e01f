"""The client machine, by comparing what it returns; its rules stand in protocols/calling.py."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import Address, NodeId, OperationId, contact
from snowmelt.core.node import Announced, Expired, Received, Reply, Requested, Send, SetTimer
from snowmelt.core.outcome import Failed, Succeeded, Unknown
from snowmelt.protocols.calling import (
    FIRST_WAIT,
    LONGEST_MOVE,
    LONGEST_WAIT,
    LOST_WAIT,
    STEPS_MAX,
    WAITS,
    Abandoned,
    Answer,
    Ask,
    AskAnother,
    Call,
    Caller,
    CallTimer,
    Declined,
    Elsewhere,
    Lost,
    Moving,
)

TARGETS = [NodeId("n1"), NodeId("n2"), NodeId("n3")]
START = Instant(0)
PATIENCE = seconds(60)
THERE = Elsewhere(NodeId("n9"), Address("n9", 4410))


def operation(number=1):
    return OperationId(NodeId("c1"), number)


def asked(caller, number=1, patience=PATIENCE, now=START, **more):
    return caller.handle(Requested(operation(number), Ask("body", patience, **more)), now)


def answer(caller, body, number=1, now=START, source="n1"):
    return caller.handle(Received(NodeId(source), Answer(number, body)), now)


def fire(caller, effects):
    """Lets the last timer set expire; returns what came of it, and when."""
    at = next(effect.at for effect in reversed(effects) if isinstance(effect, SetTimer))
    return caller.handle(Expired(CallTimer.NEXT), at), at


def test_a_call_goes_to_the_first_target_and_is_asked_again_after_half_a_second():
    effects = asked(Caller(TARGETS, Random(0)))
    assert effects == [
        Send(NodeId("n1"), Call(1, "body")),
        SetTimer(CallTimer.NEXT, later(START, FIRST_WAIT)),
    ]


def test_an_answer_is_a_success_and_a_second_answer_is_nothing():
    caller = Caller(TARGETS, Random(0))
    asked(caller)
    assert answer(caller, "yes") == [Reply(operation(), Succeeded("yes"))]
    assert answer(caller, "yes") == []
    assert answer(caller, Declined("StateError", "no")) == []
    assert answer(caller, THERE) == []
    assert caller.unanswered == 0


def askings(caller, effects, begin, count):
    """After how many milliseconds a call is asked again."""
    times = []
    while len(times) < count:
        effects, now = fire(caller, effects)
        times += [(now - begin) // 10**6 for one in effects if isinstance(one, Send)]
    return times


def slow_before(*took):
    """A call whose client had answers that took so many milliseconds, what came of it, and when."""
    caller, now = Caller(TARGETS, Random(0)), START
    for number, one in enumerate(took, 2):
        asked(caller, number, PATIENCE * 2, now=now)
        now = later(now, milliseconds(one))
        answer(caller, "yes", number, now)
        caller.handle(Expired(CallTimer.NEXT), now)
    return caller, asked(caller, now=now), now


def test_where_answers_take_long_silence_means_nothing_for_longer():
    firsts = {}
    for took in (100, 240, 400, 800, 60_000):
        (firsts[took],) = askings(*slow_before(*[took] * 6), 1)
    missed = sum(WAITS[:3]) // 10**6
    assert firsts == {100: 500, 240: 500, 400: 1_500, 800: missed, 60_000: missed}


def test_gets_that_wait_among_calls_that_do_not_say_nothing_of_the_nodes():
    assert askings(*slow_before(60_000, 60_000), 1) == [500]
    assert askings(*slow_before(*[60_000] * 6), 1) == [3_500]
    assert askings(*slow_before(*[60_000] * 6, 10), 1) == [500]
    assert askings(*slow_before(*[60_000, 60_000, 10] * 6, 60_000), 1) == [500]


def test_who_is_cut_off_and_says_so_is_not_asked_first_again():
    caller = Caller(TARGETS, Random(0))
    for number, (node, after) in enumerate([("n1", "n2"), ("n2", "n3"), ("n3", "n1")], 1):
        asked(caller, number)
        answer(caller, Declined("Unavailable", "no view"), number, source=node)
        sent = asked(caller, number + 9)[0]
        assert sent.target == after
        caller.handle(Announced(Abandoned(operation(number + 9))), START)


@pytest.mark.parametrize("reached", [True, False])
def test_a_refusal_speaks_for_one_to_whom_there_was_no_way(reached):
    caller = Caller(TARGETS, Random(0))
    effects = asked(caller)
    effects = caller.handle(Announced(Lost(NodeId("n1"), reached)), START)
    fire(caller, effects)
    told = answer(caller, Declined("Unavailable", "it waits"), source="n2")
    if reached:
        assert [type(one) for one in told] == [SetTimer]
    else:
        assert told == [Reply(operation(), Failed("Unavailable: it waits"))]


def test_what_waited_long_is_asked_again_round_the_time_when_silence_is_missed():
    first, second, third = askings(*slow_before(*[1_000] * 6), 3)
    assert first == 3_500
    assert 4_200 < second < third < 5_000


def answered_meanwhile(caller, *moments, body="yes", source="n1"):
    """Other calls of the same client, asked at the start, are answered at these milliseconds."""
    for number, _ in enumerate(moments, 2):
        asked(caller, number)
    for number, moment in enumerate(moments, 2):
        answer(caller, body, number, later(START, milliseconds(moment)), source)


def when_asked_again(caller):
    """After how many milliseconds a call is asked again, and whom."""
    effects = caller.handle(Expired(CallTimer.NEXT), later(START, FIRST_WAIT))
    now = FIRST_WAIT
    while not (sent := [one for one in effects if isinstance(one, Send)]):
        effects, now = fire(caller, effects)
    return now // 10**6, sent[0].target


def test_who_answers_other_calls_meanwhile_is_not_silent():
    caller = Caller(TARGETS, Random(0))
    asked(caller)
    answered_meanwhile(caller, 300, 450)
    assert when_asked_again(caller) == (950, "n2")


def test_what_was_lost_on_its_way_to_who_answers_others_is_asked_again_all_the_same():
    caller, found = Caller(TARGETS, Random(0)), []
    asked(caller)
    for turn in range(1, 40):
        number, now = turn + 1, later(START, milliseconds(300 * turn))
        asked(caller, number, now=START)
        answer(caller, "yes", number, now)
        effects = caller.handle(Expired(CallTimer.NEXT), now)
        found += [now for one in effects if isinstance(one, Send) and one.message.number == 1]
    assert LONGEST_WAIT <= found[0] < LONGEST_WAIT + milliseconds(300)


def moving(caller, until, comes, step=400, source="n1"):
    """Parts of a message move for so long; what else came of it, and when."""
    found = []
    for turn in range(1, until // step + 1):
        now = later(START, milliseconds(step * turn))
        caller.handle(Announced(Moving(NodeId(source), comes)), now)
        effects = caller.handle(Expired(CallTimer.NEXT), now)
        found += [(now, one) for one in effects if not isinstance(one, SetTimer)]
    return found


def test_while_bytes_move_nothing_is_asked_again_for_two_minutes_at_most():
    for comes in (True, False):
        caller = Caller(TARGETS, Random(0))
        asked(caller, patience=seconds(600))
        (now, again), *_ = moving(caller, 125_000, comes)
        assert LONGEST_MOVE <= now < LONGEST_MOVE + milliseconds(400)
        assert isinstance(again, Send)
        caller = Caller(TARGETS, Random(0))
        asked(caller)
        (now, again), *_ = moving(caller, 4_000, comes, source="n2")
        assert (now, again.target) == (milliseconds(800), "n2"), "others' bytes say nothing"


def test_what_comes_is_waited_for_beyond_its_time_and_what_goes_is_not():
    for comes, ends in ((True, milliseconds(9_200)), (False, milliseconds(2_000))):
        caller = Caller(TARGETS, Random(0))
        asked(caller, patience=seconds(2))
        moved = moving(caller, 8_400, comes)
        later_on = [
            (at, one)
            for at in (later(START, milliseconds(8_800)), later(START, milliseconds(9_200)))
            for one in caller.handle(Expired(CallTimer.NEXT), at)
        ]
        replies = [(at, one) for at, one in moved + later_on if isinstance(one, Reply)]
        assert [at for at, _ in replies] == [ends]


def test_a_refusal_is_no_sign_of_one_who_works_nor_is_what_another_answered():
    for body, source in ((Declined("Unavailable", "no view"), "n1"), ("yes", "n9")):
        caller = Caller(TARGETS, Random(0))
        asked(caller)
        asked(caller, 2, target=NodeId(source))
        answer(caller, body, 2, later(START, milliseconds(450)), source)
        assert when_asked_again(caller)[0] == 500


def test_who_answered_and_is_lost_since_is_not_waited_for():
    caller = Caller(TARGETS, Random(0))
    asked(caller)
    answered_meanwhile(caller, 450)
    (timer,) = caller.handle(Announced(Lost(NodeId("n1"))), later(START, milliseconds(460)))
    assert timer.at == later(START, milliseconds(470))
    assert fire(caller, [timer])[0][0].target != "n1"


def test_an_answer_nobody_waits_for_is_nothing():
    caller = Caller(TARGETS, Random(0))
    assert answer(caller, "yes") == []
    asked(caller)
    assert answer(caller, "yes", number=2) == []


def test_silence_is_asked_again_after_the_waits_that_are_told_at_the_next_target_in_turn():
    caller = Caller(TARGETS, Random(7))
    effects = asked(caller)
    at, targets = FIRST_WAIT, [effects[0].target]
    for wait in (*WAITS[1:], LONGEST_WAIT, LONGEST_WAIT):
        effects, now = fire(caller, effects)
        assert now == at
        (send, timer) = effects
        targets.append(send.target)
        assert send.message == Call(1, "body")
        assert wait - wait // 8 <= timer.at - now <= wait
        at = timer.at
    assert targets == [TARGETS[turn % 3] for turn in range(10)]


def test_who_goes_on_for_a_stopped_node_is_asked_within_half_a_second():
    """A stopped node is missed after 4.2 s at the latest, and a call takes no more than 5."""
    for seed in range(200):
        caller = Caller(TARGETS, Random(seed))
        effects, asked_at = asked(caller, patience=seconds(60)), [START]
        while asked_at[-1] < seconds(5):
            effects, now = fire(caller, effects)
            asked_at.append(now)
        for others_answer in range(milliseconds(500), milliseconds(4_560), milliseconds(20)):
            told = next(at for at in asked_at if at >= others_answer)
            assert told < seconds(5)


def test_a_lost_way_is_followed_by_the_next_a_little_later_each_time():
    caller = Caller(TARGETS, Random(0))
    effects, now, waits = asked(caller, patience=seconds(60)), START, []
    for _ in range(6):
        target = effects[0].target
        (timer,) = caller.handle(Announced(Lost(target)), now)
        assert caller.handle(Announced(Lost(target)), now) == [timer]  # told twice, lost once
        waits.append(timer.at - now)
        effects, now = fire(caller, [timer])
        assert effects[0].target != target
    assert waits == [milliseconds(wait) for wait in (10, 20, 40, 80, 80, 80)]
    effects, again = fire(caller, effects)  # who is silent then is given as long as ever
    assert again - now > FIRST_WAIT // 2


def test_who_can_not_answer_any_more_is_followed_by_the_next_as_a_lost_way_is():
    caller = Caller(TARGETS, Random(0))
    effects, now, waits = asked(caller, patience=seconds(60)), START, []
    for _ in range(5):
        target = effects[0].target
        (timer,) = answer(caller, AskAnother(), now=now, source=target)
        waits.append(timer.at - now)
        effects, now = fire(caller, [timer])
        assert effects[0].target != target
    assert waits == [milliseconds(wait) for wait in (10, 20, 40, 80, 80)]
    assert answer(caller, "yes", now=now) == [Reply(operation(), Succeeded("yes"))]


def test_a_call_that_waited_long_is_asked_again_at_once_of_another():
    caller = Caller(TARGETS, Random(0))
    effects, now = asked(caller, patience=seconds(600)), START
    while now < seconds(60):
        effects, now = fire(caller, effects)
    (timer,) = answer(caller, AskAnother(), now=now, source=effects[0].target)
    assert timer.at == later(now, LOST_WAIT)


def test_others_refusals_after_that_are_asked_again_soon_and_later_each_time():
    caller = Caller(TARGETS, Random(0))
    asked(caller)
    effects, now = [answer(caller, AskAnother(), now=START)[-1]], START
    waits = []
    for _ in range(8):
        effects, now = fire(caller, effects)
        effects = answer(caller, THERE, now=now, source=effects[0].target)  # who is cut off
        effects = answer(caller, Declined("Unavailable", "no view"), now=now, source="n9")
        waits.append((effects[-1].at - now) // 10**6)
    assert waits == [20, 40, 80, 160, 320, 500, 500, 500]
    assert answer(caller, "yes", now=now) == [Reply(operation(), Succeeded("yes"))]


def test_a_large_body_is_not_sent_again_sooner_than_it_can_be_there():
    caller = Caller(TARGETS, Random(0))
    asked(caller, weight=4 << 20)
    (timer,) = answer(caller, AskAnother(), now=START)
    _, now = fire(caller, [timer])
    (timer,) = answer(caller, Declined("Unavailable", "no view"), now=now, source="n2")
    assert timer.at - now == seconds(1)


def test_when_patience_ends_the_outcome_is_unknown_and_nothing_more_is_sent():
    caller = Caller(TARGETS, Random(0))
    effects, replies, now = asked(caller, patience=seconds(3)), [], START
    while not replies:
        effects, now = fire(caller, effects)
        replies = [effect for effect in effects if isinstance(effect, Reply)]
    assert now == seconds(3)
    assert effects == [Reply(operation(), Unknown("no answer to call 1 in the time given"))]
    assert caller.handle(Expired(CallTimer.NEXT), later(now, seconds(9))) == []


def test_declined_is_a_definite_failure_at_once():
    caller = Caller(TARGETS, Random(0))
    asked(caller)
    assert answer(caller, Declined("DiskFull", "no room")) == [
        Reply(operation(), Failed("DiskFull: no room"))
    ]


def test_elsewhere_is_followed_at_once_and_at_most_eight_times_between_two_retries():
    caller = Caller(TARGETS, Random(0))
    effects = asked(caller)
    for _ in range(STEPS_MAX):
        effects = answer(caller, THERE, now=Instant(5))
        assert effects[0] == Send(contact(THERE.address), Call(1, "body"))
    assert STEPS_MAX == 8
    assert answer(caller, THERE, now=Instant(5)) == []
    effects, now = fire(caller, effects)
    assert effects[0] == Send(NodeId("n2"), Call(1, "body"))  # the retry goes on in turn
    assert answer(caller, THERE, now=now)[0] == Send(contact(THERE.address), Call(1, "body"))


def test_who_answered_is_asked_first_the_next_time():
    caller = Caller(TARGETS, Random(0))
    asked(caller)
    answer(caller, "yes", source="n3")
    assert asked(caller, number=2)[0].target == "n3"


def test_a_call_goes_first_to_its_own_target_and_after_silence_to_the_usual_ones_in_turn():
    caller = Caller(TARGETS, Random(0))
    effects = asked(caller, target=NodeId("n9"))
    assert effects[0] == Send(NodeId("n9"), Call(1, "body"))
    targets = []
    for _ in range(4):
        effects, _ = fire(caller, effects)
        targets.append(effects[0].target)
    assert targets == ["n2", "n3", "n1", "n2"]


def test_a_target_that_is_wrong_says_who_is_right():
    caller = Caller(TARGETS, Random(0))
    asked(caller, target=NodeId("n9"))
    effects = answer(caller, THERE, source="n9")
    assert effects[0] == Send(contact(THERE.address), Call(1, "body"))


def test_what_is_large_is_asked_for_again_when_four_megabytes_a_second_have_passed():
    effects = asked(Caller(TARGETS, Random(0)), weight=16 << 20)
    assert effects[-1].at == later(START, seconds(4.4))


def test_a_first_wait_above_the_longest_does_not_shrink():
    caller = Caller(TARGETS, Random(0))
    effects = asked(caller, weight=64 << 20)
    effects, now = fire(caller, effects)
    assert now == seconds(17.6)
    assert effects[-1].at >= now + seconds(17.6) * 7 // 8


def test_asking_again_under_the_same_id_renews_the_patience_and_sends_nothing_twice():
    caller = Caller(TARGETS, Random(0))
    asked(caller, patience=seconds(1))
    again = asked(caller, patience=seconds(10), now=Instant(milliseconds(400)))
    assert [type(effect) for effect in again] == [SetTimer]
    effects, _ = fire(caller, again)
    effects, now = fire(caller, effects)
    assert now > seconds(1)
    assert not any(isinstance(effect, Reply) for effect in effects)


def test_a_timer_that_fires_late_finds_the_machine_in_order():
    caller = Caller(TARGETS, Random(0))
    asked(caller)
    asked(caller, now=Instant(seconds(2)))  # its timer was due long ago
    caller.check()
    answer(caller, THERE, now=Instant(seconds(3)))
    caller.check()


EVENTS = st.one_of(
    st.tuples(st.just("ask"), st.integers(1, 4), st.integers(0, 4_000)),
    st.tuples(
        st.just("answer"), st.integers(1, 5), st.sampled_from(["yes", "no", "there", "another"])
    ),
    st.tuples(st.just("expire"), st.just(0), st.just(0)),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(EVENTS, st.integers(0, 2_000)), max_size=40))
def test_whatever_comes_in_whatever_order_each_request_is_answered_exactly_once(steps):
    caller = Caller(TARGETS, Random(0))
    bodies = {
        "yes": "yes",
        "no": Declined("StateError", "no"),
        "there": THERE,
        "another": AskAnother(),
    }
    now, owed, timer = START, {}, None  # owed: number -> how many replies are still to come

    def take(effects):
        nonlocal timer
        caller.check()
        for effect in effects:
            if isinstance(effect, Reply):
                owed[effect.operation.number] -= 1
                assert owed[effect.operation.number] == 0
            elif isinstance(effect, SetTimer):
                timer = effect.at

    for (kind, number, extra), wait in steps:
        now = later(now, milliseconds(wait))
        if kind == "ask":
            owed[number] = 1  # asked again while it waits: still one reply
            take(asked(caller, number, milliseconds(extra), now))
        elif kind == "answer":
            take(answer(caller, bodies[extra], number, now))
        else:
            take(caller.handle(Expired(CallTimer.NEXT), now))
    for _ in range(30):
        if caller.unanswered:
            now = max(now, timer)
            take(caller.handle(Expired(CallTimer.NEXT), now))
    assert set(owed.values()) <= {0}


def test_a_lost_way_is_not_waited_for() -> None:
    caller = Caller([NodeId("n1"), NodeId("n2")], Random(0))
    operation = OperationId(NodeId("c1"), 1)
    caller.handle(Requested(operation, Ask("hello", seconds(9))), Instant(0))
    timer = caller.handle(Announced(Lost(NodeId("n1"))), Instant(5))[-1]
    assert isinstance(timer, SetTimer)
    assert timer.at == later(Instant(5), LOST_WAIT)
    again = caller.handle(Expired(CallTimer.NEXT), timer.at)[0]
    assert isinstance(again, Send)
    assert again.target == "n2"


def test_a_call_that_nobody_waits_for_is_not_sent_again() -> None:
    caller = Caller([NodeId("n1"), NodeId("n2")], Random(0))
    operation = OperationId(NodeId("c1"), 1)
    caller.handle(Requested(operation, Ask("hello", seconds(9))), Instant(0))
    assert caller.handle(Announced(Abandoned(operation)), Instant(1)) == []
    assert caller.handle(Expired(CallTimer.NEXT), Instant(FIRST_WAIT)) == []
    assert caller.handle(Received(NodeId("n1"), Answer(1, "hi")), Instant(seconds(1))) == []
    assert caller.unanswered == 0


def test_unavailable_from_a_second_node_does_not_speak_for_the_first() -> None:
    caller = Caller([NodeId("n1"), NodeId("n2")], Random(0))
    operation = OperationId(NodeId("c1"), 1)
    caller.handle(Requested(operation, Ask("hello", seconds(9))), Instant(0))
    caller.handle(Expired(CallTimer.NEXT), Instant(FIRST_WAIT))
    refusal = Answer(1, Declined("Unavailable", "no view"))
    (timer,) = caller.handle(Received(NodeId("n2"), refusal), Instant(seconds(1)))
    assert timer == SetTimer(CallTimer.NEXT, later(Instant(seconds(1)), LOST_WAIT))
    answered = caller.handle(Received(NodeId("n1"), Answer(1, "hi")), Instant(seconds(2)))
    assert answered == [Reply(operation, Succeeded("hi"))]
