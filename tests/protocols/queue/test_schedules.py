"""Schedules: each moment is fired once, whoever leads, whatever clocks show, and never early."""

from typing import Any

import msgspec
import pytest
from node_bench import NodeBench
from three_bench import three

from protocols.queue.test_full_disk import FEW, alone, takes
from snowmelt.core.batch import Batch
from snowmelt.core.headers import headers_in
from snowmelt.core.instant import SECOND, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.keys import packed
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.cron import Cron, shown
from snowmelt.protocols.queue.api.schedules import (
    MOMENT_HEADER,
    NAME_HEADER,
    SCHEDULES_MAX,
    ListSchedules,
    Moments,
    Schedule,
    Scheduled,
    ScheduleRows,
    Unschedule,
    What,
)
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.state.state import QueueState

HOURLY = Cron(1, 2**24 - 1, 2**32 - 2, 2**13 - 2, 2**7 - 1, elapsed=True)


def each(some: float, body: bytes = b"go", **more: Any) -> What:
    return What(body, f"{some}s", interval=seconds(some), **more)


def asked(bench: Any, request: Any, at: str = "") -> Any:
    return bench.ask(at, request, within=8) if at else bench.answer(request)


def fired(bench: Any, at: str = "", queue: str = "q") -> list[str]:
    """For which moments items have come, in their order; all of them are taken."""
    found: list[str] = []
    while True:
        leased = asked(bench, calls.Get(queue, 100, 1 << 20, seconds(0)), at)
        if not leased.token:
            return found
        done = tuple([Interval(part.start, part.start + part.count) for part in leased.parts])
        assert asked(bench, calls.Settle(queue, leased.token, done), at) == calls.Settled(0)
        for part in leased.parts:
            count = len(Batch(part.offsets, part.blob))
            found += [str(headers_in(part.headers)[MOMENT_HEADER])] * count


def moments(bench: Any, at: str = "", queue: str = "q") -> Moments:
    return asked(bench, ListSchedules(queue), at).rows[0].moments


@pytest.fixture
def bench() -> NodeBench:
    made = NodeBench()
    made.open()
    return made


# --- one node -------------------------------------------------------------------------------------


def test_it_fires_at_each_of_its_moments_and_not_before(bench: NodeBench) -> None:
    told = bench.answer(Schedule("q", "tick", each(60)))
    assert isinstance(told, Scheduled)
    first = told.moments.next
    bench.pass_time(59.9)
    assert fired(bench) == []
    bench.pass_time(0.2)
    assert fired(bench) == [shown(first)]
    bench.pass_time(59.7)
    assert fired(bench) == []
    bench.pass_time(0.2)
    assert fired(bench) == [shown(first + 60 * SECOND)]
    now = moments(bench)
    assert (now.next, now.last, now.fired) == (first + 120 * SECOND, first + 60 * SECOND, 2)


def test_an_item_says_its_schedule_and_has_its_headers_delay_and_body(bench: NodeBench) -> None:
    own = msgspec.msgpack.encode({"kind": "page"})
    what = each(60, b"the body", headers=own, delay=seconds(30))
    bench.answer(Schedule("q", "tick", what))
    bench.pass_time(61)
    assert bench.answer(calls.Describe("q")).delayed == 1
    bench.pass_time(30)
    part = bench.answer(calls.Get("q", 9, 999, seconds(0))).parts[0]
    assert bytes(part.blob) == b"the body"
    found = headers_in(part.headers)
    assert (found["kind"], found[NAME_HEADER]) == ("page", "tick")


def test_one_that_is_made_again_and_is_the_same_stays_as_it_is(bench: NodeBench) -> None:
    told = bench.answer(Schedule("q", "tick", each(60)))
    bench.pass_time(30)
    assert bench.answer(Schedule("q", "tick", each(60))) == told
    altered = bench.answer(Schedule("q", "tick", each(90)))
    assert altered.moments.next == told.moments.next + 60 * SECOND
    bench.pass_time(89)
    assert fired(bench) == []


def test_one_that_is_removed_fires_no_more_and_removing_it_again_is_told(bench: NodeBench) -> None:
    bench.answer(Schedule("q", "tick", each(60)))
    assert bench.answer(Unschedule("q", "tick")) == calls.Changed(1)
    assert bench.answer(Unschedule("q", "tick")) == calls.Changed(0)
    bench.pass_time(200)
    assert fired(bench) == []
    assert bench.answer(ListSchedules("q")) == ScheduleRows(())


def test_what_stands_in_a_full_queue_waits_and_makes_up_for_all_that_it_missed() -> None:
    bench = NodeBench()
    bench.open(items_max=1)
    first = bench.answer(Schedule("q", "tick", each(60))).moments.next
    bench.answer(calls.Put("q", "p", 1, bytes(8), b""))
    bench.pass_time(60 * 5 + 30)
    leased = bench.answer(calls.Get("q", 9, 999, seconds(0)))
    bench.answer(calls.Settle("q", leased.token, (Interval(0, 1),)))
    assert fired(bench) == [shown(first)]
    assert moments(bench).next == first + 300 * SECOND


