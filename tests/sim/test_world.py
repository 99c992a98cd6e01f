"""The world carries out effects as core/node.py promises; a puppet node writes down what comes."""

from enum import Enum
from random import Random

import pytest

from snowmelt.core.instant import Duration, Instant, milliseconds, seconds
from snowmelt.core.names import Address, NodeId, OperationId, contact
from snowmelt.core.node import (
    Announce,
    CancelTimer,
    Expired,
    Halt,
    Load,
    Loaded,
    Note,
    Persist,
    Persisted,
    PersistFailed,
    Received,
    Reply,
    Requested,
    Scan,
    Send,
    SetTimer,
    Started,
)
from snowmelt.core.outcome import Failed
from snowmelt.core.record import Missing, Record, Write
from snowmelt_world.clock import DAWN, Clock, wall
from snowmelt_world.disk import Ending
from snowmelt_world.faults import (
    ClientPause,
    CutLinks,
    FailingDisk,
    FillingDisk,
    LongPause,
    LostDisk,
    LostWrites,
    OlderDisk,
    PowerCut,
    QuickRestarts,
    RollingRestart,
    SlowDisk,
    Stalls,
    WallClock,
)
from snowmelt_world.injuries import heal, schedule
from snowmelt_world.network import LinkStyle
from snowmelt_world.trace import line
from snowmelt_world.world import SUPERVISOR_WAIT, Broken, MachineCrashed, Observer, World

N1, N2 = NodeId("n1"), NodeId("n2")
OPERATION = OperationId(N1, 1)
END = seconds(60)


class Timer(Enum):
    TICK = "tick"
    TOCK = "tock"


class Puppet:
    """Does what its book says for an event, and writes the event down with its time."""

    def __init__(self, book, diary, chance):
        self.book, self.diary, self.dice = book, diary, chance.random()

    def handle(self, event, now):
        self.diary.append((now, event))
        word = event.message if isinstance(event, Received | Requested) else type(event).__name__
        effects = self.book.get(word, [])
        return effects() if callable(effects) else list(effects)

    def check(self):
        assert self.diary[-1][1] != Received(N2, "break"), "it broke"


class Stage:
    """A world with puppets, and the diary of each."""

    def __init__(self, seed=1, **books):
        self.seen = Seen()
        style = LinkStyle(delay_min=milliseconds(1), delay_mean=Duration(1))
        self.world = World(seed, style, self.seen, keep=True)
        self.diaries = {}
        for name in books or {"n1": {}, "n2": {}}:
            self.add(NodeId(name), books.get(name, {}))

    def add(self, name, book):
        diary = self.diaries[name] = []
        address = Address(name, 1)
        slot = self.world.add(name, lambda chance: Puppet(book, diary, chance), address)
        slot.clock = Clock()  # which shows the world's time
        self.world.start(name)

    def events(self, name=N1):
        return [event for _, event in self.diaries[name]]

    def times(self, name, kind):
        return [now for now, event in self.diaries[name] if isinstance(event, kind)]

    def say(self, word, at=None, node=N1):
        self.world.request(node, OPERATION, word, at)

    def run(self, until=END):
        self.world.run(Instant(until))


class Seen(Observer):
    def __init__(self):
        self.all = []

    def announced(self, at, node, effect):
        self.all.append((at, node, effect))

    def replied(self, at, node, effect):
        self.all.append((at, node, effect))

    def started(self, at, node):
        self.all.append((at, node, "started"))

    def ended(self, at, node):
        self.all.append((at, node, "ended"))

    def damaged(self, at, node, key):
        self.all.append((at, node, key))

    def set_back(self, at, node, taken):
        self.all.append((at, node, taken))

    def disk_lost(self, at, node):
        self.all.append((at, node, "lost"))

    def halted(self, at, node, reason):
        self.all.append((at, node, f"halted: {reason}"))


def at(count):
    return Instant(milliseconds(count))


