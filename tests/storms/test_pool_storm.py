"""Processes of a real pool are killed under load, and no promise is broken.

Beside it: who judges that finds what is wrong, in journals written by hand and in a real run whose
harness lies.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest

import chaos_runs
from snowmelt.core.errors import Closed
from snowmelt_world.storms.crowd import ClientLife
from snowmelt_world.storms.events import Happened, StormEvent
from snowmelt_world.storms.family import Judgement
from snowmelt_world.storms.faults import Fault
from snowmelt_world.storms.forks import WrongInChild, allowed, fork
from snowmelt_world.storms.pool import judging
from snowmelt_world.storms.pool.bodies import DamagedBody, ObjectBodies, id_of
from snowmelt_world.storms.pool.journal import PoolLine, PoolStep, read
from snowmelt_world.storms.pool.judging import Room, judge_pool
from snowmelt_world.storms.pool.load import first_id
from snowmelt_world.storms.starving import STARVED, waited

SMALL = (
    *("--nodes", "1", "--clients", "8", "--every", "1", "--seed", "2"),
    *("--set", "phase=2", "--set", "lease=3", "--set", "size_max=300000"),
    *("--set", "slack=2"),  # other tests run beside this one
)


@pytest.mark.wide
def test_the_account_of_the_living_is_exact_while_others_are_killed(tmp_path: Path) -> None:
    faults = ("--faults", "kill,leave,stop,fork,limits", "--minutes", "0.15")
    result = chaos_runs.survives("pool", tmp_path, *SMALL, *faults, timeout=100)
    counted = result["counted"]
    assert counted["objects put"] > 100
    excused = counted["gone with producers that were killed"]
    excused += counted["perhaps acknowledged by the killed"]
    assert counted["objects acknowledged"] >= counted["objects put"] - excused
    assert sum(result["faults"].values()) >= 3
    assert counted["children that left all alone"] >= 1


@pytest.mark.soak
@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_account_is_exact_whatever_is_done_to_them(tmp_path: Path, seed: str) -> None:
    more = ("--nodes", "3", "--minutes", "0.7", "--seed", seed)
    chaos_runs.survives("pool", tmp_path, *SMALL, *more, timeout=300)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("plant", "promise"), [("lost", judging.LOST), ("doubled", judging.DOUBLED)]
)
def test_a_harness_that_lies_is_found_out(tmp_path: Path, plant: str, promise: str) -> None:
    calm = ("--set", "nack=0.2", "--every", "0", "--minutes", "0.2", "--plant", plant)
    code, result, _ = chaos_runs.run("pool", tmp_path, *SMALL, *calm, timeout=100)
    assert code == 20
    assert result["properties"][promise] == "invalid"


IDLE = "longest idle beside a full producer (s)"

# --- journals written by hand ---------------------------------------------------------------------

SECOND = 1_000_000_000
PRODUCER = ClientLife("producer", 0, 0)
KILLED = ClientLife("producer", 1, 0, killed=9 * SECOND)
CONSUMER = ClientLife("consumer", 0, 0)
OTHER = ClientLife("consumer", 1, 0)
ONE = first_id(0, 0)
OF_THE_KILLED = first_id(1, 0)


def put(id_: int, begin: float = 1.0, end: float = 1.1) -> list[tuple[float, PoolStep, int]]:
    return [(begin, PoolStep.INTENT, id_), (end, PoolStep.KEPT, id_)]


def got(id_: int, at: float) -> list[tuple[float, PoolStep, int]]:
    return [
        (at, PoolStep.GOT, id_),
        (at + 0.1, PoolStep.ACKING, id_),
        (at + 0.2, PoolStep.ACKED, id_),
    ]


@pytest.fixture
def judged(tmp_path: Path):
    """Judges lines of (seconds, what, id), by the lives that wrote them."""

    def judging(*journals: tuple[ClientLife, list[tuple[float, PoolStep, int]]]) -> Judgement:
        for life, lines in journals:
            text = "".join(
                json.dumps([round(at * SECOND), what.value, [id_] if id_ >= 0 else []]) + "\n"
                for at, what, id_ in [(0.0, PoolStep.STARTED, -1), *lines]
            )
            (tmp_path / f"{life.name}.jsonl").write_text(text)
        lives = [life for life, _ in journals]
        return judge_pool(tmp_path, lives, 1.5, Room(5, 1000))

    return judging


def test_all_is_well_when_all_that_was_kept_is_acknowledged(judged) -> None:
    verdict = judged((PRODUCER, put(ONE)), (CONSUMER, got(ONE, 2.0)))
    assert verdict.broken == []
    assert verdict.counted["objects put"] == verdict.counted["objects acknowledged"] == 1


def test_what_the_living_kept_and_nobody_acknowledged_is_lost(judged) -> None:
    verdict = judged((PRODUCER, put(ONE)), (CONSUMER, [(2.0, PoolStep.GOT, ONE)]))
    assert verdict.properties[judging.LOST] == [f"1 objects were lost, such as {ONE}"]


def test_what_the_killed_kept_is_set_apart(judged) -> None:
    verdict = judged((KILLED, put(OF_THE_KILLED)), (CONSUMER, []))
    assert verdict.broken == []
    assert verdict.counted["gone with producers that were killed"] == 1


def test_an_acknowledgement_that_never_ended_may_have_been_heard(judged) -> None:
    verdict = judged(
        (PRODUCER, put(ONE)), (CONSUMER, [(2.0, PoolStep.GOT, ONE), (2.1, PoolStep.ACKING, ONE)])
    )
    assert verdict.broken == []
    assert verdict.counted["perhaps acknowledged by the killed"] == 1


def test_one_that_was_refused_was_not_heard(judged) -> None:
    refused = [(2.0, PoolStep.GOT, ONE), (2.1, PoolStep.ACKING, ONE), (2.2, PoolStep.LATE, ONE)]
    assert judged((PRODUCER, put(ONE)), (CONSUMER, refused)).properties[judging.LOST]


def test_what_comes_after_its_acknowledgement_is_doubled(judged) -> None:
    verdict = judged(
        (PRODUCER, put(ONE)), (CONSUMER, got(ONE, 2.0)), (OTHER, [(2.5, PoolStep.GOT, ONE)])
    )
    assert verdict.properties[judging.DOUBLED] == verdict.broken


def test_what_came_before_the_acknowledgement_was_only_delivered_again(judged) -> None:
    verdict = judged(
        (PRODUCER, put(ONE)), (CONSUMER, got(ONE, 2.0)), (OTHER, [(1.5, PoolStep.GOT, ONE)])
    )
    assert verdict.broken == []
    assert verdict.counted["delivered again"] == 1


def test_what_two_have_acknowledged_is_doubled(judged) -> None:
    verdict = judged((PRODUCER, put(ONE)), (CONSUMER, got(ONE, 2.0)), (OTHER, got(ONE, 1.9)))
    assert verdict.properties[judging.DOUBLED]


def test_what_nobody_put_is_foreign(judged) -> None:
    verdict = judged((PRODUCER, []), (CONSUMER, got(ONE, 2.0)))
    assert verdict.properties[judging.FOREIGN]


def test_what_was_refused_and_comes_all_the_same_is_told(judged) -> None:
    refused = [(1.0, PoolStep.INTENT, ONE), (1.1, PoolStep.REFUSED, ONE)]
    assert judged((PRODUCER, refused), (CONSUMER, got(ONE, 2.0))).properties[judging.UNDONE]


def test_what_producers_still_have_when_all_is_drained_is_told(judged, tmp_path: Path) -> None:
    (tmp_path / "drain.jsonl").write_text(json.dumps([9 * SECOND, "empty", []]) + "\n")
    left = [(10.0, PoolStep.LEFT, 2)]
    assert judged((PRODUCER, left), (CONSUMER, [])).properties[judging.EMPTY]


def test_damage_is_told(judged) -> None:
    assert judged((PRODUCER, []), (CONSUMER, [(2.0, PoolStep.DAMAGED, 7)])).properties[
        judging.DAMAGED
    ]


def test_a_consumer_that_idles_beside_a_full_producer_is_told(judged) -> None:
    verdict = judged(
        (PRODUCER, put(ONE, 3.0, 8.0)),
        (CONSUMER, [(4.0, PoolStep.ASKED, -1), *got(ONE, 7.0)]),
    )
    assert verdict.counted[IDLE] == 3.0
    (said,) = verdict.properties[judging.IDLE]
    assert said.startswith("consumer-0-0 idled for 3.00 s beside producer-0-0,")


def test_gets_that_follow_each_other_are_one_idling(judged) -> None:
    asked = [(4.0, PoolStep.ASKED, -1), (5.0, PoolStep.EMPTY, -1), (5.01, PoolStep.ASKED, -1)]
    verdict = judged((PRODUCER, put(ONE, 3.0, 8.0)), (CONSUMER, [*asked, *got(ONE, 6.0)]))
    assert verdict.counted[IDLE] == 2.0


def test_a_producer_that_was_killed_was_full_until_then(judged) -> None:
    full = [(3.0, PoolStep.INTENT, OF_THE_KILLED)]
    idle = [(4.0, PoolStep.ASKED, -1), (12.0, PoolStep.EMPTY, -1)]
    assert judged((KILLED, full), (CONSUMER, idle)).counted[IDLE] == 5.0


def test_who_has_just_come_is_not_known_yet(judged) -> None:
    verdict = judged(
        (PRODUCER, put(ONE, 0.1, 2.4)),
        (CONSUMER, [(0.1, PoolStep.ASKED, -1), *got(ONE, 2.4)]),
    )
    assert verdict.counted[IDLE] == 0


# --- what is excused ------------------------------------------------------------------------------


@pytest.fixture
def injured(tmp_path: Path):
    """Writes down (from, to, fault, to whom), as the storm does."""

    def writing(*spells: tuple[float, float, Fault, str]) -> None:
        lines = [
            StormEvent(at=round(at * SECOND), what=what, fault=fault, who=who)
            for begin, end, fault, who in spells
            for at, what in ((begin, Happened.BEGINS), (end, Happened.ENDS))
        ]
        text = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        (tmp_path / "events.jsonl").write_bytes(text)

    return writing


@pytest.mark.parametrize("who", ["consumer-0-0", "producer-0-0", "consumer-0", "producer-0"])
def test_who_stands_still_or_is_slow_is_not_judged_by_the_clock(judged, injured, who: str) -> None:
    injured((4.5, 6.5, Fault.SLOW, who))
    verdict = judged(
        (PRODUCER, put(ONE, 3.0, 8.0)),
        (CONSUMER, [(4.0, PoolStep.ASKED, -1), *got(ONE, 7.5)]),
    )
    assert verdict.counted[IDLE] == 1.0
    assert verdict.broken == []


def test_but_the_time_before_and_after_counts(judged, injured) -> None:
    injured((4.5, 6.0, Fault.STOP, "consumer-0-0"))
    asked = [(4.0, PoolStep.ASKED, -1), *got(ONE, 8.0)]
    assert judged((PRODUCER, put(ONE, 3.0, 9.0)), (CONSUMER, asked)).counted[IDLE] == 2.0


def test_the_stop_of_another_excuses_nobody(judged, injured) -> None:
    injured((4.0, 8.0, Fault.STOP, "consumer-1-0"))
    asked = [(4.0, PoolStep.ASKED, -1), *got(ONE, 7.0)]
    verdict = judged((PRODUCER, put(ONE, 3.0, 8.0)), (CONSUMER, asked), (OTHER, []))
    assert verdict.counted[IDLE] == 3.0


def test_a_producer_may_be_full_of_what_one_has_borrowed_that_stands_still(judged, injured) -> None:
    injured((4.0, 7.0, Fault.STOP, "consumer-1-0"))
    full = [*put(ONE, 1.0, 1.1), *put(ONE + 1, 3.0, 8.0)]
    asked = [(4.0, PoolStep.ASKED, -1), *got(ONE + 1, 8.1)]
    borrowed = [(3.2, PoolStep.ASKED, -1), *got(ONE, 7.1)]
    verdict = judged((PRODUCER, full), (CONSUMER, asked), (OTHER, borrowed))
    assert verdict.counted[IDLE] == 1.0


def test_who_stood_still_writes_down_late_what_it_got(judged, injured) -> None:
    injured((1.5, 4.0, Fault.STOP, "consumer-1-0"))
    late = [(1.4, PoolStep.ASKED, -1), (4.1, PoolStep.GOT, ONE), (4.2, PoolStep.ACKING, ONE)]
    verdict = judged(
        (PRODUCER, put(ONE)), (CONSUMER, got(ONE, 2.0)), (OTHER, [*late, (4.3, PoolStep.LATE, ONE)])
    )
    assert verdict.counted["delivered again"] == 1
    assert verdict.broken == []


def test_but_what_it_asks_for_much_later_is_doubled(judged, injured) -> None:
    injured((1.5, 4.0, Fault.STOP, "consumer-1-0"))
    verdict = judged(
        (PRODUCER, put(ONE)), (CONSUMER, got(ONE, 2.0)), (OTHER, [(9, PoolStep.GOT, ONE)])
    )
    assert verdict.properties[judging.DOUBLED]


def test_who_came_while_a_node_was_gone_is_known_later(judged, injured) -> None:
    injured((0.0, 4.0, Fault.KILL, "n1"))
    asked = [(1.0, PoolStep.ASKED, -1), *got(ONE, 9.0)]
    assert judged((PRODUCER, put(ONE, 1.0, 8.0)), (CONSUMER, asked)).counted[IDLE] == 1.5


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
    assert list(read(journal)) == [PoolLine(1, PoolStep.KEPT, (7,))]


def test_a_body_that_was_changed_is_damaged() -> None:
    body = ObjectBodies(1000).make(7, 500)
    assert id_of(body) == 7
    for at in (0, 100, 499):
        changed = bytearray(body)
        changed[at] ^= 1
        with pytest.raises(DamagedBody):
            id_of(changed)
    with pytest.raises(DamagedBody):
        id_of(body[:-1])


IDLING = (
    (PRODUCER, [(3.0, PoolStep.INTENT, ONE), (9.0, PoolStep.KEPT, ONE)]),
    (CONSUMER, [(3.0, PoolStep.ASKED, -1), (7.0, PoolStep.GOT, OF_THE_KILLED), *got(ONE, 9.5)]),
    (KILLED, put(OF_THE_KILLED)),
)


@pytest.mark.parametrize(("waited", "told"), [(1.0, (1, 0)), (3.0, (0, 1))])
def test_what_the_machine_may_have_added_is_told_and_not_judged(
    judged, tmp_path: Path, waited: float, told: tuple[int, int]
) -> None:
    line = [3 * SECOND, 7 * SECOND, "n1", round(waited * SECOND)]
    (tmp_path / STARVED).write_text(json.dumps(line) + "\n")
    verdict = judged(*IDLING)
    assert verdict.counted[IDLE] == 4.0
    assert (len(verdict.broken), len(verdict.unjudged)) == told
    assert f"stood in line for a processor for {waited:.2f} s" in str(verdict)


def test_a_process_that_computes_beside_others_stands_in_line() -> None:
    """Or the system does not tell; it never tells less than before."""
    first = waited(os.getpid())
    again = waited(os.getpid())
    assert all(again[one] >= first[one] for one in first)
    assert waited(1 << 30) == {}


def test_what_a_stopped_producer_had_begun_to_give_is_waited_for_until_it_is_given_up(
    judged, injured
) -> None:
    injured((4.0, 9.0, Fault.STOP, "producer-2-0"))
    assert judged(*IDLING).counted[IDLE] == 1.0


@pytest.mark.parametrize("kept", [(6, 0, 10), (5, 0, 1001)])
def test_a_producer_that_keeps_more_than_it_may_is_told(judged, tmp_path: Path, kept) -> None:
    assert judged((PRODUCER, put(ONE)), (CONSUMER, got(ONE, 2.0))).broken == []
    line = json.dumps([3 * SECOND, "stock", kept]) + "\n"
    with (tmp_path / f"{PRODUCER.name}.jsonl").open("a") as journal:
        journal.write(line)
    found = judge_pool(tmp_path, [PRODUCER, CONSUMER], 1.5, Room(5, 1000))
    assert len(found.properties[judging.ROOM]) == 1