def test_a_put_behind_it_waits_for_its_turn() -> None:
    bench = NodeBench()
    bench.open(items_max=1)
    bench.answer(Schedule("q", "tick", each(60)))
    bench.answer(calls.Put("q", "p", 1, bytes(8), b""))
    bench.pass_time(61)
    later = calls.Put("q", "p", 2, bytes(8), b"", patience=seconds(50))
    bench.ask(later)
    leased = bench.answer(calls.Get("q", 9, 999, seconds(0)))
    bench.answer(calls.Settle("q", leased.token, (Interval(0, 1),)))
    came = bench.answer(calls.Get("q", 9, 999, seconds(0))).parts[0]
    assert headers_in(came.headers)[NAME_HEADER] == "tick", "it came before the put"


def test_one_that_is_removed_while_its_item_waits_puts_nothing() -> None:
    bench = NodeBench()
    bench.open(items_max=1)
    bench.answer(Schedule("q", "tick", each(60)))
    bench.answer(calls.Put("q", "p", 1, bytes(8), b""))
    bench.pass_time(61)
    bench.answer(Unschedule("q", "tick"))
    bench.answer(calls.Purge("q"))
    bench.pass_time(1)
    assert fired(bench) == []


def test_a_paused_queue_is_put_into(bench: NodeBench) -> None:
    bench.answer(calls.Pause("q", True))
    bench.answer(Schedule("q", "tick", each(60)))
    bench.pass_time(61)
    assert bench.answer(calls.Describe("q")).ready == 1


def test_with_priorities_it_has_its_own() -> None:
    bench = NodeBench()
    bench.open(priorities=3)
    bench.answer(Schedule("q", "tick", each(60, priority=2)))
    bench.pass_time(61)
    assert bench.answer(calls.Describe("q")).ready_of == (0, 0, 1)
    wrong = bench.answer(Schedule("q", "tock", each(60, priority=3)))
    assert isinstance(wrong, Declined)
    assert "priority is 3; allowed: 0 to 2" in wrong.text


def test_of_any_priorities_it_has_a_key() -> None:
    bench = NodeBench()
    bench.open(priorities=0)
    bench.answer(Schedule("q", "tick", each(60, keys=packed([-5]))))
    assert isinstance(bench.answer(Schedule("q", "none", each(60))), Declined)
    bench.pass_time(61)
    part = bench.answer(calls.Get("q", 9, 999, seconds(0))).parts[0]
    assert part.keys == packed([-5])


def test_a_queue_has_so_many_at_most(bench: NodeBench) -> None:
    for number in range(SCHEDULES_MAX):
        assert isinstance(bench.answer(Schedule("q", f"s{number}", each(3600))), Scheduled)
    assert bench.answer(Schedule("q", "more", each(3600))).error == "Full"
    assert isinstance(bench.answer(Schedule("q", "s7", each(60))), Scheduled), "one is altered"


def test_what_can_never_fit_is_refused() -> None:
    bench = NodeBench()
    bench.open(bytes_max=10)
    assert bench.answer(Schedule("q", "tick", each(60, bytes(11)))).error == "Full"


@pytest.mark.parametrize("name", ["", "two words", "@x", "a/b"])
def test_its_name_is_looked_at(bench: NodeBench, name: str) -> None:
    assert bench.answer(Schedule("q", name, each(60))).error == "BadOption"
    assert bench.answer(Unschedule("q", name)).error == "BadOption"


def test_no_client_can_put_in_the_name_of_a_schedule(bench: NodeBench) -> None:
    bench.answer(Schedule("q", "tick", each(60)))
    moment = moments(bench).next
    stolen = bench.answer(calls.Put("q", "@tick", moment, bytes(8), b""))
    assert stolen.error == "BadOption"
    bench.pass_time(61)
    assert fired(bench) == [shown(moment)]


# --- clocks ---------------------------------------------------------------------------------------


def restarted(bench: NodeBench, hours: float) -> None:
    """The process dies, and another begins by a clock that shows so much more."""
    bench._wall += round(hours * 3600) * SECOND
    bench.restart()


@pytest.mark.parametrize("hours", [-5, -0.5])
def test_a_clock_that_goes_back_fires_nothing_twice(hours: float) -> None:
    bench = NodeBench()
    bench.open()
    first = bench.answer(Schedule("q", "tick", each(600))).moments.next
    bench.pass_time(605)
    assert fired(bench) == [shown(first)]
    restarted(bench, hours)
    bench.pass_time(-hours * 3600 + 590)
    assert fired(bench) == []
    bench.pass_time(60)
    assert fired(bench) == [shown(first + 600 * SECOND)]


