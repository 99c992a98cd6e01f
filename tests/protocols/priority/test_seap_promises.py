"""What queues with any priorities promise, where it was found broken once."""

import struct
from random import Random
from typing import Any

import msgspec
import pytest
from priority_bench import CLIENT, Nodes, bodies, receipt
from test_seap_nodes import SMALL, numbers, opened, put

from snowmelt.core.batch import Batch as Bodies
from snowmelt.core.instant import seconds
from snowmelt.core.keys import KEY_MAX, KEY_MIN, of_float, packed, unpacked
from snowmelt.core.node import Announced
from snowmelt.protocols.calling import Declined, Gone
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.settings import ANY


def kinds_lost(nodes: Nodes, *kinds: str, to: str = "") -> list[Any]:
    """Loses messages of these kinds, to one node or to all; what is lost from now on."""
    held: list[Any] = []

    def lost(_: str, target: str, one: Any) -> bool:
        if type(one).__name__ in kinds and to in ("", target):
            held.append(one)
            return True
        return False

    nodes.lost = lost
    return held


def heard_again(nodes: Nodes) -> None:
    nodes.lost = lambda *_: False


@pytest.mark.parametrize(("read", "recent"), [(1_000, 1_500), (400, 10_000), (1, 0)])
def test_what_is_too_much_to_be_read_at_once_is_not_passed(read: int, recent: int) -> None:
    nodes = opened(1, Limits(read=read, recent=recent))
    keys = list(range(20))
    Random(3).shuffle(keys)
    for key in keys:  # each in a lot of its own; the bodies of the last few are at hand
        batch = Bodies.of([b"%d" % key + bytes(300)])
        part = calls.Part(0, bytes(batch.offsets), bytes(batch.blob), packed([key]))
        nodes.call("n1", calls.Put("jobs", nodes.via("n1"), (part,)))
    found: list[int] = []
    while some := bodies(nodes.get("n1", 20)):
        found += [int(body.rstrip(b"\0")) for body in some]
    assert found == list(range(20))


def test_a_body_that_is_at_hand_no_more_when_the_others_are_read_is_read_too() -> None:
    nodes = opened(1, Limits(recent=350))
    for key in (2, 1):  # the body of 1 is at hand, and that of 2 has to be read
        batch = Bodies.of([b"%d" % key + bytes(300)])
        part = calls.Part(0, bytes(batch.offsets), bytes(batch.blob), packed([key]))
        nodes.call("n1", calls.Put("jobs", nodes.via("n1"), (part,)))
    shelf = nodes.nodes["n1"]._queues.all["jobs"].shelf
    loaded = nodes.disks["n1"].answer

    def meanwhile(effect: Any) -> Any:
        shelf._recent._kept.clear()
        return loaded(effect)

    nodes.disks["n1"].answer = meanwhile  # type: ignore[method-assign]
    assert [int(body.rstrip(b"\0")) for body in bodies(nodes.get("n1", 2))] == [1, 2]


def test_what_is_selected_is_there_though_others_take_what_had_the_rank() -> None:
    nodes = opened(3, SMALL, replicas=1)
    put(nodes, "n1", *range(40))
    held = kinds_lost(nodes, "Read")
    look = nodes.ask("n2", calls.Select("jobs", 1))
    nodes.pass_time(0.05)
    assert held
    assert nodes.told(look) is None
    heard_again(nodes)
    assert nodes.settle("n1", done=(receipt(nodes.get("n1", 5)),)) == calls.Settled()
    nodes.pass_time(5)
    assert numbers(nodes.told(look)) == [5]


def test_what_nobody_can_show_is_not_said_not_to_be() -> None:
    nodes = opened(3, SMALL, replicas=2)
    put(nodes, "n1", *range(40))
    kinds_lost(nodes, "Fetched")
    nodes.view("n1", "n2")
    told = [nodes.call("n1", calls.Select("jobs", rank)) for rank in range(1, 41)]
    away = [one for one in told if isinstance(one, Declined)]
    assert away
    assert {one.error for one in away} == {"Unavailable"}
    assert all(isinstance(one, Declined) or one.pieces for one in told)
    heard_again(nodes)
    nodes.pass_time(5)
    assert numbers(nodes.call("n1", calls.Select("jobs", 40))) == [39]