def test_a_message_arrives_under_a_nodes_name_or_its_address():
    stage = Stage(n1={"go": [Send(N2, "a"), Send(contact(Address("n2", 1)), "b")]}, n2={})
    stage.say("go")
    stage.run()
    assert stage.events(N2) == [Started(wall=DAWN), Received(N1, "a"), Received(N1, "b")]


def test_a_message_to_nobody_is_gone_without_a_word():
    nowhere = contact(Address("n9", 1))
    stage = Stage(n1={"go": [Send(NodeId("n9"), "a"), Send(nowhere, "b")]})
    stage.say("go")
    stage.run()
    assert stage.events() == [Started(wall=DAWN), Requested(OPERATION, "go")]


def test_a_timer_fires_once_and_at_its_instant():
    stage = Stage(n1={"go": [SetTimer(Timer.TICK, at(50))]})
    stage.say("go")
    stage.run()
    assert stage.times(N1, Expired) == [at(50)]


def test_a_timer_that_is_set_again_replaces_the_first_and_one_that_is_taken_back_is_silent():
    stage = Stage(
        n1={
            "go": [SetTimer(Timer.TICK, at(50)), SetTimer(Timer.TOCK, at(60))],
            "later": [SetTimer(Timer.TICK, at(90)), CancelTimer(Timer.TOCK)],
        }
    )
    stage.say("go")
    stage.say("later", at(40))
    stage.run()
    assert stage.diaries[N1][3:] == [(at(90), Expired(Timer.TICK))]


def test_a_timer_in_the_past_fires_at_once():
    stage = Stage(n1={"go": [SetTimer(Timer.TICK, at(5))]})
    stage.say("go", at(40))
    stage.run()
    assert stage.times(N1, Expired) == [at(40)]


@pytest.mark.parametrize("ppm", [-40_000, 40_000])
def test_timers_follow_a_clock_that_is_turned(ppm):
    stage = Stage(n1={"go": [SetTimer(Timer.TICK, at(1_000))]})
    stage.say("go")
    stage.world.at(at(500), lambda: stage.world.turn_clock(N1, ppm=ppm))
    stage.run()
    (own,) = stage.times(N1, Expired)
    assert at(1_000) <= own <= at(1_000) + 2
    (step,) = [one for one in stage.world.trace.kept() if isinstance(one.event, Expired)]
    assert (step.at > at(1_000)) == (ppm < 0)


def test_a_clock_that_jumps_over_a_timer_fires_it_at_once():
    stage = Stage(n1={"go": [SetTimer(Timer.TICK, at(1_000))]})
    stage.say("go")
    stage.world.at(at(500), lambda: stage.world.turn_clock(N1, by=Duration(at(700))))
    stage.run()
    assert stage.times(N1, Expired) == [at(1_200)]


def test_what_is_persisted_comes_back_in_the_order_asked_and_is_there_after_a_crash():
    steps = [Persist(ticket, (Write(b"k%d" % ticket, b"v"),)) for ticket in (1, 2, 3)]
    stage = Stage(n1={"go": steps})
    stage.say("go")
    stage.run(seconds(1))
    assert stage.events()[2:] == [Persisted(1), Persisted(2), Persisted(3)]
    stage.world.stop(N1, Ending.POWER)
    stage.world.start(N1)
    kept = tuple(Record(b"k%d" % one, b"v") for one in (1, 2, 3))
    assert stage.events()[-1] == Started(kept, wall=wall(at(1_000)))


def test_a_load_sees_what_was_asked_before_it():
    stage = Stage(n1={"go": [Persist(1, (Write(b"~k", b"v"),)), Load(2, (b"~k",))]})
    stage.say("go")
    stage.run()
    assert Loaded(2, (Record(b"~k", b"v"),)) in stage.events()