@pytest.mark.parametrize("hours", [-3, -0.1, 0.1, 3])
def test_a_clock_that_is_set_while_a_node_runs_is_gone_by_within_a_minute(hours: float) -> None:
    bench = NodeBench()
    bench.open()
    first = bench.answer(Schedule("q", "tick", each(36_000))).moments.next
    bench.clock = bench._wall + round(hours * 3600) * SECOND
    early = 10 - hours
    bench.pass_time(early * 3600 - 1)
    assert fired(bench) == [], "it was fired early"
    bench.pass_time(60)
    assert fired(bench) == [shown(first)]
    bench.clock -= 5 * 3600 * SECOND
    bench.pass_time(15 * 3600 - 120)
    assert fired(bench) == []
    bench.pass_time(120)
    assert len(fired(bench)) == 1


@pytest.mark.parametrize(("skip", "made_up"), [(False, 1), (True, 0)])
def test_what_was_missed_is_made_up_for_once_or_skipped(skip: bool, made_up: int) -> None:
    bench = NodeBench()
    bench.open()
    first = bench.answer(Schedule("q", "tick", each(600, skip=skip))).moments.next
    bench.pass_time(300)
    restarted(bench, 1.02)  # so it is 72 s after one of its moments
    bench.pass_time(1)
    assert fired(bench) == [shown(first)] * made_up
    assert moments(bench).next == first + 3600 * SECOND
    bench.pass_time(600)
    assert len(fired(bench)) == 1


def test_what_is_less_than_a_minute_late_is_not_missed() -> None:
    bench = NodeBench()
    bench.open()
    first = bench.answer(Schedule("q", "tick", each(600, skip=True))).moments.next
    bench.pass_time(300)
    restarted(bench, (7 * 600 - 300 + 30) / 3600)
    bench.pass_time(1)
    assert fired(bench) == [shown(first + 6 * 600 * SECOND)]


def test_by_an_expression_it_fires_on_the_hour(bench: NodeBench) -> None:
    what = What(b"go", "0 * * * *", "UTC", cron=HOURLY)
    told = bench.answer(Schedule("q", "tick", what))
    assert told.moments.next % (3600 * SECOND) == 0
    bench.pass_time(3 * 3600 + 1)
    assert fired(bench) == [shown(told.moments.next + hour * 3600 * SECOND) for hour in range(3)]


def test_an_expression_that_never_comes_is_refused(bench: NodeBench) -> None:
    what = What(
        b"go", "0 0 30 2 *", "UTC", cron=msgspec.structs.replace(HOURLY, days=1 << 30, months=4)
    )
    assert bench.answer(Schedule("q", "tick", what)).error == "BadOption"


# --- three nodes ----------------------------------------------------------------------------------


def test_whoever_leads_next_fires_and_nothing_twice() -> None:
    bench, master, _ = three()
    told = bench.ask(master, Schedule(bench.queue, "tick", each(20)), within=8)
    first = told.moments.next
    bench.run(21)
    bench.kill(master)
    bench.view()
    bench.run(41)
    bench.master = bench.home(bench.queue).master.partition("/")[0]
    assert bench.master != master
    assert fired(bench, bench.master, queue=bench.queue) == [
        shown(first + number * 20 * SECOND) for number in range(3)
    ]
    bench.leader().check()


def test_altering_a_queue_keeps_its_schedules() -> None:
    bench, master, _ = three()
    told = bench.ask(master, Schedule(bench.queue, "tick", each(20)), within=8)
    bench.ask(master, calls.Alter(bench.queue, (("items_max", 9),)), within=8)
    bench.master = bench.home(bench.queue).master.partition("/")[0]
    assert moments(bench, bench.master, queue=bench.queue) == told.moments


# --- a full disk ----------------------------------------------------------------------------------


def test_what_found_no_room_on_the_disk_is_fired_again_when_there_is_some() -> None:
    bench = alone()
    first = bench.ask("n1", Schedule("q", "tick", each(20))).moments.next
    for number in range(FEW):
        bench.put("n1", number)
    bench.run(70)
    now = moments(bench, "n1")
    assert (now.next, now.last, now.fired) == (first, 0, 0)
    for _ in range(FEW):
        takes(bench, "n1")
    bench.run(3)
    assert fired(bench, "n1") == [shown(first)]
    assert moments(bench, "n1").next == first + 60 * SECOND
    bench.terms("n1").leaders["q"].check()


def test_one_of_the_same_name_that_is_made_anew_fires_nothing_of_the_one_before() -> None:
    state = QueueState(QueueSettings())
    some = state.schedules
    some.make("tick", each(20), Moments(50))
    assert some.fire("@tick", 50, 60)
    some.end("tick")
    some.make("tick", each(30), Moments(90 * SECOND))
    some.take_back("@tick", 50)
    assert some.moments["tick"] == Moments(90 * SECOND)


def test_what_is_taken_back_is_fired_in_its_order() -> None:
    some = QueueState(QueueSettings()).schedules
    some.make("tick", each(20), Moments(20 * SECOND))
    assert some.fire("@tick", 20 * SECOND, 21 * SECOND)
    assert some.fire("@tick", 40 * SECOND, 41 * SECOND)
    some.take_back("@tick", 40 * SECOND)
    some.take_back("@tick", 20 * SECOND)
    assert some.moments["tick"] == Moments(20 * SECOND)
