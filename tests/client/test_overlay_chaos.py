"""Nodes and clients of a real priority queue are killed and stopped, and no promise is broken.

Beside it: the judge finds what is wrong in journals written by hand.
"""

import sys
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import chaos_runs
from snowmelt.core.instant import Duration
from snowmelt.protocols.priority.calls import Leased

sys.path.insert(0, str(chaos_runs.ROOT))

from benchmarks.chaos.journals import Journal
from benchmarks.overlay_chaos_parts.client import got_orders
from benchmarks.overlay_chaos_parts.draining import DRAIN
from benchmarks.overlay_chaos_parts.journal import Line, What
from benchmarks.overlay_chaos_parts.judging import Judgement, judge
from benchmarks.overlay_chaos_parts.plan import Plan

EPOCH = 7 << 40


def survives(folder: Path, *options: str, timeout: float) -> Any:
    code, result, said = chaos_runs.run("overlay_chaos.py", folder, *options, timeout=timeout)
    assert result["broken"] == []
    assert code == 0, said
    judged = result["judgement"]
    assert (judged["lost"], judged["revived"], judged["doubled"]) == (0, 0, 0)
    assert judged["put"] > 20
    assert judged["put"] == judged["acknowledged"] + judged["drained"] + judged["perhaps"]
    return result


def test_nothing_is_lost_or_passed_while_nodes_come_go_and_are_killed(tmp_path: Path) -> None:
    small = ("--nodes", "3", "--clients", "4", "--seconds", "8", "--lease", "2")
    result = survives(tmp_path, *small, "--every", "1.5", timeout=100)
    assert sum(result["done"].values()) >= 2


@pytest.mark.soak
@pytest.mark.parametrize("replicas", ["2", "3"])
def test_nothing_is_lost_or_passed_in_two_minutes_of_it(tmp_path: Path, replicas: str) -> None:
    survives(tmp_path, "--replicas", replicas, timeout=900)


@pytest.mark.soak
@pytest.mark.parametrize("priorities", ["int", "float"])
def test_the_same_of_any_64_bit_priorities(tmp_path: Path, priorities: str) -> None:
    survives(tmp_path, "--priorities", priorities, timeout=900)


# --- journals written by hand ---------------------------------------------------------------------


def put(at: int, id_: int, priority: int, order: int) -> list[Line]:
    who, ids, where = "client-0-0", (id_,), (EPOCH + order,)
    return [
        Line(at, who, What.PUTTING, ids=ids, priorities=(priority,)),
        Line(at + 1, who, What.PUT, ids=ids, positions=where, orders=where),
    ]


def got(at: int, id_: int, priority: int, position: int, order: int) -> list[Line]:
    who, ids = "client-1-0", (id_,)
    return [
        Line(at, who, What.GETTING, most=1),
        Line(
            at + 1, who, What.GOT, ids=ids, priorities=(priority,), positions=(EPOCH + position,),
            orders=(EPOCH + order,), failures=(0,), token=EPOCH + order, most=5,
        ),
    ]  # fmt: skip


def acked(at: int, id_: int, order: int) -> list[Line]:
    who, ids, token = "client-1-0", (id_,), EPOCH + order
    return [
        Line(at, who, What.ACKING, ids=ids, token=token),
        Line(at + 1, who, What.SETTLED, ids=ids, token=token),
    ]


def judged(folder: Path, *parts: list[Line], priorities: int | str = 2) -> Judgement:
    folder.mkdir(exist_ok=True)
    with Journal(folder / "clients-0-0.jsonl") as journal:
        for line in (line for part in parts for line in part):
            journal.add(line)
    with Journal(folder / f"{DRAIN}.jsonl") as journal:
        journal.add(Line(1000, DRAIN, What.EMPTIED))
    return judge(folder, plan_of(priorities, folder), 1, 900)