def test_a_queue_is_not_said_to_be_empty_while_something_comes_back() -> None:
    nodes = opened(3, SMALL, replicas=1)
    put(nodes, "n1", 7)
    leased = nodes.get("n1")
    kinds_lost(nodes, "Read")
    look = nodes.ask("n2", calls.Statistics("jobs"))
    nodes.pass_time(0.05)
    assert nodes.settle("n1", back=(receipt(leased),)) == calls.Settled()
    heard_again(nodes)
    nodes.pass_time(5)
    status = nodes.told(look)
    assert sum(some.count for some in status.ready) + status.leased == 1


@pytest.mark.parametrize("keyed", [True, False])
def test_what_is_leased_and_lies_with_another_is_counted(*, keyed: bool) -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=2, priorities=ANY if keyed else 1)
    if keyed:
        put(nodes, "n1", *range(40))
    else:
        nodes.put("n1", *[(0, b"x")] * 40)
    assert len(bodies(nodes.get("n1", 40))) == 40
    kinds_lost(nodes, "Fetched")
    nodes.view("n1", "n2")
    status = nodes.call("n1", calls.Statistics("jobs"))
    assert status.leased == 40


def test_what_comes_back_is_said_when_all_know_that_a_phase_has_begun() -> None:
    nodes = opened(3, SMALL, replicas=1)
    put(nodes, "n1", *range(40))
    anchor = nodes.anchor("n1")
    leased = nodes.get(anchor, 12)
    deaf = next(name for name in ("n1", "n2", "n3") if name != anchor)
    kinds_lost(nodes, "Asked", to=deaf)
    get = nodes.ask(anchor, nodes.get_call(anchor, 3))
    nodes.pass_time(0.05)
    back = nodes.ask(anchor, calls.Settle("jobs", back=(receipt(leased),)))
    nodes.pass_time(0.5)
    assert nodes.told(get) is None
    assert nodes.told(back) is None, "who puts now, at the deaf one, would be before it"
    heard_again(nodes)
    nodes.pass_time(5)
    assert nodes.told(back) == calls.Settled()
    assert sorted([*numbers(nodes.told(get)), *numbers(nodes.get("n2", 40))]) == list(range(40))


def test_who_asks_again_for_what_was_his_takes_it_from_nobody() -> None:
    nodes = opened(3, SMALL, replicas=1, lease=seconds(1))
    put(nodes, "n1", *range(10))
    first = nodes.ask("n1", nodes.get_call("n1", 4))
    nodes.pass_time(3)  # its lease ends
    kinds_lost(nodes, "Seek")
    nodes.ask("n2", nodes.get_call("n2", 4))  # chosen for this one
    nodes.pass_time(0.1)
    nodes.ask("n1", nodes.get_call("n1", 4), first)
    nodes.pass_time(0.1)
    nodes.nodes["n2"]._queues.all["jobs"].door._hand.all.clear()
    heard_again(nodes)
    nodes.pass_time(5)
    assert numbers(nodes.get("n1", 10)) == list(range(10))


def test_a_get_of_very_many_has_the_first_of_them_and_a_purge_takes_all() -> None:
    nodes = opened(3, Limits(given=10), replicas=1)
    put(nodes, "n1", *range(64))
    assert numbers(nodes.get("n2", 1_000)) == list(range(10))
    assert nodes.call("n3", calls.Purge("jobs", nodes.via("n3"))) == calls.Counted(54)


def test_a_key_that_is_of_no_fraction_is_refused() -> None:
    nodes = opened(1, floats=True)
    (nan,) = struct.unpack(">q", struct.pack(">d", float("nan")))
    bodies_of = Bodies.of([b"a", b"b"])
    for key in (nan, KEY_MIN, KEY_MAX, of_float(float("inf")) + 1):
        part = calls.Part(0, bytes(bodies_of.offsets), bytes(bodies_of.blob), packed([0, key]))
        refusal = nodes.call("n1", calls.Put("jobs", nodes.via("n1"), (part,)))
        assert refusal.error == "BadOption"
    put(nodes, "n1", of_float(float("inf")), of_float(float("-inf")), of_float(-0.0))
    assert (
        sorted(one for piece in nodes.get("n1", 3).pieces for one in unpacked(piece.keys))[1] == 0
    )