def test_a_scan_sees_what_was_asked_before_it_and_takes_a_disks_time():
    writes = tuple(Write(b"~%d" % one, b"1234") for one in range(5))
    go = [Persist(1, writes), Scan(2, b"~1", b"~9", 8), Scan(3, b"~9", b"~", 8)]
    stage = Stage(n1={"go": go})
    stage.say("go")
    stage.run(seconds(1))
    loaded = [event for event in stage.events() if isinstance(event, Loaded)]
    loaded.sort(key=lambda event: event.ticket)
    assert loaded == [Loaded(2, (Record(b"~1", b"1234"), Record(b"~2", b"1234"))), Loaded(3, ())]
    assert 0 < min(stage.times(N1, Loaded)) < milliseconds(10)


def test_the_wall_clock_tells_the_true_time_whatever_the_steady_one_does():
    stage = Stage(n1={})
    stage.world.turn_clock(N1, ppm=40_000, by=Duration(seconds(50)))
    stage.run(seconds(10))
    stage.world.stop(N1)
    stage.world.start(N1)
    assert [event.wall for event in stage.events()] == [DAWN, DAWN + seconds(10)]


def test_a_story_leaves_out_the_date():
    stage = Stage(n1={})
    stage.run()
    assert stage.world.trace.story(N1)[0].endswith("Started () () -> nothing")


def test_a_full_disk_keeps_nothing_and_says_so():
    stage = Stage(n1={"go": [Persist(1, (Write(b"k", b"v"),))]})
    stage.world.slots[N1].disk.full = True
    stage.say("go")
    stage.run(seconds(1))
    assert stage.events()[-1] == PersistFailed(1, "no space left on the disk")
    assert stage.world.slots[N1].disk.start() == Started()


def test_a_paused_node_handles_late_and_in_order_what_came_meanwhile():
    stage = Stage(n1={"go": [SetTimer(Timer.TICK, at(30))]}, n2={"go": [Send(N1, "a")]})
    stage.say("go")
    stage.world.at(at(10), lambda: setattr(stage.world.slots[N1], "paused_until", at(500)))
    stage.say("go", at(20), node=N2)
    stage.say("go", at(40), node=N2)
    stage.run()
    late = stage.diaries[N1][2:]
    assert [now for now, _ in late] == [at(500)] * 3
    assert [event for _, event in late] == [
        Received(N2, "a"),
        Expired(Timer.TICK),
        Received(N2, "a"),
    ]


def test_a_crash_drops_what_was_for_the_earlier_life():
    effects = [SetTimer(Timer.TICK, at(30)), Persist(1, (Write(b"k", b"v"),)), Load(2, (b"k",))]
    stage = Stage(n1={"go": effects})
    stage.say("go")
    stage.run(0)
    stage.world.stop(N1)
    stage.world.start(N1)
    stage.run()
    assert [type(event) for event in stage.events()] == [Started, Requested, Started]


@pytest.mark.parametrize("mid_write", [False, True])
def test_a_crash_comes_at_its_moment_or_when_the_node_next_asks_its_disk(mid_write):
    book = {"go": [Persist(1, (Write(b"k", b"v"),)), Send(N2, "told too soon")]}
    stage = Stage(n1=book, n2={})
    schedule(stage.world, (LostWrites(at(10), at(900), N1, mid_write),))
    stage.say("go", at(20))
    stage.run()
    assert stage.events(N2)[1:] == [Received(N1, "told too soon")] * mid_write
    assert stage.times(N1, Started) == [0, at(900)]
    assert stage.events()[-1] == Started(wall=wall(at(900)))


def test_what_a_pause_held_back_is_lost_in_a_crash():
    stage = Stage()
    stage.world.slots[N1].paused_until = at(100)
    stage.say("go", at(10))
    stage.run(at(20))
    stage.world.stop(N1)
    stage.world.start(N1)
    stage.run()
    assert stage.events() == [Started(wall=DAWN), Started(wall=wall(at(20)))]


def test_a_message_outlives_its_sender_and_finds_the_next_life_of_its_target():
    stage = Stage(n1={}, n2={"go": [Send(N1, "a")]})
    stage.say("go", node=N2)
    stage.run(0)
    stage.world.stop(N2)
    stage.world.stop(N1)
    stage.world.start(N1)
    stage.run()
    assert stage.events()[-1] == Received(N2, "a")