def plan_of(priorities: int | str, folder: Path = Path()) -> Plan:
    return Plan(
        url="", place=str(folder), replicas=2, priorities=priorities, clients=4, items=1, size=10,
        bound=9, deliveries=3, lease=1.0, timeout=1.0, pause=0.1, forget=0.0, nack=0.0, seed=1,
    )  # fmt: skip


PUTS = [*put(10, 1, 1, 0), *put(20, 2, 0, 1)]


def test_a_history_as_it_should_be_is_not_blamed(tmp_path: Path) -> None:
    second, first = got(30, 2, 0, 1, 2), got(50, 1, 1, 0, 3)
    found = judged(tmp_path, PUTS, second, acked(40, 2, 2), first, acked(60, 1, 3))
    assert found.broken == []
    assert (found.put, found.acknowledged, found.judged) == (2, 2, 2)


def test_what_is_never_acknowledged_though_all_was_emptied_is_lost(tmp_path: Path) -> None:
    found = judged(tmp_path, PUTS, got(30, 2, 0, 1, 2), acked(40, 2, 2), got(50, 1, 1, 0, 3))
    assert found.lost == 1


def test_who_gets_the_less_urgent_is_found(tmp_path: Path) -> None:
    first, second = got(30, 1, 1, 0, 2), got(50, 2, 0, 1, 3)
    found = judged(tmp_path, PUTS, first, acked(40, 1, 2), second, acked(60, 2, 3))
    assert any("more urgent item was passed" in one for one in found.broken)


def test_what_comes_after_its_acknowledgement_is_found(tmp_path: Path) -> None:
    first, again = got(30, 2, 0, 1, 2), got(50, 2, 0, 1, 3)
    found = judged(tmp_path, PUTS, first, acked(40, 2, 2), again, acked(60, 2, 3))
    assert (found.revived, found.doubled) == (1, 1)


def test_what_stands_at_two_places_is_found(tmp_path: Path) -> None:
    found = judged(tmp_path, PUTS, got(30, 2, 0, 5, 2), acked(40, 2, 2))
    assert any("stands at" in one for one in found.broken)


def test_with_any_priorities_items_of_one_phase_may_come_in_any_order(tmp_path: Path) -> None:
    low, high = plan_of("int").key(-(1 << 63)), plan_of("float").key(0.5)
    puts = [*put(10, 1, high, 0), *put(20, 2, low, 1)]
    first, second = got(30, 1, high, 0, 4), got(50, 2, low, 1, 4)
    told = [puts, first, acked(40, 1, 4), second, acked(60, 2, 4)]
    found = judged(tmp_path / "phase", *told, priorities="int")
    assert found.broken == []
    later = [puts, first, acked(40, 1, 4), got(50, 2, low, 1, 5), acked(60, 2, 5)]
    found = judged(tmp_path / "later", *later, priorities="int")
    assert any("more urgent item was passed" in one for one in found.broken)


def test_what_is_told_again_by_one_who_does_not_know_its_phase_has_no_order(tmp_path: Path) -> None:
    plan, again = plan_of("int"), Leased(EPOCH + 4, (), Duration(5), 0)
    assert got_orders(plan, again, 2) == ()
    assert got_orders(plan, msgspec.structs.replace(again, order=9), 2) == (9, 9)
    assert got_orders(plan_of(4), msgspec.structs.replace(again, order=9), 2) == (9, 10)
    puts = [*put(10, 1, 0, 0), *put(20, 2, 0, 1)]
    (begun, answer), second = got(30, 2, 0, 1, 4), got(50, 1, 0, 0, 4)
    told = [begun, msgspec.structs.replace(answer, orders=())]
    found = judged(tmp_path, puts, told, acked(40, 2, 4), second, acked(60, 1, 4), priorities="int")
    assert found.broken == []


def test_priorities_that_are_drawn_keep_their_order_as_keys() -> None:
    for kind in ("int", "float"):
        plan, chance = plan_of(kind), Random(1)
        drawn = sorted(plan.priority(chance) for _ in range(300))
        keys = [plan.key(one) for one in drawn]
        assert keys == sorted(keys)
        assert len(set(keys)) > 90