def test_a_view_begins_with_few_words_however_much_lies_scattered() -> None:
    def largest(elements: int) -> int:
        nodes = opened(4, Limits(block=64, deal=0), replicas=1)
        put(nodes, "n1", *[at % 2 for at in range(elements)])
        nodes.settle("n1", done=(receipt(nodes.get("n1", elements // 2)),))
        nodes.sent.clear()
        nodes.view("n1", "n2", "n3", "n4")
        nodes.pass_time(1)
        assert numbers(nodes.get("n2", elements)) == [1] * (elements // 2)
        return max(len(msgspec.msgpack.encode(one)) for _, _, one in nodes.sent_of("Climb"))

    assert largest(2_000) < 1.3 * largest(200)


def test_a_queue_with_a_bound_knows_its_room_in_the_next_view() -> None:
    nodes = opened(3, SMALL, replicas=1, items_max=40)
    put(nodes, "n1", *range(40))
    nodes.settle("n1", done=(receipt(nodes.get("n1", 10)),))
    nodes.view("n1", "n2", "n3")
    put(nodes, "n2", *range(10))
    batch = Bodies.of([b"one more"])
    part = calls.Part(0, bytes(batch.offsets), bytes(batch.blob), packed([1]))
    assert nodes.call("n3", calls.Put("jobs", nodes.via("n3"), (part,))).error == "Full"


def test_who_waits_for_very_many_uses_no_numbers_up() -> None:
    nodes = opened(3, replicas=1)
    nodes.at_once("n1", [nodes.get_call("n1", 30_000, patience=1_000) for _ in range(50)])
    orders = []
    for _ in range(3):
        put(nodes, "n2", 1)
        orders.append(nodes.get("n3", 1).order)
    assert orders[2] - orders[0] < 30_000


@pytest.mark.parametrize("keyed", [True, False])
def test_who_comes_back_for_what_he_asked_is_answered(*, keyed: bool) -> None:
    nodes = Nodes(3, SMALL)
    nodes.open("n1", replicas=1, priorities=ANY if keyed else 1)
    door = next(name for name in ("n1", "n2", "n3") if name != nodes.anchor("n1"))
    if keyed:
        put(nodes, "n1", *range(10))
    else:
        nodes.put("n1", *[(0, b"%d" % at) for at in range(10)])
    kinds_lost(nodes, "Granted")
    get = nodes.ask(door, nodes.get_call(door, 3, patience=60))
    nodes.give(door, Announced(Gone(CLIENT)))  # its connection breaks, and is there again
    nodes.ask(door, nodes.get_call(door, 3, patience=60), get)
    heard_again(nodes)
    nodes.pass_time(5)
    assert numbers(nodes.told(get)) == [0, 1, 2]


def test_what_lies_together_is_told_together_whatever_keys_it_has() -> None:
    nodes = opened(1)
    for first in (0, 1, 2):
        put(nodes, "n1", *range(first, 300, 3))
    leased = nodes.get("n1", 90)
    assert len(leased.pieces) == 3
    assert numbers(leased) == list(range(90))
    light = msgspec.structs.replace(nodes.get_call("n1", 90), bytes_max=400)
    rest = nodes.call("n1", light)  # too much for one answer: the first of it
    assert numbers(rest) == list(range(90, 90 + len(rest.pieces)))
    assert nodes.settle("n1", done=(receipt(leased), receipt(rest))) == calls.Settled()
    assert numbers(nodes.get("n1", 1_000)) == list(range(90 + len(rest.pieces), 300))


@pytest.mark.parametrize("leaving", ["n1", "n2"])
def test_a_get_that_begins_anew_forgets_what_it_was_told_by_who_has_left(leaving: str) -> None:
    nodes = opened(3, Limits(block=1, deal=0, read=1, recent=0), replicas=1)
    for key in range(9):  # each in a lot of its own: a home tells its first one
        put(nodes, "n3", key)
    nodes.lost = lambda source, _, one: type(one).__name__ == "Taken" and source != leaving
    get = nodes.ask("n3", nodes.get_call("n3", 9, 60))
    nodes.pass_time(0.5)
    heard_again(nodes)
    nodes.view(*[name for name in ("n1", "n2", "n3") if name != leaving])
    nodes.pass_time(5)
    assert numbers(nodes.told(get)), "there are others, if not as urgent as what has left"
