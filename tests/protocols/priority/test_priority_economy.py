"""What an operation costs is counted: flushes, messages, and what is looked at."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from priority_bench import Nodes, bodies, receipt

from snowmelt.core.batch import Batch as Bodies
from snowmelt.core.instant import later, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.keys import packed
from snowmelt.core.names import NodeId
from snowmelt.core.node import Expired, Persist, SetTimer
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.batches import Share
from snowmelt.protocols.priority.calls import Receipt
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.messages import (
    SEVERAL_BYTES,
    Elements,
    Fetched,
    Followed,
    Several,
    together,
)
from snowmelt.protocols.priority.rows import GOT, Rows
from snowmelt.protocols.priority.settings import ANY, QueueSettings


def test_what_comes_while_the_disk_writes_is_flushed_together() -> None:
    nodes = Nodes(1)
    nodes.open("n1")
    nodes.hanging.add("n1")
    puts = [nodes.ask("n1", nodes.put_call("n1", (0, b"%d" % at))) for at in range(64)]
    nodes.flush()
    assert all(nodes.told(number) is not None for number in puts)
    assert nodes.written[-2:] == [2, 2]

    nodes.hanging.add("n1")
    gets = [nodes.ask("n1", nodes.get_call("n1")) for _ in range(64)]
    nodes.flush()
    assert [bodies(nodes.told(number)) for number in gets] == [[b"%d" % at] for at in range(64)]
    assert nodes.written[-2:] == [1, 63]


def test_what_any_node_is_asked_while_its_disk_writes_climbs_together() -> None:
    nodes = Nodes(2, Limits(block=2, deal=2))
    nodes.open("n1", replicas=1)
    door = next(name for name in ("n1", "n2") if name != nodes.anchor("n1"))
    nodes.hanging.add(door)
    puts: list[int] = []
    while not nodes._hung:  # until its own disk has something to write
        puts.append(nodes.ask(door, nodes.put_call(door, (0, b"%d" % len(puts)))))
    nodes.sent.clear()
    puts += [nodes.ask(door, nodes.put_call(door, (0, b"%d" % at))) for at in range(8)]
    assert nodes.sent_of("Climb") == []
    nodes.flush()
    (climb,) = [one for _, _, one in nodes.sent_of("Climb")]
    assert [some.count for run in climb.batch.runs for some in run.puts] == [8]
    assert all(nodes.told(number) is not None for number in puts)


def test_who_waits_in_vain_while_the_disk_writes_hears_so_when_it_has() -> None:
    nodes = Nodes(1)
    nodes.open("n1")
    nodes.hanging.add("n1")
    put = nodes.ask("n1", nodes.put_call("n1", (0, b"one")))
    got = nodes.ask("n1", nodes.get_call("n1", 2))
    late = nodes.ask("n1", calls.Get("jobs", nodes.via("n1"), 1, seconds(0)))
    nodes.flush()
    assert nodes.told(put) is not None
    assert bodies(nodes.told(got)) == [b"one"]
    assert bodies(nodes.told(late)) == []


def test_what_is_settled_with_a_get_is_flushed_with_its_lease() -> None:
    nodes = Nodes(3)
    nodes.open("n1", replicas=3)
    nodes.put("n1", (0, b"one"), (0, b"two"))
    held = nodes.get("n1")
    before = len(nodes.written)
    settle = calls.Settle("jobs", done=(receipt(held),))
    number = nodes.ask("n1", calls.Get("jobs", nodes.via("n1"), 1, seconds(0), settle))
    assert bodies(nodes.told(number)) == [b"two"]
    assert len(nodes.written) - before == 3


def test_what_is_to_be_settled_first_does_not_wait_for_long() -> None:
    nodes = Nodes(3)
    nodes.open("n1", replicas=3)
    nodes.put("n1", (0, b"one"))
    held = nodes.get("n1")
    nodes.lost = lambda _from, _to, message: "Granted" in named(message)
    settle = calls.Settle("jobs", done=(receipt(held),))
    doors = ["n1", "n2", "n3"]
    asked = [calls.Get("jobs", nodes.via(door), 1, seconds(9), settle) for door in doors]
    for door, call in zip(doors, asked, strict=True):
        nodes.ask(door, call)
    nodes.pass_time(0.25)
    assert nodes.settle("n1", done=(receipt(held),)) == calls.Settled()
    assert nodes.sent_of("End")


def test_the_gets_of_a_wave_and_what_they_settle_are_one_message_to_their_home() -> None:
    nodes = Nodes(3)
    nodes.open("n1", replicas=3)
    door = next(name for name in ("n1", "n2", "n3") if name != nodes.anchor("n1"))
    nodes.put(door, *[(0, b"%d" % at) for at in range(12)])
    held = [nodes.get(door) for _ in range(6)]
    nodes.sent.clear()
    settles = [calls.Settle("jobs", done=(receipt(one),)) for one in held]
    gets = [calls.Get("jobs", nodes.via(door), 1, seconds(0), one) for one in settles]
    numbers = [nodes.ask(door, get) for get in gets[:1]] + nodes.at_once(door, gets[1:])
    nodes.pass_time(0.1)
    assert [bodies(nodes.told(number)) for number in numbers] == [
        [b"%d" % at] for at in range(6, 12)
    ]
    assert [len(one.wants) for _, _, one in nodes.sent_of("Take")] == [1, 1, 4]
    assert [len(one.words) for _, _, one in nodes.sent_of("End")] == [1, 1, 4]
    assert nodes.get(door).pieces == ()


@pytest.mark.parametrize("lossy", [False, True], ids=["all is heard", "an answer is lost"])
def test_a_get_whose_element_is_on_its_way_holds_up_no_other_of_its_wave(lossy: bool) -> None:
    nodes = Nodes(3)
    nodes.open("n1", replicas=3)
    home = nodes.anchor("n1")
    door, other = [name for name in ("n1", "n2", "n3") if name != home]
    nodes.put(door, (0, b"first"))
    nodes.lost = lambda source, _to, message: source == other and "Store" in named(message)
    late = nodes.ask(other, nodes.put_call(other, (0, b"late")))
    nodes.put(door, (1, b"there"))
    if lossy:
        nodes.lost = lambda source, _to, message: (
            (source == other and "Store" in named(message))
            or (source == home and "Taken" in named(message))
        )
    asked = nodes.at_once(door, [nodes.get_call(door, 1, 9)] * 3)
    assert [len(one.wants) for _, _, one in nodes.sent_of("Take")] == [1, 2]
    if lossy:
        assert [nodes.told(number) for number in asked] == [None] * 3
        nodes.lost = lambda source, _to, message: source == other and "Store" in named(message)
        nodes.pass_time(0.5)
    assert [bodies(nodes.told(number)) for number in (asked[0], asked[2])] == [
        [b"first"],
        [b"there"],
    ]
    assert nodes.told(asked[1]) is None
    nodes.lost = lambda *_: False
    nodes.pass_time(4)
    assert nodes.told(late) is not None
    assert bodies(nodes.told(asked[1])) == [b"late"]
    assert [nodes.told(number).token for number in asked] == sorted(
        nodes.told(number).token for number in asked
    )


def test_where_everybody_keeps_everything_each_flushes_a_batch_once() -> None:
    nodes = Nodes(3)
    nodes.open("n1", replicas=3)
    before = len(nodes.written)
    nodes.put("n1", *[(at // 150, b"%d" % at) for at in range(600)])
    assert len(nodes.written) - before == 3
    assert len(bodies(nodes.get("n1", 600))) == 600
    assert len(nodes.written) - before == 6
    assert {target for _, target, _ in nodes.sent_of("Take")} <= {nodes.anchor("n1")}


@pytest.mark.parametrize("bound", [0, 12], ids=["no bound", "a bound"])
def test_what_is_gone_is_told_by_itself_at_once_only_where_somebody_may_wait(bound: int) -> None:
    nodes = Nodes(3, Limits(block=2, deal=0))
    nodes.open("n1", items_max=bound)
    nodes.put("n1", *[(0, b"%d" % at) for at in range(12)])
    held = nodes.get("n1", 12)
    nodes.sent.clear()
    nodes.settle("n1", done=(receipt(held),))
    assert bool(nodes.sent_of("Climb")) == bool(bound)
    nodes.pass_time(0.1)
    assert nodes.sent_of("Climb")


def test_those_who_keep_copies_are_told_once_of_what_is_flushed_together() -> None:
    nodes = Nodes(3)
    nodes.open("n1", replicas=3)
    for at in range(16):
        nodes.put("n1", (0, b"%d" % at))
    held = nodes.get("n1", 16)
    home = next(source for source, _, _ in nodes.sent_of("Follow"))
    nodes.hanging.add(home)
    nodes.sent.clear()
    share = receipt(held).shares[0]
    for at in share.intervals[0]:
        one = Receipt(held.token, (Share(share.priority, (Interval(at, at + 1),)),))
        nodes.ask(home, calls.Settle("jobs", done=(one,)))
    nodes.flush()
    nodes.pass_time(0.1)
    assert nodes.get("n1").pieces == ()
    assert [len(message.marks) for _, _, message in nodes.sent_of("Follow")] == [1, 1, 15, 15]


def test_what_is_said_in_one_turn_goes_together_unless_it_is_large() -> None:
    small = [Followed(1, "jobs", at) for at in range(3)]
    assert list(together(small)) == [Several(tuple(small))]
    large = Fetched(1, "jobs", (Elements((), (), b"", bytes(SEVERAL_BYTES)),))
    assert list(together([*small, large])) == [Several(tuple(small)), large]
    assert list(together([large, *small])) == [large, Several(tuple(small))]


def test_the_clock_goes_on_for_those_alone_who_wait_for_it() -> None:
    costs = []
    for count in (1, 200):
        nodes = Nodes(1)
        for at in range(count - 1):
            settings = QueueSettings(queue=f"idle{at}", priorities=4)
            assert nodes.call("n1", calls.Open(settings.queue, settings)) is not None
        nodes.open("n1")
        nodes.put("n1", (0, b"one"))
        nodes.pass_time(5)
        nodes.get("n1")
        node, tick = nodes.nodes[NodeId("n1")], nodes.timers[NodeId("n1")]
        effects: list[Any] = []

        def act(node: Any = node, tick: SetTimer = tick, effects: list[Any] = effects) -> None:
            effects += node.handle(Expired(tick.timer), later(tick.at, seconds(60)))

        costs.append(calls_during(act))
        assert any(type(effect) is Persist for effect in effects), "a lease has ended"
    assert costs[0] == costs[1]


def test_a_lease_that_was_ended_costs_nothing_when_its_time_is_over() -> None:
    costs = []
    for count in (1, 50):
        nodes = Nodes(1)
        nodes.open("n1")
        nodes.put("n1", *[(0, b"%d" % at) for at in range(count + 1)])
        for _ in range(count):
            nodes.settle("n1", done=(receipt(nodes.get("n1")),))
        nodes.get("n1")
        nodes.pass_time(5)
        node, tick = nodes.nodes[NodeId("n1")], nodes.timers[NodeId("n1")]
        now = later(tick.at, seconds(60))
        effects: list[Any] = []

        def act(node: Any = node, tick: Any = tick, now: Any = now, told: Any = effects) -> None:
            told += node.handle(Expired(tick.timer), now)

        costs.append(calls_during(act))
        assert any(type(effect) is Persist for effect in effects), "a lease has ended"
    assert costs[0] == costs[1]


def test_what_was_given_up_costs_nothing_where_it_is_not_asked_for() -> None:
    costs = []
    for count in (1, 1_000):
        rows = Rows()
        for at in range(count):
            rows.row(0).gone.put(Interval(3 * at, 3 * at + 1), 1)
            rows.row(0).gone.put(Interval(3 * at + 1, 3 * at + 2), GOT)
        asked = (Share(0, (Interval(0, 2),)),)
        assert rows.void_of(asked) == (Share(0, (Interval(0, 1),)),)
        costs.append(calls_during(lambda rows=rows, asked=asked: rows.void_of(asked)))
    assert costs[0] == costs[1]


@pytest.mark.parametrize(("priorities", "most"), [(4, (350, 575)), (ANY, (400, 690))])
def test_one_call_at_a_time_of_a_lone_node_is_few_calls_of_functions(
    priorities: int, most: tuple[int, int]
) -> None:
    nodes = Nodes(1)
    nodes.open("n1", priorities=priorities)
    keys = packed([7]) if priorities == ANY else b""
    part = calls.Part(0, bytes(Bodies.of([b"one"]).offsets), b"one", keys)
    put = calls.Put("jobs", nodes.via("n1"), (part,))
    for _ in range(9):
        nodes.call("n1", put)
    settle = calls.Settle("jobs", done=(receipt(nodes.get("n1")),))
    get = calls.Get("jobs", nodes.via("n1"), 1, seconds(0), settle, gathered=True)
    costs = [calls_during(lambda call=call: nodes.call("n1", call)) for call in (put, get)]
    assert costs[0] < most[0]
    assert costs[1] < most[1]


def test_what_a_get_of_any_priorities_has_of_64_puts_is_not_entered_one_by_one() -> None:
    nodes = Nodes(1)
    nodes.open("n1", priorities=ANY)
    for at in range(64):
        batch, keys = Bodies.of([b"one"] * 8), packed(range(at, 512, 64))
        part = calls.Part(0, bytes(batch.offsets), bytes(batch.blob), keys)
        nodes.call("n1", calls.Put("jobs", nodes.via("n1"), (part,)))
    settle, costs = None, list[int]()
    for _ in range(8):
        get = calls.Get("jobs", nodes.via("n1"), 64, seconds(0), settle, gathered=True)
        told: list[calls.Leased] = []
        costs.append(calls_during(lambda call=get, told=told: told.append(nodes.call("n1", call))))
        assert len(receipt(told[0]).shares[0].intervals) == 64
        settle = calls.Settle("jobs", done=(receipt(told[0]),))
    assert max(costs) < 650


def named(message: Any) -> str:
    """The kinds of what goes together."""
    several = message.messages if isinstance(message, Several) else (message,)
    return " ".join(type(one).__name__ for one in several)


def calls_during(act: Callable[[], object]) -> int:
    """How many functions are called."""
    count = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count