def test_a_node_that_is_down_hears_nothing():
    stage = Stage()
    stage.world.stop(N1)
    stage.world.stop(N1)
    stage.say("go")
    stage.run()
    assert stage.events() == [Started(wall=DAWN)]


def test_each_life_has_its_own_dice():
    stage = Stage()
    first = stage.world.slots[N1].node.dice
    stage.world.stop(N1)
    stage.world.start(N1)
    assert stage.world.slots[N1].node.dice != first


@pytest.mark.parametrize("wanted", [True, False])
def test_a_node_that_halts_is_started_again_when_its_supervisor_wants_it(wanted):
    stage = Stage(n1={"go": [Halt("enough")]})
    stage.world.slots[N1].wanted = wanted
    stage.say("go", at(10))
    stage.run(at(11))
    assert stage.world.slots[N1].halted == "enough"
    assert (at(10), N1, "halted: enough") in stage.seen.all
    stage.run()
    assert stage.times(N1, Started) == [0, at(10) + SUPERVISOR_WAIT][: 1 + wanted]


def test_the_observer_sees_what_a_node_tells():
    stage = Stage(n1={"go": [Announce(Failed("f")), Reply(OPERATION, "r"), Note("n")]})
    stage.say("go", at(3))
    stage.run()
    stage.world.stop(N1)
    assert stage.seen.all == [
        (0, N1, "started"),
        (at(3), N1, Announce(Failed("f"))),
        (at(3), N1, Reply(OPERATION, "r")),
        (seconds(60), N1, "ended"),
    ]


def test_a_flipped_bit_is_told_to_the_observer():
    stage = Stage(n1={"go": [Persist(1, (Write(b"k", b"v"),))]})
    stage.world.flip(N1)
    stage.say("go")
    stage.run(seconds(1))
    stage.world.flip(N1)
    assert stage.seen.all[1:] == [(seconds(1), N1, b"k")]


def test_an_invariant_that_breaks_names_its_node():
    stage = Stage(n1={}, n2={"go": [Send(N1, "break")]})
    stage.say("go", node=N2)
    with pytest.raises(Broken, match="n1: it broke") as caught:
        stage.run()
    assert caught.value.subject == N1


