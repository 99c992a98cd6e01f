"""Several machines in one process; the numbered rules of protocols/host.py."""

from enum import Enum

import msgspec
import pytest

from snowmelt.core.instant import START, Instant, later, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import (
    Announce,
    Announced,
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
from snowmelt.core.record import Damaged, Erase, Missing, Record, Write, erase
from snowmelt.protocols.calling import Answer, Call, Declined
from snowmelt.protocols.host import Family, Host, HostTimer
from snowmelt.protocols.membership import Current, CutOff, Leads, LeadsNoMore, Slept, Unsure, View

NOW = Instant(7)
ME, PEER, CLIENT = NodeId("n1"), NodeId("n2"), NodeId("c1")


class Red(msgspec.Struct, frozen=True):
    word: str = ""


class Blue(msgspec.Struct, frozen=True):
    word: str = ""


class Fact(msgspec.Struct, frozen=True):
    word: str = ""


class RedTimer(Enum):
    TICK = "red.tick"


class BlueTimer(Enum):
    TICK = "blue.tick"


class Puppet:
    """Writes down what it is given, and does what it was told to do."""

    def __init__(self, diary, name):
        self.diary, self.name, self.strings = diary, name, []

    def handle(self, event, now):
        assert now == NOW
        self.diary.append((self.name, event))
        return self.strings.pop(0) if self.strings else []

    def check(self):
        assert self.name != "broken"


@pytest.fixture
def diary():
    return []


@pytest.fixture
def red(diary):
    return Puppet(diary, "red")


@pytest.fixture
def blue(diary):
    return Puppet(diary, "blue")


@pytest.fixture
def host(red, blue):
    return Host(ME, [Family("red", red, (Red,)), Family("blue", blue, (Blue,))])


def pull(host, puppet, *effects):
    """Lets one machine return these effects; returns what the host makes of them."""
    puppet.strings.append(list(effects))
    return host.handle(Received(PEER, Red() if puppet.name == "red" else Blue()), NOW)


def test_a_message_goes_to_the_machine_whose_family_declares_it(host, diary):
    assert host.handle(Received(PEER, Blue("b")), NOW) == []
    assert host.handle(Received(PEER, Red("r")), NOW) == []
    assert diary == [("blue", Received(PEER, Blue("b"))), ("red", Received(PEER, Red("r")))]


def test_a_call_becomes_a_request_and_its_reply_an_answer_to_the_client(host, blue, diary):
    operation = OperationId(CLIENT, 3)
    blue.strings.append([Reply(operation, "done")])
    effects = host.handle(Received(CLIENT, Call(3, Blue("b"))), NOW)
    assert diary == [("blue", Requested(operation, Blue("b")))]
    assert effects == [Send(CLIENT, Answer(3, "done"))]


def test_a_call_to_nobody_is_declined_and_is_no_stray(host, diary):
    effects = host.handle(Received(CLIENT, Call(4, Fact())), NOW)
    refusal = Declined("MessageError", "Fact is nothing this node does")
    assert effects == [Send(CLIENT, Answer(4, refusal))]
    assert (diary, host.strays) == ([], 0)


def test_a_stray_message_is_counted_and_told(host, diary):
    effects = host.handle(Received(PEER, Fact()), NOW)
    assert effects == [Note("Fact from n2 has no family here")]
    assert (diary, host.strays) == ([], 1)


def test_a_request_from_inside_is_answered_inside(host, red, diary):
    operation = OperationId(ME, 1)
    red.strings.append([Reply(operation, "left")])
    assert host.handle(Requested(operation, Red()), NOW) == [Reply(operation, "left")]
    assert diary == [("red", Requested(operation, Red()))]


def test_the_same_ticket_of_two_machines_is_two_tickets_and_each_gets_its_own_back(
    host, red, blue, diary
):
    tickets = [
        pull(host, puppet, Persist(ticket, (Write(b"k", b"v"),)))[0].ticket
        for ticket in (1, 2)
        for puppet in (red, blue)
    ]
    assert len(set(tickets)) == 4
    diary.clear()
    for ticket in tickets:
        host.handle(Persisted(ticket), NOW)
    host.handle(PersistFailed(tickets[3], "full"), NOW)
    assert diary == [
        ("red", Persisted(1)),
        ("blue", Persisted(1)),
        ("red", Persisted(2)),
        ("blue", Persisted(2)),
        ("blue", PersistFailed(2, "full")),
    ]


def test_keys_are_told_apart_by_family_and_bulk_stays_bulk(host, red, blue):
    changes = (Write(b"k", b"v"), Write(b"~k", b"v"), erase(b"k"), erase(b"~k"))
    assert pull(host, red, Persist(1, changes))[0].changes == (
        Write(b"red/k", b"v"),
        Write(b"~red/k", b"v"),
        erase(b"red/k"),
        erase(b"~red/k"),
    )
    assert pull(host, blue, Load(1, (b"k", b"~k")))[0].keys == (b"blue/k", b"~blue/k")


def test_what_was_loaded_comes_back_under_the_machines_own_keys(host, blue, diary):
    (load,) = pull(host, blue, Load(5, (b"a", b"~b", b"c")))
    first, second, third = load.keys
    diary.clear()
    host.handle(Loaded(load.ticket, (Record(first, b"1"), Damaged(second), Missing(third))), NOW)
    assert diary == [("blue", Loaded(5, (Record(b"a", b"1"), Damaged(b"~b"), Missing(b"c"))))]


def test_a_scan_stays_within_its_family_and_comes_back_under_the_machines_own_keys(
    host, blue, diary
):
    assert pull(host, blue, Scan(4, b"a", b"c", 9))[0] == Scan(9, b"blue/a", b"blue/c", 9)
    (scan,) = pull(host, blue, Scan(5, b"~", b"~\xff", 100))
    assert (scan.start, scan.stop, scan.bytes_max) == (b"~blue/", b"~blue/\xff", 100)
    diary.clear()
    host.handle(Loaded(scan.ticket, (Record(b"~blue/a", b"1"), Damaged(b"~blue/b"))), NOW)
    assert diary == [("blue", Loaded(5, (Record(b"~a", b"1"), Damaged(b"~b"))))]


@pytest.mark.parametrize(
    "effect", [Scan(1, b"a", b"~z", 1), Scan(1, b"~a", b"z", 1), Persist(1, (Erase(b"a", b"~z"),))]
)
def test_no_range_goes_from_small_records_into_bulk(host, red, effect):
    with pytest.raises(AssertionError, match="bulk"):
        pull(host, red, effect)


def test_every_machine_learns_the_wall_clocks_time(host, diary):
    host.handle(Started(wall=1_700_000_000), NOW)
    assert diary == [
        ("red", Started(wall=1_700_000_000)),
        ("blue", Started(wall=1_700_000_000)),
    ]


def test_each_machine_starts_with_its_own_records_and_its_own_damage(host, diary):
    records = (Record(b"blue/k", b"b"), Record(b"red/k", b"r"), Record(b"redder/k", b"?"))
    host.handle(Started(records, (b"red/hurt", b"blue/x")), NOW)
    assert diary == [
        ("red", Started((Record(b"k", b"r"),), (b"hurt",))),
        ("blue", Started((Record(b"k", b"b"),), (b"x",))),
    ]


def test_an_announcement_reaches_the_other_machines_within_the_step_and_the_outside(
    host, red, blue, diary
):
    blue.strings.append([Send(PEER, Blue("so"))])
    effects = pull(host, red, Announce(Fact("f")), Note("after"))
    assert diary[1:] == [("blue", Announced(Fact("f")))]
    assert effects == [Announce(Fact("f")), Note("after"), Send(PEER, Blue("so"))]


def test_a_fact_from_outside_reaches_every_machine(host, diary):
    host.handle(Announced(Fact()), NOW)
    assert diary == [("red", Announced(Fact())), ("blue", Announced(Fact()))]


def test_a_message_to_oneself_is_handled_within_the_step_and_never_sent(host, red, diary):
    assert pull(host, red, Send(ME, Blue("to me")), Send(PEER, Red())) == [Send(PEER, Red())]
    assert diary[1:] == [("blue", Received(ME, Blue("to me")))]


def test_a_call_to_oneself_is_answered_from_within(host, red, blue):
    operation = OperationId(ME, 9)
    blue.strings.append([Reply(operation, "done")])
    assert pull(host, red, Send(ME, Call(9, Blue()))) == [Reply(operation, "done")]


def test_machines_that_talk_without_end_are_stopped(host, red):
    red.handle = lambda *_: [Send(ME, Red())]
    with pytest.raises(AssertionError, match="without end"):
        host.handle(Received(PEER, Red()), NOW)


def test_a_timer_goes_back_to_the_machine_that_set_it(host, red, blue, diary):
    pull(host, red, SetTimer(RedTimer.TICK, NOW))
    assert pull(host, blue, SetTimer(BlueTimer.TICK, NOW)) == [SetTimer(BlueTimer.TICK, NOW)]
    diary.clear()
    host.handle(Expired(BlueTimer.TICK), NOW)
    host.handle(Expired(RedTimer.TICK), NOW)
    assert diary == [("blue", Expired(BlueTimer.TICK)), ("red", Expired(RedTimer.TICK))]


def test_what_concerns_no_other_machine_passes_as_it_is(host, red):
    effects = [CancelTimer(RedTimer.TICK), Note("n"), Halt("h"), Send(PEER, Blue())]
    assert pull(host, red, *effects) == effects


def test_a_machine_is_checked_that_has_heard_something_since_it_was(host, blue):
    host.handle(Received(PEER, Red("r")), NOW)
    blue.name = "broken"
    host.check()
    host.handle(Received(PEER, Blue("b")), NOW)
    with pytest.raises(AssertionError):
        host.check()
    host.check()


def test_two_families_cannot_declare_one_message(red, blue):
    with pytest.raises(AssertionError):
        Host(ME, [Family("red", red, (Red,)), Family("blue", blue, (Red,))])


def test_a_disk_that_failed_halts_the_node_and_no_machine_is_asked(host, red, diary):
    (persist,) = pull(host, red, Persist(1, (Write(b"k", b"v"),)))
    diary.clear()
    failed = PersistFailed(persist.ticket, "input/output error", fatal=True)
    assert host.handle(failed, NOW) == [Halt("input/output error", "StoreError")]
    assert diary == []


class Rooster:
    """Says until when its node is current; looks at the clock when it hears its own word."""

    def __init__(self, diary):
        self.diary = diary

    def handle(self, event, now):
        match event:
            case Received():
                return [Announce(Current(Instant(100)))]
            case Announced(Current(until)):
                assert now >= until
                return [Announce(Fact("cut off"))]
            case _:
                return []

    def check(self):
        pass


class Sleeper(Puppet):
    def handle(self, event, _now):
        self.diary.append((self.name, event))
        return []


def test_whoever_slept_hears_that_it_is_cut_off_before_what_woke_it(diary):
    woken = Received(PEER, Blue("hello"))
    families = [
        Family("blue", Sleeper(diary, "blue"), (Blue,)),
        Family("red", Rooster(diary), (Red,)),
    ]
    host = Host(ME, families)
    host.handle(Received(PEER, Red()), Instant(1))
    host.handle(woken, Instant(99))
    host.handle(woken, Instant(100))
    host.handle(woken, Instant(101))
    current, over = Announced(Current(Instant(100))), Announced(Fact("cut off"))
    assert [event for _, event in diary] == [current, woken, over, woken, woken]


# --- rule 7: views that are unsure ----------------------------------------------------------------


class Herald(Puppet):
    """Membership: it announces what it receives."""

    def handle(self, event, _now):
        match event:
            case Received(_, Red(word)):
                return [Announce(fact) for fact in self.diary.pop(word)]
            case _:
                return []


def view(epoch):
    return View(1, epoch, ME, ())


@pytest.fixture
def unsure():
    """A host with a fenced machine and one that is not; what each heard, and how to announce."""
    facts, fenced, patient = {}, [], []
    host = Host(
        ME,
        [
            Family("membership", Herald(facts, "red"), (Red,)),
            Family("fenced", Sleeper(fenced, "fenced"), (), fenced=True),
            Family("patient", Sleeper(patient, "patient"), (Blue,)),
        ],
    )

    def announce(at, *told):
        facts["now"] = told
        return host.handle(Received(PEER, Red("now")), Instant(at))

    def heard(diary):
        told = [event.fact for _, event in diary if isinstance(event, Announced)]
        return [fact for fact in told if not isinstance(fact, Unsure)]

    return host, announce, lambda: (heard(fenced), heard(patient))


def test_what_is_unsure_is_heard_by_the_fenced_at_once_and_by_others_when_it_is_sure(unsure):
    host, announce, heard = unsure
    effects = announce(1, Unsure(Instant(50)), view(2))
    assert SetTimer(HostTimer.SURE, Instant(50)) in effects
    announce(2, Leads(()))
    assert heard() == ([view(2), Leads(())], [])
    host.handle(Received(PEER, Blue()), Instant(49))
    assert heard()[1] == []
    host.handle(Expired(HostTimer.SURE), Instant(50))
    assert heard()[1] == [view(2), Leads(())]
    announce(60, view(3))
    assert heard()[1][-1] == view(3)


def test_it_is_heard_before_whatever_comes_then(unsure):
    host, announce, heard = unsure
    announce(1, Unsure(Instant(50)), view(2))
    host.handle(Received(PEER, Blue()), Instant(51))
    assert heard()[1] == [view(2)]


def test_a_view_that_is_sure_sooner_overtakes_none(unsure):
    host, announce, heard = unsure
    announce(1, Unsure(Instant(50)), view(2))
    assert SetTimer(HostTimer.SURE, Instant(2)) in announce(2, Unsure(Instant(0)), view(3))
    assert heard()[1] == []
    host.handle(Expired(HostTimer.SURE), Instant(2))
    assert heard()[1] == [view(2), view(3)]


def test_what_is_sure_need_not_wait_for_a_later_view_that_is_not(unsure):
    host, announce, heard = unsure
    announce(1, Unsure(Instant(50)), view(2))
    assert SetTimer(HostTimer.SURE, Instant(50)) in announce(20, Unsure(Instant(70)), view(3))
    effects = host.handle(Expired(HostTimer.SURE), Instant(50))
    assert effects == [SetTimer(HostTimer.SURE, Instant(70))]
    assert heard()[1] == [view(2)]
    host.handle(Received(PEER, Blue()), Instant(70))
    assert heard()[1] == [view(2), view(3)]


def test_who_is_cut_off_hears_it_at_once_and_of_no_view_from_before(unsure):
    host, announce, heard = unsure
    announce(1, Unsure(Instant(50)), view(2))
    announce(2, CutOff(2))
    assert heard()[1] == [CutOff(2)]
    host.handle(Received(PEER, Blue()), Instant(51))
    assert heard()[1] == [CutOff(2)]


def test_a_lead_that_ended_before_it_was_sure_was_none(unsure):
    host, announce, heard = unsure
    announce(1, Unsure(Instant(50)), Leads(()))
    announce(2, LeadsNoMore())
    host.handle(Received(PEER, Blue()), Instant(51))
    assert heard() == ([Leads(()), LeadsNoMore()], [])
    announce(60, Leads(()))
    announce(61, LeadsNoMore())
    assert heard()[1] == [Leads(()), LeadsNoMore()]


# --- rule 8 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "told"), [(20, []), (25, [Slept(seconds(5))])])
def test_who_is_asked_hears_that_the_process_slept(at, told):
    """A timer is due at 20 s, and something else comes first."""
    heard, due = [], later(START, seconds(20))
    waits, asked = Puppet(heard, "red"), Sleeper(heard, "blue")
    families = [Family("red", waits, (Red,)), Family("blue", asked, (Blue,), fenced=True)]
    host = Host(ME, families)
    waits.strings.append([SetTimer(RedTimer.TICK, due)])
    host.handle(Received(PEER, Red()), NOW)
    host.handle(Received(PEER, Blue()), later(START, seconds(at)))
    assert [one.fact for _, one in heard if isinstance(one, Announced)] == told
