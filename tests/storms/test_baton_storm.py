"""Holders, waiters and nodes of real batons are killed and stopped, and no promise is broken.

Beside it: who judges that finds what is wrong, in journals written by hand and in a real run whose
harness lies.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import chaos_runs
from snowmelt_world.storms.baton.guard import Guard, GuardedAct, guarded
from snowmelt_world.storms.baton.journal import BatonLine, BatonStep
from snowmelt_world.storms.baton.judging import judge_batons
from snowmelt_world.storms.baton.queueing import WaitBounds
from snowmelt_world.storms.crowd import ClientLife
from snowmelt_world.storms.events import Happened, StormEvent
from snowmelt_world.storms.family import Judgement
from snowmelt_world.storms.faults import Fault
from snowmelt_world.storms.journals import last, read

SMALL = (
    *("--nodes", "3", "--clients", "4", "--minutes", "0.14"),
    *("--set", "last=16", "--set", "settle=10", "--set", "serve=6"),
    *("--set", "overtaking=2"),  # other tests run beside this one
)


@pytest.mark.wide
def test_fences_order_and_values_are_right_while_anybody_is_killed_or_stopped(
    tmp_path: Path,
) -> None:
    more = ("--seed", "3", "--faults", "kill,stop,fork")
    result = chaos_runs.survives("baton", tmp_path, *SMALL, *more, timeout=110)
    assert sum(result["faults"].values()) >= 2
    counted = result["counted"]
    assert counted["grants"] > 20
    assert counted["values handed on"] > 10
    assert counted["grants judged by the order of asking"] > 5


@pytest.mark.soak
@pytest.mark.parametrize("seed", ["1", "2"])
def test_no_promise_is_broken_whatever_is_done_to_them(tmp_path: Path, seed: str) -> None:
    more = ("--minutes", "1", "--seed", seed)
    result = chaos_runs.survives("baton", tmp_path, *SMALL, *more, timeout=300)
    assert result["counted"]["children that left their parent's hold alone"] >= 1


@pytest.mark.soak
@pytest.mark.parametrize(
    ("plant", "found"),
    [
        ("old", "after worker-"),
        ("fence", "was used by"),
        ("value", "which nobody had left"),
        ("order", "and was granted it before"),
    ],
)
def test_a_harness_that_lies_is_found_out(tmp_path: Path, plant: str, found: str) -> None:
    code, result, _ = chaos_runs.run("baton", tmp_path, *SMALL, "--plant", plant, timeout=110)
    assert code == 20
    assert any(found in broken for broken in result["broken"]), result["broken"]


# --- journals written by hand ---------------------------------------------------------------------

SECOND = 1_000_000_000
BOUNDS = WaitBounds(settle=9, serve=12, overtaking=0.5, timeout=60, late=3)
ONE = ClientLife("worker", 0, 0)
OTHER = ClientLife("worker", 1, 0)


def at(seconds: float) -> int:
    return round(seconds * SECOND)


def hit(
    seconds: float,
    fault: str,
    who: str,
    part: str,
    of: str = "",
    fence: int = 0,
    what: Happened = Happened.BEGINS,
) -> StormEvent:
    """What the storm writes down."""
    return StormEvent(
        at=at(seconds), what=what, fault=Fault(fault), who=who, part=part, of=of, fence=fence
    )


def line(seconds: float, what: BatonStep, fence: int = 0, **more: Any) -> BatonLine:
    return BatonLine(at(seconds), what, "index", fence, **more)


def turn(
    asked: float, granted: float, fence: int, value: str = "", made: int = 1
) -> list[BatonLine]:
    """One that asks, is granted, acts, and leaves a value, in half a second."""
    left = f"{fence}.1"
    return [
        line(asked, BatonStep.ASKED),
        line(granted, BatonStep.GRANTED, fence, made=made, value=value),
        line(granted + 0.2, BatonStep.ACTED, fence, checked=at(granted + 0.1)),
        line(granted + 0.3, BatonStep.RELEASING, fence, value=left),
        line(granted + 0.4, BatonStep.RELEASED, fence, value=left),
    ]


@pytest.fixture
def judged(tmp_path: Path):
    """Judges the lines that some lives wrote, the acts on the file, and what was done to them."""

    def judging(
        *journals: tuple[ClientLife, list[BatonLine]],
        acts: Sequence[GuardedAct] = (),
        events: Sequence[StormEvent] = (),
    ) -> Judgement:
        for life, lines in journals:
            write(tmp_path / f"{life.name}.jsonl", [BatonLine(0, BatonStep.STARTED), *lines])
        write(guarded(tmp_path, "index"), acts)
        write(tmp_path / "events.jsonl", events)
        return judge_batons(tmp_path, [life for life, _ in journals], BOUNDS)

    return judging


def write(path: Path, lines: Sequence[Any]) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in lines))


def test_turns_that_follow_each_other_break_nothing(judged) -> None:
    verdict = judged((ONE, turn(1, 2, 5)), (OTHER, turn(1.5, 2.5, 6, "5.1")))
    assert verdict.broken == []
    assert (verdict.counted["grants"], verdict.counted["values handed on"]) == (2, 1)


def test_an_act_with_a_smaller_fence_after_a_larger_is_told(judged) -> None:
    acts = [GuardedAct(6, ONE.name, 1, 1, 1), GuardedAct(5, OTHER.name, 2, 2, 1)]
    assert len(judged((ONE, []), acts=acts).broken) == 1


def test_a_fence_that_two_have_used_is_told(judged) -> None:
    acts = [GuardedAct(5, ONE.name, 1, 1, 1), GuardedAct(5, OTHER.name, 2, 2, 1)]
    assert "used by worker-0-0 and worker-1-0" in judged((ONE, []), acts=acts).broken[0]


def test_a_fence_that_was_granted_twice_is_told(judged) -> None:
    broken = judged((ONE, turn(1, 2, 5)), (OTHER, turn(1.5, 2.5, 5))).broken
    assert any("was granted to worker-0-0, and to worker-1-0" in one for one in broken)


def test_who_asks_after_a_larger_fence_was_granted_gets_no_smaller_one(judged) -> None:
    verdict = judged((ONE, turn(1, 2, 6, "5.1")), (OTHER, turn(2.1, 2.5, 5)))
    assert any("before that was asked for" in one for one in verdict.broken)


def test_who_heard_late_of_a_grant_may_have_a_smaller_one(judged) -> None:
    stopped = turn(1, 2.6, 5)[:2]  # it heard of it when the other had it already
    late = [*stopped, line(2.7, BatonStep.LOST, 5)]
    verdict = judged((ONE, turn(1, 2.5, 6)), (OTHER, late))
    assert verdict.broken == []
    assert verdict.counted["grants heard of out of order"] == 1
    assert verdict.counted["holders told that it is lost"] == 1


def test_who_is_sure_to_hold_what_another_has_is_told(judged) -> None:
    verdict = judged((ONE, turn(1, 2, 5)), (OTHER, turn(1.5, 2.05, 6, "5.1")))
    assert [one for one in verdict.broken if "was sure to hold" in one]


STOPPED = [
    hit(2.15, "stop", ONE.name, "holder"),
    hit(8.65, "stop", ONE.name, "holder", what=Happened.ENDS),
]
REFUSED = [
    *turn(1, 2, 5)[:2],
    line(8.7, BatonStep.REFUSED, 5, checked=at(2.1)),
    line(8.8, BatonStep.LOST, 5),
]


def test_who_slept_between_check_and_act_is_refused_and_that_is_no_fault(judged) -> None:
    verdict = judged((ONE, REFUSED), (OTHER, turn(1.5, 7.2, 6)), events=STOPPED)
    assert verdict.broken == []
    assert verdict.counted["acts refused to who had slept"] == 1
    assert verdict.counted["longest that nobody held what was wanted (s)"] == 5.05
    assert "stop holder" in verdict.counted["the last fault before"]


def test_who_was_awake_and_refused_was_not_told_in_time(judged) -> None:
    awake = [*turn(1, 2, 5)[:2], line(2.3, BatonStep.REFUSED, 5, checked=at(2.25))]
    verdict = judged((ONE, awake), (OTHER, turn(1.5, 2.28, 6)))
    assert any("was refused 0.050 s later, 1 times" in one for one in verdict.broken)


# --- the order of the queue -----------------------------------------------------------------------

CALM = [StormEvent(at=at(0), what=Happened.CALM), StormEvent(at=at(30), what=Happened.OVER)]


def test_who_asked_later_and_comes_first_when_it_is_calm_is_told(judged) -> None:
    verdict = judged((ONE, turn(10, 14, 6, "5.1")), (OTHER, turn(11, 13, 5)), events=CALM)
    assert verdict.counted["overtaken there by at most (s)"] == 1.0
    assert verdict.counted["grants judged by the order of asking"] == 2
    assert len(verdict.broken) == 1
    assert verdict.counted["the same when it was calm (s)"] == 3.0


def test_before_all_has_settled_nobody_counts_on_the_order(judged) -> None:
    early = (ONE, turn(7, 10, 6, "5.1")), (OTHER, turn(8, 9.5, 5))
    assert judged(*early, events=CALM).broken == []


def test_who_waited_before_the_window_is_in_the_queue_when_it_begins(judged) -> None:
    waits = [*turn(10, 11, 4), line(13, BatonStep.ASKED), *turn(13, 29, 6, "5.1")[1:]]
    verdict = judged((ONE, waits), (OTHER, turn(20, 21, 5, "4.1")), events=CALM)
    assert verdict.counted["overtaken there by at most (s)"] == 7.0
    waits = [*turn(2, 3, 4), line(5, BatonStep.ASKED), *turn(5, 29, 6, "5.1")[1:]]
    verdict = judged((ONE, waits), (OTHER, turn(10, 21, 5, "4.1")), events=CALM)
    assert verdict.counted["overtaken there by at most (s)"] == 1.0


def test_one_that_is_never_served_is_overtaken_too(judged) -> None:
    waits = [*turn(2, 10, 4), line(12, BatonStep.ASKED), line(29.5, BatonStep.DENIED)]
    verdict = judged((ONE, waits), (OTHER, turn(20, 21, 5, "4.1")), events=CALM)
    assert verdict.counted["overtaken there by at most (s)"] == 8.0


def test_everybody_has_every_baton_at_the_end(judged) -> None:
    verdict = judged((ONE, turn(10, 11, 5, "4.1")), (OTHER, turn(1, 2, 4)), events=CALM)
    assert verdict.counted["at the end all were served after (s)"] == 2.0
    assert verdict.broken == ["worker-1-0 did not have index within 12 s at the end"]


def test_nobody_waits_beyond_the_time_of_the_wish(judged) -> None:
    assert judged((ONE, turn(1, 63, 5))).broken == []
    assert len(judged((ONE, turn(1, 65, 5))).broken) == 1


def test_a_wish_that_nobody_ended_is_told(judged) -> None:
    assert "when it was all over" in judged((ONE, [line(1, BatonStep.ASKED)])).broken[0]


def test_what_was_killed_waits_no_more(judged) -> None:
    killed = ClientLife("worker", 2, 0, killed=at(5))
    assert judged((killed, [line(1, BatonStep.ASKED)])).broken == []


# --- values ---------------------------------------------------------------------------------------


def test_a_value_that_nobody_left_is_told(judged) -> None:
    verdict = judged((ONE, turn(1, 2, 5)), (OTHER, turn(1.5, 2.5, 6, "5.9", made=6)))
    assert verdict.broken == ["worker-1-0 got '5.9' with index, which nobody had left"]


def test_a_value_goes_on_with_the_baton(judged) -> None:
    verdict = judged((ONE, turn(1, 2, 5)), (OTHER, turn(1.5, 2.5, 6, "")))
    assert len(verdict.broken) == 1


def test_a_value_may_be_lost_with_the_baton(judged) -> None:
    verdict = judged((ONE, turn(1, 2, 5)), (OTHER, turn(1.5, 2.5, 6, "", made=6)))
    assert verdict.broken == []
    assert (
        verdict.counted["batons made anew"],
        verdict.counted["of them with an older value"],
    ) == (1, 1)


def test_but_not_one_that_was_saved(judged) -> None:
    saved = [*turn(1, 2, 5)[:2], line(2.1, BatonStep.SAVING, 5, value="5.1")]
    saved += [line(2.2, BatonStep.SAVED, 5, value="5.1"), line(2.3, BatonStep.LOST, 5)]
    verdict = judged((ONE, saved), (OTHER, turn(1.5, 2.5, 6, "", made=6)))
    assert verdict.broken == ["worker-1-0 got '' with index, though '5.1' had been saved"]


@pytest.mark.parametrize("value", ["", "5.1"])
def test_a_release_that_nobody_answered_may_have_been_heard(judged, value: str) -> None:
    killed = ClientLife("worker", 0, 0, killed=at(2.4))
    verdict = judged((killed, turn(1, 2, 5)[:-1]), (OTHER, turn(1.5, 2.5, 6, value)))
    assert verdict.broken == []


# --- files ----------------------------------------------------------------------------------------


def test_the_guard_takes_no_smaller_fence(tmp_path: Path) -> None:
    one, other = Guard(tmp_path, "index", "one"), Guard(tmp_path, "index", "other")
    assert one.act(5, 1, 1)
    assert other.act(6, 2, 1)
    assert not one.act(5, 3, 2)
    assert other.act(6, 4, 2)
    assert [act.fence for act in read(guarded(tmp_path, "index"), GuardedAct)] == [5, 6, 6]
    one.close()
    other.close()


def test_a_torn_last_line_is_not_read(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.write_text('[1,"asked","index"]\n[2,"grant')
    assert list(read(journal, BatonLine)) == [BatonLine(1, BatonStep.ASKED, "index")]
    assert last(journal, BatonLine) == BatonLine(1, BatonStep.ASKED, "index")