def test_a_machine_that_raises_is_a_crash_and_its_last_event_is_in_the_trace():
    stage = Stage(n1={"go": lambda: 1 // 0})
    stage.say("go")
    with pytest.raises(MachineCrashed) as caught:
        stage.run()
    assert caught.value.subject == N1
    assert "crashed: ZeroDivisionError" in stage.world.trace.story(N1)[-1]


def test_steps_can_be_bounded_though_two_nodes_talk_without_end():
    talk = {"go": [Send(N2, "go")]}
    stage = Stage(n1=talk, n2={"go": [Send(N1, "go")]})
    stage.say("go")
    stage.world.run(Instant(seconds(60)), steps_max=100)
    assert stage.world.trace.steps == 102  # two had started before


def test_a_slow_node_hears_speaks_and_writes_late():
    book = {"go": [Send(N2, "a"), Persist(1, (Write(b"k", b"v"),))]}
    stage = Stage(n1=book, n2={"a": [Send(N1, "b")]})
    stage.world.slots[N1].slowness = milliseconds(200)
    stage.say("go")
    stage.run()
    assert stage.times(N2, Received)[0] >= at(200)
    assert stage.times(N1, Persisted)[0] >= at(200)
    assert stage.times(N1, Received)[0] >= at(400)


def talkative(seed):
    dice = Random(3)

    def chatter():
        return [Send(N2, "go")] if dice.random() < 0.9 else []

    stage = Stage(seed, n1={"go": chatter}, n2={"go": [Send(N1, "go")]})
    for turn in range(20):
        stage.say("go", at(turn))
    stage.run()
    return stage.world.trace


def test_the_same_seed_is_the_same_life_and_another_seed_another():
    assert talkative(1).digest == talkative(1).digest
    assert talkative(1).steps > 60
    assert talkative(1).digest != talkative(2).digest


# --- disks that fail, fill up, are slow, are lost, and are put back -------------------------------


def keeping(ticket=1, key=b"k"):
    return Persist(ticket, (Write(key, b"v"),))


def starts(stage, name=N1):
    return [event.records for event in stage.events(name) if isinstance(event, Started)]


def test_a_failed_disk_refuses_each_step_until_the_process_ends_whatever_is_healed_meanwhile():
    stage = Stage(n1={"go": [keeping(1)], "again": [keeping(2)]})
    schedule(stage.world, (FailingDisk(at(0), at(100), N1),))
    stage.say("go", at(10))
    stage.say("again", at(50))
    stage.world.at(at(200), heal, stage.world)
    stage.say("again", at(300))
    stage.world.at(at(400), stage.world.stop, N1)
    stage.world.at(at(500), stage.world.start, N1)
    stage.say("again", at(600))
    stage.run()
    answers = [one for one in stage.events() if isinstance(one, Persisted | PersistFailed)]
    refused = [PersistFailed(number, "the disk failed", fatal=True) for number in (1, 2, 2)]
    assert answers == [*refused, Persisted(2)]


def test_reading_a_failed_disk_ends_the_process_and_its_supervisor_starts_it_again():
    stage = Stage(n1={"go": [keeping(), Load(2, (b"k",))]})
    schedule(stage.world, (FailingDisk(at(0), at(100), N1),))
    stage.say("go", at(10))
    stage.run()
    assert [event for event in stage.events() if isinstance(event, Loaded)] == []
    assert stage.times(N1, Started)[1] >= at(10) + SUPERVISOR_WAIT


def test_a_disk_that_fills_up_takes_the_first_steps_of_a_flush_and_what_is_read_shows_no_more():
    book = {"go": [keeping(1, b"a"), keeping(2, b"b"), Load(3, (b"a", b"b"))]}
    stage = Stage(n1=book)
    schedule(stage.world, (FillingDisk(at(0), at(100), N1, room=1),))
    stage.say("go", at(10))
    stage.run(seconds(1))
    answers = [one for one in stage.events() if isinstance(one, Persisted | PersistFailed | Loaded)]
    assert answers == [
        Persisted(1),
        PersistFailed(2, "no space left on the disk"),
        Loaded(3, (Record(b"a", b"v"), Missing(b"b"))),
    ]


def test_a_slow_disk_flushes_late_and_reads_as_ever():
    stage = Stage(n1={"go": [keeping(), Load(2, (b"k",))]})
    schedule(stage.world, (SlowDisk(at(0), at(100), N1, seconds(3)),))
    stage.say("go", at(10))
    stage.run()
    assert stage.times(N1, Loaded)[0] < at(20)
    assert stage.times(N1, Persisted)[0] > at(3_010)


def test_a_disk_is_put_back_as_it_was_when_it_was_copied_and_the_observer_is_told():
    stage = Stage(n1={"go": [keeping(1, b"a")], "again": [keeping(2, b"b")]})
    schedule(stage.world, (OlderDisk(at(300), at(400), N1, taken=at(100)),))
    stage.say("go", at(10))
    stage.say("again", at(200))
    stage.run()
    assert starts(stage) == [(), (Record(b"a", b"v"),)]
    assert stage.times(N1, Started)[1] == at(400)
    assert (at(300), N1, at(100)) in stage.seen.all


def test_a_node_whose_disk_is_lost_starts_on_an_empty_one_unless_somebody_must_do_something_first():
    book = {"go": [keeping()]}
    stage = Stage(n1=book, n2=book)
    fault = (LostDisk(at(100), at(200), N1), LostDisk(at(100), at(200), N2))
    schedule(stage.world, fault)
    for name in (N1, N2):
        stage.say("go", at(10), node=name)
    stage.world.slots[N2].wanted = False
    stage.run()
    assert starts(stage) == [(), ()]
    assert starts(stage, N2) == [()]
    assert (at(100), N2, "lost") in stage.seen.all


def test_where_power_fails_nothing_stays_that_was_on_its_way_and_all_start_together():
    book = {"early": [keeping(1, b"a")], "late": [keeping(2, b"b")]}
    stage = Stage(n1=book, n2=book)
    fault = PowerCut(at(100), at(900), (N1, N2), fails=at(700), extra=milliseconds(200))
    schedule(stage.world, (fault,))
    for name in (N1, N2):
        stage.say("early", at(300), node=name)
        stage.say("late", at(600), node=name)
    stage.say("late", at(2_000))
    stage.run()
    for name in (N1, N2):
        assert stage.times(name, Persisted)[0] > at(500)  # each flush took longer
        assert starts(stage, name) == [(), (Record(b"a", b"v"),)]
        assert stage.times(name, Started)[1] == at(900)
    assert stage.times(N1, Persisted)[1] < at(2_100)  # and no longer, afterwards


# --- wall clocks, restarts, pauses, and links that stay cut ---------------------------------------


def test_a_wall_clock_is_wrong_from_the_beginning_or_from_when_it_is_set():
    world = World(seed=1, keep=True)
    for name in (N1, N2):
        world.add(name, lambda chance: Puppet({}, [], chance))
        world.at(at(0), world.start, name)
    hour = seconds(3_600)
    schedule(world, (WallClock(at(0), N1, Duration(hour)), WallClock(at(50), N2, Duration(-hour))))
    for moment in (100, 200):
        world.at(at(moment - 1), world.stop, N2)
        world.at(at(moment), world.start, N2)
    world.run(END)
    shown = [step.event.wall - wall(step.at) for step in world.trace.kept()]
    assert shown == [hour, 0, -hour, -hour]
    assert "(its wall clock: 3600s)" in line(world.trace.kept()[0])


def test_quick_restarts_kill_at_their_times_and_a_rolling_restart_takes_one_after_the_other():
    stage = Stage()
    quick = QuickRestarts(at(100), at(900), N1, (at(200), at(600)), milliseconds(50))
    down, up = milliseconds(100), milliseconds(300)
    rolling = RollingRestart(at(2_000), at(2_800), (N2, N1), down, up)
    schedule(stage.world, (quick, rolling))
    stage.run()
    assert stage.times(N1, Started) == [at(0), at(250), at(650), at(2_500)]
    assert stage.times(N2, Started) == [at(0), at(2_100)]


def test_clients_and_nodes_are_paused_alike_and_who_is_not_there_is_not():
    stage = Stage()
    pauses = (
        ClientPause(at(0), at(500), N1),
        LongPause(at(0), at(700), N2),
        ClientPause(at(0), at(500), NodeId("nobody")),
    )
    schedule(stage.world, pauses)
    for name in (N1, N2):
        stage.say("go", at(10), node=name)
    stage.run()
    assert stage.times(N1, Requested) == [at(500)]
    assert stage.times(N2, Requested) == [at(700)]


def test_who_shares_a_machine_stalls_again_and_again_and_until_the_fault_is_over():
    stage = Stage()
    times = (at(100), at(300), at(480))
    schedule(stage.world, (Stalls(at(50), at(500), (N1, N2), times, milliseconds(60)),))
    for moment in (110, 170, 310, 490):
        for name in (N1, N2):
            stage.say("go", at(moment), node=name)
    stage.run()
    for name in (N1, N2):
        assert stage.times(name, Requested) == [at(160), at(170), at(360), at(500)]


def test_a_link_that_stays_cut_is_cut_after_the_last_fault():
    stage = Stage(n1={"go": [Send(N2, "a")]}, n2={})
    schedule(stage.world, (CutLinks(at(0), at(100), ((N1, N2),), stays=True),))
    stage.world.at(at(200), heal, stage.world)
    stage.say("go", at(300))
    stage.run()
    assert stage.events(N2) == [Started(wall=DAWN)]
