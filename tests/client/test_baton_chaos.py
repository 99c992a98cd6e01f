"""Holders, waiters and nodes of real batons are killed and stopped, and no promise is broken.

Beside it: who judges that finds what is wrong, in journals written by hand and in a real run whose
harness lies.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import chaos_runs

sys.path.insert(0, str(chaos_runs.ROOT))

from benchmarks.baton_chaos_parts.crowd import Life
from benchmarks.baton_chaos_parts.events import Deed, Event, Part
from benchmarks.baton_chaos_parts.guard import Act, Guard, guarded
from benchmarks.baton_chaos_parts.journal import Line, What
from benchmarks.baton_chaos_parts.judging import Judgement, judge
from benchmarks.baton_chaos_parts.queueing import Bounds
from benchmarks.chaos.journals import last, read

SMALL = (
    *("--nodes", "3", "--workers", "4", "--batons", "2"),
    *("--seconds", "8", "--final", "16", "--settle", "10", "--serve", "6"),
    *("--overtaking", "2", "--heartbeat", "0.5"),  # other tests run beside this one
)


def run(folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    return chaos_runs.run("baton_chaos.py", folder, *SMALL, *options, timeout=110)


def test_fences_order_and_values_are_right_while_anybody_is_killed_or_stopped(
    tmp_path: Path,
) -> None:
    code, result, said = run(tmp_path, "--seed", "3", "--inject", "kill,stop,fork")
    assert result["broken"] == []
    assert code == 0, said
    assert sum(result["done"].values()) >= 2
    judged = result["judgement"]
    assert judged["grants"] > 20
    assert judged["values"]["followed"] > 10
    assert judged["queueing"]["in_order"] > 5


@pytest.mark.soak
@pytest.mark.parametrize("seed", ["1", "2"])
def test_no_promise_is_broken_whatever_is_done_to_them(tmp_path: Path, seed: str) -> None:
    more = ("--seconds", "60", "--storm", "25", "--seed", seed)
    code, result, said = chaos_runs.run("baton_chaos.py", tmp_path, *SMALL, *more, timeout=300)
    assert result["broken"] == []
    assert code == 0, said
    assert result["judgement"]["fences"]["forks"] >= 1


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
    code, result, _ = run(tmp_path, "--plant", plant)
    assert code == 1
    assert any(found in broken for broken in result["broken"]), result["broken"]


# --- journals written by hand ---------------------------------------------------------------------

SECOND = 1_000_000_000
BOUNDS = Bounds(settle=9, serve=12, overtaking=0.5, timeout=60, late=3)
ONE = Life(0, 0)
OTHER = Life(1, 0)


def at(seconds: float) -> int:
    return round(seconds * SECOND)


def line(seconds: float, what: What, fence: int = 0, **more: Any) -> Line:
    return Line(at(seconds), what, "index", fence, **more)


def turn(asked: float, granted: float, fence: int, value: str = "", made: int = 1) -> list[Line]:
    """One that asks, is granted, acts, and leaves a value, in half a second."""
    left = f"{fence}.1"
    return [
        line(asked, What.ASKED),
        line(granted, What.GRANTED, fence, made=made, value=value),
        line(granted + 0.2, What.ACTED, fence, checked=at(granted + 0.1)),
        line(granted + 0.3, What.RELEASING, fence, value=left),
        line(granted + 0.4, What.RELEASED, fence, value=left),
    ]


@pytest.fixture
def judged(tmp_path: Path):
    """Judges the lines that some lives wrote, the acts on the file, and what was done to them."""

    def judging(
        *journals: tuple[Life, list[Line]], acts: Sequence[Act] = (), events: Sequence[Event] = ()
    ) -> Judgement:
        for life, lines in journals:
            write(tmp_path / f"{life.name}.jsonl", [Line(0, What.STARTED), *lines])
        write(guarded(tmp_path, "index"), acts)
        write(tmp_path / "events.jsonl", events)
        return judge(tmp_path, [life for life, _ in journals], BOUNDS)

    return judging


def write(path: Path, lines: Sequence[Any]) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in lines))


def test_turns_that_follow_each_other_break_nothing(judged) -> None:
    verdict = judged((ONE, turn(1, 2, 5)), (OTHER, turn(1.5, 2.5, 6, "5.1")))
    assert verdict.broken == []
    assert (verdict.grants, verdict.values.followed) == (2, 1)


def test_an_act_with_a_smaller_fence_after_a_larger_is_told(judged) -> None:
    acts = [Act(6, ONE.name, 1, 1, 1), Act(5, OTHER.name, 2, 2, 1)]
    assert len(judged((ONE, []), acts=acts).broken) == 1


def test_a_fence_that_two_have_used_is_told(judged) -> None:
    acts = [Act(5, ONE.name, 1, 1, 1), Act(5, OTHER.name, 2, 2, 1)]
    assert "used by worker-0-0 and worker-1-0" in judged((ONE, []), acts=acts).broken[0]


def test_a_fence_that_was_granted_twice_is_told(judged) -> None:
    broken = judged((ONE, turn(1, 2, 5)), (OTHER, turn(1.5, 2.5, 5))).broken
    assert any("was granted to worker-0-0, and to worker-1-0" in one for one in broken)


def test_who_asks_after_a_larger_fence_was_granted_gets_no_smaller_one(judged) -> None:
    verdict = judged((ONE, turn(1, 2, 6, "5.1")), (OTHER, turn(2.1, 2.5, 5)))
    assert any("before that was asked for" in one for one in verdict.broken)


def test_who_heard_late_of_a_grant_may_have_a_smaller_one(judged) -> None:
    stopped = turn(1, 2.6, 5)[:2]  # it heard of it when the other had it already
    late = [*stopped, line(2.7, What.LOST, 5)]
    verdict = judged((ONE, turn(1, 2.5, 6)), (OTHER, late))
    assert verdict.broken == []
    assert verdict.fences.out_of_order == 1
    assert verdict.fences.told_lost == 1


def test_who_is_sure_to_hold_what_another_has_is_told(judged) -> None:
    verdict = judged((ONE, turn(1, 2, 5)), (OTHER, turn(1.5, 2.05, 6, "5.1")))
    assert [one for one in verdict.broken if "was sure to hold" in one]


STOPPED = [
    Event(at(2.15), Deed.STOPPED, ONE.name, Part.HOLDER),
    Event(at(8.65), Deed.CONTINUED, ONE.name),
]
REFUSED = [
    *turn(1, 2, 5)[:2],
    line(8.7, What.REFUSED, 5, checked=at(2.1)),
    line(8.8, What.LOST, 5),
]


def test_who_slept_between_check_and_act_is_refused_and_that_is_no_fault(judged) -> None:
    verdict = judged((ONE, REFUSED), (OTHER, turn(1.5, 7.2, 6)), events=STOPPED)
    assert verdict.broken == []
    assert verdict.fences.refused_asleep == 1
    assert verdict.longest_pause.seconds == 5.05
    assert "holder stopped" in verdict.longest_pause.after
    assert [(one.fault, one.longest) for one in verdict.recoveries] == [("holder stopped", 5.05)]
    assert verdict.recoveries[0].alone == 1


def test_of_who_was_struck_with_others_it_is_told_apart(judged) -> None:
    other = Event(at(3), Deed.KILLED, "n2", Part.NODE)
    verdict = judged((ONE, REFUSED), (OTHER, turn(1.5, 7.2, 6)), events=[*STOPPED, other])
    assert (verdict.recoveries[0].count, verdict.recoveries[0].alone) == (1, 0)


def test_the_node_at_which_a_baton_was_held_is_known_by_the_fence(judged) -> None:
    killed = Event(at(2.1), Deed.KILLED, "n2", Part.HOLDERS_NODE, "index", 5)
    stale = Event(at(2.2), Deed.KILLED, "n3", Part.HOLDERS_NODE, "index", 4)
    verdict = judged(
        (ONE, [*turn(1, 2, 5)[:2], line(7, What.LOST, 5)]),
        (OTHER, turn(1.5, 8.1, 6)),
        events=[killed, stale],
    )
    assert verdict.broken == []
    assert [(one.fault, one.count) for one in verdict.recoveries] == [("holder's node killed", 1)]
    assert verdict.longest_pause.seconds == 1.1


def test_who_was_awake_and_refused_was_not_told_in_time(judged) -> None:
    awake = [*turn(1, 2, 5)[:2], line(2.3, What.REFUSED, 5, checked=at(2.25))]
    verdict = judged((ONE, awake), (OTHER, turn(1.5, 2.28, 6)))
    assert any("was refused 0.050 s later, 1 times" in one for one in verdict.broken)


# --- the order of the queue -----------------------------------------------------------------------

CALM = [Event(at(0), Deed.CALM), Event(at(30), Deed.OVER)]


def test_who_asked_later_and_comes_first_when_it_is_calm_is_told(judged) -> None:
    verdict = judged((ONE, turn(10, 14, 6, "5.1")), (OTHER, turn(11, 13, 5)), events=CALM)
    assert verdict.queueing.overtaken_seconds == 1.0
    assert verdict.queueing.in_order == 2
    assert len(verdict.broken) == 1
    assert verdict.longest_pause_in_calm == 3.0


def test_before_all_has_settled_nobody_counts_on_the_order(judged) -> None:
    early = (ONE, turn(7, 10, 6, "5.1")), (OTHER, turn(8, 9.5, 5))
    assert judged(*early, events=CALM).broken == []


def test_who_waited_before_the_window_is_in_the_queue_when_it_begins(judged) -> None:
    waits = [*turn(10, 11, 4), line(13, What.ASKED), *turn(13, 29, 6, "5.1")[1:]]
    verdict = judged((ONE, waits), (OTHER, turn(20, 21, 5, "4.1")), events=CALM)
    assert verdict.queueing.overtaken_seconds == 7.0
    waits = [*turn(2, 3, 4), line(5, What.ASKED), *turn(5, 29, 6, "5.1")[1:]]
    verdict = judged((ONE, waits), (OTHER, turn(10, 21, 5, "4.1")), events=CALM)
    assert verdict.queueing.overtaken_seconds == 1.0


def test_one_that_is_never_served_is_overtaken_too(judged) -> None:
    waits = [*turn(2, 10, 4), line(12, What.ASKED), line(29.5, What.DENIED)]
    verdict = judged((ONE, waits), (OTHER, turn(20, 21, 5, "4.1")), events=CALM)
    assert verdict.queueing.overtaken_seconds == 8.0


def test_everybody_has_every_baton_at_the_end(judged) -> None:
    verdict = judged((ONE, turn(10, 11, 5, "4.1")), (OTHER, turn(1, 2, 4)), events=CALM)
    assert verdict.queueing.slowest_served == 2.0
    assert verdict.broken == ["worker-1-0 did not have index within 12 s at the end"]


def test_nobody_waits_beyond_the_time_of_the_wish(judged) -> None:
    assert judged((ONE, turn(1, 63, 5))).broken == []
    assert len(judged((ONE, turn(1, 65, 5))).broken) == 1


def test_a_wish_that_nobody_ended_is_told(judged) -> None:
    assert "when it was all over" in judged((ONE, [line(1, What.ASKED)])).broken[0]


def test_what_was_killed_waits_no_more(judged) -> None:
    killed = Life(2, 0, killed=at(5))
    assert judged((killed, [line(1, What.ASKED)])).broken == []


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
    assert (verdict.values.made_anew, verdict.values.forgotten) == (1, 1)


def test_but_not_one_that_was_saved(judged) -> None:
    saved = [*turn(1, 2, 5)[:2], line(2.1, What.SAVING, 5, value="5.1")]
    saved += [line(2.2, What.SAVED, 5, value="5.1"), line(2.3, What.LOST, 5)]
    verdict = judged((ONE, saved), (OTHER, turn(1.5, 2.5, 6, "", made=6)))
    assert verdict.broken == ["worker-1-0 got '' with index, though '5.1' had been saved"]


@pytest.mark.parametrize("value", ["", "5.1"])
def test_a_release_that_nobody_answered_may_have_been_heard(judged, value: str) -> None:
    killed = Life(0, 0, killed=at(2.4))
    verdict = judged((killed, turn(1, 2, 5)[:-1]), (OTHER, turn(1.5, 2.5, 6, value)))
    assert verdict.broken == []


# --- files ----------------------------------------------------------------------------------------


def test_the_guard_takes_no_smaller_fence(tmp_path: Path) -> None:
    one, other = Guard(tmp_path, "index", "one"), Guard(tmp_path, "index", "other")
    assert one.act(5, 1, 1)
    assert other.act(6, 2, 1)
    assert not one.act(5, 3, 2)
    assert other.act(6, 4, 2)
    assert [act.fence for act in read(guarded(tmp_path, "index"), Act)] == [5, 6, 6]
    one.close()
    other.close()


def test_a_torn_last_line_is_not_read(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.write_text('[1,"asked","index"]\n[2,"grant')
    assert list(read(journal, Line)) == [Line(1, What.ASKED, "index")]
    assert last(journal, Line) == Line(1, What.ASKED, "index")
