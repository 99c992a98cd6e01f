"""Nodes of a real cluster are killed under load, and no promise of a queue is broken.

Beside it: the judge finds what is wrong in histories written by hand.
"""

import shutil
from pathlib import Path

import msgspec
import pytest

import chaos_runs
from snowmelt_world.check import Ended, Kind, Operation
from snowmelt_world.storms.events import Happened, StormEvent
from snowmelt_world.storms.family import Judgement
from snowmelt_world.storms.faults import Fault
from snowmelt_world.storms.queues import judging
from snowmelt_world.storms.queues.recording import SeenPlaces
from wide import wide

NEEDS_ETCD = pytest.mark.skipif(shutil.which("etcd") is None, reason="no etcd is installed")
KINDS = ("fifo", "priority", "any")


@pytest.mark.parametrize("kind", ["fifo", *wide("any")])
def test_nothing_is_lost_or_passed_while_nodes_are_killed_for_7_seconds(
    tmp_path: Path, kind: str
) -> None:
    result = chaos_runs.survives(
        kind,
        tmp_path,
        *("--nodes", "3", "--clients", "8", "--set", "processes=1", "--seed", "1"),
        *("--minutes", "0.12", "--every", "2", "--faults", "kill"),
        timeout=100,
    )
    assert result["faults"]["kill node"] >= 2
    assert not list(tmp_path.iterdir())


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_in_two_minutes_of_all_that_can_be_done_to_a_cluster(
    tmp_path: Path, kind: str
) -> None:
    """Kinds that need root and Linux are left out where they can't be done."""
    chaos_runs.survives(kind, tmp_path, "--clients", "32", timeout=600)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_with_the_disk_of_the_node_that_decides(tmp_path: Path, kind: str) -> None:
    few = ("--nodes", "3", "--clients", "8", "--minutes", "0.5", "--seed", "1")
    result = chaos_runs.survives(
        kind, tmp_path, *few, "--faults", "lose", "--every", "5", timeout=300
    )
    assert result["faults"]["lose node"] >= 1


@pytest.mark.wide
@NEEDS_ETCD
def test_nothing_is_lost_where_etcd_decides_and_one_at_a_time_is_hurt(tmp_path: Path) -> None:
    result = chaos_runs.survives(
        "priority",
        tmp_path,
        *("--nodes", "3", "--clients", "4", "--etcd", "--at-once", "1"),
        *("--minutes", "0.2", "--every", "2", "--faults", "kill,stop", "--seed", "2"),
        timeout=110,
    )
    assert sum(result["faults"].values()) >= 2


# --- histories written by hand --------------------------------------------------------------------

SECOND = 1_000_000_000


def put(*items: int, at: float, position: int = 0) -> Operation:
    return one("p", Kind.PUT, items, at, position=position)


def got(*items: int, at: float) -> Operation:
    return one("c", Kind.GET, items, at)


def acked(*items: int, at: float) -> Operation:
    return one("c", Kind.ACK, items, at)


def one(
    who: str,
    kind: Kind,
    items: tuple[int, ...],
    at: float,
    ended: Ended = Ended.SUCCEEDED,
    position: int | None = None,
) -> Operation:
    called = round(at * SECOND)
    return Operation(who, kind, items, called, called + SECOND // 10, ended, position)


DRAINED = one("drain", Kind.DRAIN, (), 90)


@pytest.fixture
def judged(tmp_path: Path):
    """Judges what a process of clients saw, and where items lay; nobody was hit but as said."""

    def judging_(
        *seen: Operation, places: SeenPlaces | None = None, events: tuple[StormEvent, ...] = ()
    ) -> Judgement:
        text = b"".join(msgspec.json.encode(line) + b"\n" for line in seen)
        (tmp_path / "history-clients-0-0.jsonl").write_bytes(text)
        found = msgspec.msgpack.encode(places or SeenPlaces())
        (tmp_path / "places-clients-0-0.msgpack").write_bytes(found)
        lines = b"".join(msgspec.json.encode(line) + b"\n" for line in events)
        (tmp_path / "events.jsonl").write_bytes(lines)
        return judging.judge_queue(tmp_path, 60.0, 80 * SECOND)

    return judging_


GOOD = (put(1, 2, at=1), got(1, 2, at=2), acked(1, 2, at=3), DRAINED)


def test_what_comes_in_order_and_is_acknowledged_breaks_nothing(judged) -> None:
    verdict = judged(*GOOD)
    assert verdict.broken == []
    assert (verdict.operations, verdict.longest_wait_s) == (4, 0.1)


@pytest.mark.parametrize(
    ("promise", "seen"),
    [
        (judging.LOST, (put(1, 2, at=1), got(1, at=2), acked(1, at=3), DRAINED)),
        (judging.REVIVED, (*GOOD, got(1, at=50))),
        (judging.FOREIGN, (*GOOD[:-1], got(7, at=50), DRAINED)),
        (judging.ORDER, (put(1, at=1), put(2, at=2, position=1), got(2, at=3), got(1, at=4))),
    ],
)
def test_each_promise_that_is_broken_is_found(judged, promise: str, seen) -> None:
    assert judged(*seen).properties[promise]


def test_what_was_never_drained_is_not_said_to_be_there(judged) -> None:
    assert judged(put(1, at=1)).properties[judging.LOST]


def test_an_item_that_lies_at_two_places_is_found(judged) -> None:
    places = SeenPlaces()
    places.got(1, 5, 0)
    places.got(1, 6, 1)
    assert judged(*GOOD, places=places).properties[judging.DOUBLED] == ["item 1 is at [5, 6]"]


def test_a_token_that_two_leases_have_is_found(judged) -> None:
    places, others = SeenPlaces(), SeenPlaces()
    places.leased(8)
    others.leased(8)
    places.add(others)
    found = judged(*GOOD, places=places).properties[judging.TOKENS]
    assert found == ["token 8 was given 2 times"]


def test_a_wait_beside_a_fault_is_told_apart(judged) -> None:
    long = Operation("p", Kind.PUT, (9,), 10 * SECOND, 15 * SECOND, position=2)
    hit = {"fault": Fault.KILL, "who": "n1", "part": "node"}
    events = (
        StormEvent(at=11 * SECOND, what=Happened.BEGINS, **hit),
        StormEvent(at=12 * SECOND, what=Happened.ENDS, **hit),
    )
    verdict = judged(*GOOD[:-1], long, got(9, at=20), DRAINED, events=events)
    assert verdict.longest_wait_s == 5.0
    assert verdict.counted["longest put that met no fault (s)"] == 0.1
