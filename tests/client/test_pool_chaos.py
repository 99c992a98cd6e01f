"""Processes of a real pool are killed under load, and no promise is broken.

Beside it: who judges that finds what is wrong, in journals written by hand and in a real run whose
harness lies.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import chaos_runs
from snowmelt.core.errors import Closed

sys.path.insert(0, str(chaos_runs.ROOT))

from benchmarks.chaos.forks import WrongInChild, allowed, fork
from benchmarks.chaos.kinds import Kind
from benchmarks.chaos.starving import STARVED, waited
from benchmarks.pool_chaos_parts.bodies import Bodies, Damaged, id_of
from benchmarks.pool_chaos_parts.crowd import Life, Role
from benchmarks.pool_chaos_parts.injured import EVENTS
from benchmarks.pool_chaos_parts.journal import Line, What, read
from benchmarks.pool_chaos_parts.judging import Judgement, judge
from benchmarks.pool_chaos_parts.plan import first_id

SMALL = (
    *("--nodes", "1", "--producers", "4", "--consumers", "4"),
    *("--kill-producers", "1", "--kill-consumers", "1", "--leave", "1"),
    *("--inject", "kill,stop,fork,limits", "--stop", "1"),
    *("--seconds", "8", "--phase", "2", "--lease", "3", "--size-max", "300000"),
    *("--slack", "2"),  # other tests run beside this one
)


def run(folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    return chaos_runs.run("pool_chaos.py", folder, *SMALL, *options, timeout=100)


def test_the_account_of_the_living_is_exact_while_others_are_killed(tmp_path: Path) -> None:
    code, result, said = run(tmp_path)
    assert result["broken"] == []
    assert code == 0, said
    judged = result["judgement"]
    assert (judged["lost"], judged["doubled"], judged["foreign"], judged["damaged"]) == (0, 0, 0, 0)
    assert judged["put"] > 100
    assert judged["acknowledged"] >= judged["put"] - judged["set_apart"] - judged["uncertain"]
    done = {"producers killed": 1, "consumers killed": 1, "producers left in order": 1}
    assert result["done"] == done | {"stopped": 1}
    assert judged["forks"] >= 1


@pytest.mark.soak
@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_account_is_exact_whatever_is_done_to_them(tmp_path: Path, seed: str) -> None:
    more = ("--nodes", "3", "--seconds", "40", "--kill-producers", "3", "--kill-consumers", "3")
    many = ("--kill-nodes", "1", "--stop", "6", "--slow", "6", "--leave", "2", "--seed", seed)
    more += ("--inject", ",".join(Kind))
    code, result, said = chaos_runs.run(
        "pool_chaos.py", tmp_path, *SMALL, *more, *many, timeout=300
    )
    assert result["broken"] == []
    assert code == 0, said


@pytest.mark.soak
@pytest.mark.parametrize(("plant", "counted"), [("lost", "lost"), ("doubled", "doubled")])
def test_a_harness_that_lies_is_found_out(tmp_path: Path, plant: str, counted: str) -> None:
    code, result, _ = run(tmp_path, "--plant", plant, "--nack", "0.2", "--kill-consumers", "0")
    assert code == 1
    assert result["judgement"][counted] >= 1


# --- journals written by hand ---------------------------------------------------------------------

SECOND = 1_000_000_000
PRODUCER = Life(Role.PRODUCER, 0, 0)
KILLED = Life(Role.PRODUCER, 1, 0, killed=9 * SECOND)
CONSUMER = Life(Role.CONSUMER, 0, 0)
OTHER = Life(Role.CONSUMER, 1, 0)
ONE = first_id(0, 0)
OF_THE_KILLED = first_id(1, 0)


def put(id_: int, begin: float = 1.0, end: float = 1.1) -> list[tuple[float, What, int]]:
    return [(begin, What.INTENT, id_), (end, What.KEPT, id_)]


def got(id_: int, at: float) -> list[tuple[float, What, int]]:
    return [(at, What.GOT, id_), (at + 0.1, What.ACKING, id_), (at + 0.2, What.ACKED, id_)]


@pytest.fixture
def judged(tmp_path: Path):
    """Judges lines of (seconds, what, id), by the lives that wrote them."""

    def judging(*journals: tuple[Life, list[tuple[float, What, int]]]) -> Judgement:
        for life, lines in journals:
            text = "".join(
                json.dumps([round(at * SECOND), what.value, [id_] if id_ >= 0 else []]) + "\n"
                for at, what, id_ in [(0.0, What.STARTED, -1), *lines]
            )
            (tmp_path / f"{life.name}.jsonl").write_text(text)
        return judge(tmp_path, [life for life, _ in journals], idle_most=1.5)

    return judging


def test_all_is_well_when_all_that_was_kept_is_acknowledged(judged) -> None:
    verdict = judged((PRODUCER, put(ONE)), (CONSUMER, got(ONE, 2.0)))
    assert verdict.broken == []
    assert (verdict.put, verdict.acknowledged) == (1, 1)


def test_what_the_living_kept_and_nobody_acknowledged_is_lost(judged) -> None:
    verdict = judged((PRODUCER, put(ONE)), (CONSUMER, [(2.0, What.GOT, ONE)]))
    assert verdict.lost == 1
    assert verdict.broken == [f"1 objects were lost, such as {ONE}"]


def test_what_the_killed_kept_is_set_apart(judged) -> None:
    verdict = judged((KILLED, put(OF_THE_KILLED)), (CONSUMER, []))
    assert verdict.broken == []
    assert (verdict.lost, verdict.set_apart) == (0, 1)


def test_an_acknowledgement_that_never_ended_may_have_been_heard(judged) -> None:
    verdict = judged(
        (PRODUCER, put(ONE)), (CONSUMER, [(2.0, What.GOT, ONE), (2.1, What.ACKING, ONE)])
    )
    assert verdict.broken == []
    assert verdict.uncertain == 1


def test_one_that_was_refused_was_not_heard(judged) -> None:
    refused = [(2.0, What.GOT, ONE), (2.1, What.ACKING, ONE), (2.2, What.LATE, ONE)]
    assert judged((PRODUCER, put(ONE)), (CONSUMER, refused)).lost == 1


def test_what_comes_after_its_acknowledgement_is_doubled(judged) -> None:
    verdict = judged(
        (PRODUCER, put(ONE)), (CONSUMER, got(ONE, 2.0)), (OTHER, [(2.5, What.GOT, ONE)])
    )
    assert verdict.doubled == 1
    assert len(verdict.broken) == 1


def test_what_came_before_the_acknowledgement_was_only_delivered_again(judged) -> None:
    verdict = judged(
        (PRODUCER, put(ONE)), (CONSUMER, got(ONE, 2.0)), (OTHER, [(1.5, What.GOT, ONE)])
    )
    assert verdict.broken == []
    assert verdict.redelivered == 1


def test_what_two_have_acknowledged_is_doubled(judged) -> None:
    verdict = judged((PRODUCER, put(ONE)), (CONSUMER, got(ONE, 2.0)), (OTHER, got(ONE, 1.9)))
    assert verdict.doubled == 1


def test_what_nobody_put_is_foreign(judged) -> None:
    verdict = judged((PRODUCER, []), (CONSUMER, got(ONE, 2.0)))
    assert verdict.foreign == 1


def test_what_was_refused_and_comes_all_the_same_is_told(judged) -> None:
    refused = [(1.0, What.INTENT, ONE), (1.1, What.REFUSED, ONE)]
    assert judged((PRODUCER, refused), (CONSUMER, got(ONE, 2.0))).undone == 1


def test_what_producers_still_have_when_all_is_drained_is_told(judged, tmp_path: Path) -> None:
    (tmp_path / "drain.jsonl").write_text(json.dumps([9 * SECOND, "empty", []]) + "\n")
    left = [(10.0, What.LEFT, 2)]
    assert judged((PRODUCER, left), (CONSUMER, [])).left_behind == 2


def test_damage_is_told(judged) -> None:
    assert judged((PRODUCER, []), (CONSUMER, [(2.0, What.DAMAGED, 7)])).damaged == 1


def test_a_consumer_that_idles_beside_a_full_producer_is_told(judged) -> None:
    verdict = judged(
        (PRODUCER, put(ONE, 3.0, 8.0)),
        (CONSUMER, [(4.0, What.ASKED, -1), *got(ONE, 7.0)]),
    )
    assert verdict.idle.seconds == 3.0
    assert (verdict.idle.consumer, verdict.idle.producer) == ("consumer-0-0", "producer-0-0")
    assert len(verdict.broken) == 1


def test_gets_that_follow_each_other_are_one_idling(judged) -> None:
    asked = [(4.0, What.ASKED, -1), (5.0, What.EMPTY, -1), (5.01, What.ASKED, -1)]
    verdict = judged((PRODUCER, put(ONE, 3.0, 8.0)), (CONSUMER, [*asked, *got(ONE, 6.0)]))
    assert verdict.idle.seconds == 2.0


def test_a_producer_that_was_killed_was_full_until_then(judged) -> None:
    full = [(3.0, What.INTENT, OF_THE_KILLED)]
    idle = [(4.0, What.ASKED, -1), (12.0, What.EMPTY, -1)]
    assert judged((KILLED, full), (CONSUMER, idle)).idle.seconds == 5.0


def test_who_has_just_come_is_not_known_yet(judged) -> None:
    verdict = judged(
        (PRODUCER, put(ONE, 0.1, 2.4)),
        (CONSUMER, [(0.1, What.ASKED, -1), *got(ONE, 2.4)]),
    )
    assert verdict.idle.seconds == 0


# --- what is excused ------------------------------------------------------------------------------


@pytest.fixture
def injured(tmp_path: Path):
    """Writes down (seconds, what was done, to whom), as the storm does."""

    def writing(*events: tuple[float, str, str]) -> None:
        lines = [
            json.dumps({"at": round(at * SECOND), "event": event, "name": name}) + "\n"
            for at, event, name in events
        ]
        (tmp_path / "events.jsonl").write_text("".join(lines))

    return writing


@pytest.mark.parametrize("who", ["consumer-0-0", "producer-0-0", "consumer-0", "producer-0"])
def test_who_stands_still_or_is_slow_is_not_judged_by_the_clock(judged, injured, who: str) -> None:
    injured((4.5, "slowed", who), (6.5, "quickened", who))
    verdict = judged(
        (PRODUCER, put(ONE, 3.0, 8.0)),
        (CONSUMER, [(4.0, What.ASKED, -1), *got(ONE, 7.5)]),
    )
    assert verdict.idle.seconds == 1.0
    assert verdict.broken == []


def test_but_the_time_before_and_after_counts(judged, injured) -> None:
    injured((4.5, "stopped", "consumer-0-0"), (6.0, "continued", "consumer-0-0"))
    asked = [(4.0, What.ASKED, -1), *got(ONE, 8.0)]
    assert judged((PRODUCER, put(ONE, 3.0, 9.0)), (CONSUMER, asked)).idle.seconds == 2.0


def test_the_stop_of_another_excuses_nobody(judged, injured) -> None:
    injured((4.0, "stopped", "consumer-1-0"), (8.0, "continued", "consumer-1-0"))
    asked = [(4.0, What.ASKED, -1), *got(ONE, 7.0)]
    verdict = judged((PRODUCER, put(ONE, 3.0, 8.0)), (CONSUMER, asked), (OTHER, []))
    assert verdict.idle.seconds == 3.0


def test_a_producer_may_be_full_of_what_one_has_borrowed_that_stands_still(judged, injured) -> None:
    injured((4.0, "stopped", "consumer-1-0"), (7.0, "continued", "consumer-1-0"))
    full = [*put(ONE, 1.0, 1.1), *put(ONE + 1, 3.0, 8.0)]
    asked = [(4.0, What.ASKED, -1), *got(ONE + 1, 8.1)]
    borrowed = [(3.2, What.ASKED, -1), *got(ONE, 7.1)]
    verdict = judged((PRODUCER, full), (CONSUMER, asked), (OTHER, borrowed))
    assert verdict.idle.seconds == 1.0


def test_who_stood_still_writes_down_late_what_it_got(judged, injured) -> None:
    injured((1.5, "stopped", "consumer-1-0"), (4.0, "continued", "consumer-1-0"))
    late = [(1.4, What.ASKED, -1), (4.1, What.GOT, ONE), (4.2, What.ACKING, ONE)]
    verdict = judged(
        (PRODUCER, put(ONE)), (CONSUMER, got(ONE, 2.0)), (OTHER, [*late, (4.3, What.LATE, ONE)])
    )
    assert (verdict.doubled, verdict.redelivered) == (0, 1)
    assert verdict.broken == []


def test_but_what_it_asks_for_much_later_is_doubled(judged, injured) -> None:
    injured((1.5, "stopped", "consumer-1-0"), (4.0, "continued", "consumer-1-0"))
    verdict = judged((PRODUCER, put(ONE)), (CONSUMER, got(ONE, 2.0)), (OTHER, [(9, What.GOT, ONE)]))
    assert verdict.doubled == 1


def test_who_came_while_a_node_was_gone_is_known_later(judged, injured) -> None:
    injured((0.0, "killed", "n1"), (4.0, "started", "n1"))
    asked = [(1.0, What.ASKED, -1), *got(ONE, 9.0)]
    assert judged((PRODUCER, put(ONE, 1.0, 8.0)), (CONSUMER, asked)).idle.seconds == 1.5


# --- children -------------------------------------------------------------------------------------


def test_a_child_that_was_let_do_what_it_must_not_is_told() -> None:
    def refuses() -> None:
        raise Closed("this belongs to the process that this one was forked from")

    def works() -> Iterator[str]:
        yield from allowed(put=refuses, get=list)

    with pytest.raises(WrongInChild, match="get was not refused"):
        fork(works, Random(1))
    fork(lambda: allowed(put=refuses), Random(1))


# --- files ----------------------------------------------------------------------------------------


def test_a_torn_last_line_is_not_read(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.write_text('[1,"kept",[7]]\n[2,"kept",[8')
    assert list(read(journal)) == [Line(1, What.KEPT, (7,))]


def test_a_body_that_was_changed_is_damaged() -> None:
    body = Bodies(1000).make(7, 500)
    assert id_of(body) == 7
    for at in (0, 100, 499):
        changed = bytearray(body)
        changed[at] ^= 1
        with pytest.raises(Damaged):
            id_of(changed)
    with pytest.raises(Damaged):
        id_of(body[:-1])


IDLING = (
    (PRODUCER, [(3.0, What.INTENT, ONE), (9.0, What.KEPT, ONE)]),
    (CONSUMER, [(3.0, What.ASKED, -1), (7.0, What.GOT, OF_THE_KILLED), *got(ONE, 9.5)]),
    (KILLED, put(OF_THE_KILLED)),
)


@pytest.mark.parametrize(("waited", "told"), [(1.0, (1, 0)), (3.0, (0, 1))])
def test_what_the_machine_may_have_added_is_told_and_not_judged(
    judged, tmp_path: Path, waited: float, told: tuple[int, int]
) -> None:
    line = [3 * SECOND, 7 * SECOND, "n1", round(waited * SECOND)]
    (tmp_path / STARVED).write_text(json.dumps(line) + "\n")
    verdict = judged(*IDLING)
    assert verdict.idle.seconds == 4.0
    assert (len(verdict.broken), len(verdict.unjudged)) == told
    assert f"stood in line for a processor for {waited:.2f} s" in str(verdict)


def test_a_process_that_computes_beside_others_stands_in_line() -> None:
    """Or the system does not tell; it never tells less than before."""
    first = waited(os.getpid())
    again = waited(os.getpid())
    assert all(again[one] >= first[one] for one in first)
    assert waited(1 << 30) == {}


def test_what_a_stopped_producer_had_begun_to_give_is_waited_for_until_it_is_given_up(
    judged, tmp_path: Path
) -> None:
    stopped = [(4.0, "stopped", "producer-2-0"), (9.0, "continued", "producer-2-0")]
    (tmp_path / EVENTS).write_text(
        "".join(
            json.dumps({"at": round(at * SECOND), "event": event, "name": name}) + "\n"
            for at, event, name in stopped
        )
    )
    assert judged(*IDLING).idle.seconds == 1.0
