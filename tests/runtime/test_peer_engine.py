"""Two and more engines on real sockets in one process: what is sent arrives, whole, and in time."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from time import monotonic, sleep

import pytest

from runtime.peering import GET, PATIENCE, engine, inside, know, put, wait_room
from snowmelt.core.errors import BadOption, Empty, MachineCrashed, OutcomeUnknown, Unreachable
from snowmelt.core.instant import SECOND
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.pool.calls import Acquaintances, DescribePeer, Stop, Unsent
from snowmelt.protocols.pool.messages import Cancel
from snowmelt.runtime import near
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.peer import PeerConfig
from snowmelt.runtime.peer.limits import LARGE, PeerLimits
from snowmelt.runtime.peer.sharing import COPIED_BYTES
from timing import until


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 1 << 20, (3 << 20) + 1])
def test_a_body_arrives_as_it_was_sent(size):
    with engine("c-a") as (giver, _), engine("c-b") as (taker, machine):
        know(taker, machine, giver)
        body = os.urandom(size)
        giver.call(put(body), 5)
        got = taker.call(GET, 10)
        assert got.blob == body
        assert got.producer == "c-a"
        comes_in_pieces = size >= LARGE and not (near.POSSIBLE and size <= COPIED_BYTES)
        assert len(machine.coming()) == comes_in_pieces


def test_the_largest_object_there_may_be_passes_without_a_copy_kept():
    with engine("c-a") as (giver, _), engine("c-b") as (taker, machine):
        know(taker, machine, giver)
        size = 256 << 20
        giver.call(put(memoryview(bytearray(size))), 5)
        got = taker.call(GET, 30)
        assert len(got.blob) == size
        assert got.blob.readonly
        assert taker.statistics().links.bytes_in < size + size // 1000


def test_an_object_that_waits_and_one_that_is_waited_for():
    with engine("c-a") as (giver, giving), engine("c-b") as (taker, machine):
        know(taker, machine, giver)
        came = []
        thread = threading.Thread(target=lambda: came.append(taker.call(GET, 10).blob))
        thread.start()
        until(lambda: giving.line)
        giver.call(put(b"late"), 5)
        thread.join(5)
        assert came == [b"late"]


def test_small_messages_overtake_a_large_object():
    with engine("c-a") as (giver, _), engine("c-b") as (taker, machine):
        know(taker, machine, giver)
        giver.call(put(bytes(200 << 20)), 5)
        giver.call(put(b"small"), 5)
        order = []
        both = threading.Event()

        def came(body):
            order.append(len(body.blob))
            if len(order) == 2:
                both.set()

        taker.submit(GET, came)
        taker.submit(GET, came)
        assert both.wait(20)
        assert order == [5, 200 << 20]


def test_large_objects_of_one_link_take_turns():
    with engine("c-a") as (giver, _), engine("c-b") as (taker, machine):
        know(taker, machine, giver)
        sizes = [64 << 20, 1 << 20]
        for size in sizes:
            giver.call(put(bytes(size)), 5)
        order = []
        both = threading.Event()

        def came(body):
            order.append(len(body.blob))
            if len(order) == 2:
                both.set()

        for _ in sizes:
            taker.submit(GET, came)
        assert both.wait(20)
        assert order == [1 << 20, 64 << 20]


def test_a_timer_fires_while_a_caller_waits_and_while_none_does():
    with engine("c-a") as (one, machine):
        begin = monotonic()
        one.call(wait_room(50), 5)
        assert 0.05 <= monotonic() - begin < 4
        done = threading.Event()
        one.submit(wait_room(50), lambda _: done.set())
        assert done.wait(20)
        assert machine.late == []


def test_an_earlier_timer_of_another_thread_is_not_late():
    with engine("c-a") as (one, _):
        slow = threading.Thread(target=one.call, args=(wait_room(3_000), 5))
        slow.start()
        sleep(0.05)
        done = threading.Event()
        begin = monotonic()
        one.submit(wait_room(20), lambda _: done.set())
        assert done.wait(5)
        assert monotonic() - begin < 2
        slow.join(5)
        assert not slow.is_alive()


def test_declined_is_raised_and_submitted_calls_are_told():
    with engine("c-a") as (one, _):
        with pytest.raises(Empty, match="nothing here"):
            one.call(Stop(PATIENCE), 1)
        told = []
        one.submit(Stop(PATIENCE), told.append)
        until(lambda: told == [Declined("Empty", "nothing here")])


def test_a_machine_that_never_answers_is_given_up_on_and_the_call_withdrawn(monkeypatch):
    monkeypatch.setattr("snowmelt.runtime.peer.engine.MARGIN", (0.05,))
    with engine("c-a") as (one, machine):
        machine.producer = NodeId("c-nobody")
        with pytest.raises(OutcomeUnknown, match="no answer"):
            one.call(GET, 0.05)
        until(lambda: machine.withdrawn == [1])
        assert machine.gets == {}
        assert one.statistics().links.dropped == {"no route": 1}


def test_a_machine_that_raises_ends_the_engine_and_every_call():
    with engine("c-a") as (one, machine):
        machine.producer = NodeId("c-nobody")
        ends = []

        def wait():
            try:
                one.call(GET, 20)
            except MachineCrashed as error:
                ends.append(error)

        threads = [threading.Thread(target=wait) for _ in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: len(machine.gets) == 4)
        with pytest.raises(MachineCrashed, match="can't describe"):
            one.call(DescribePeer(), 5)
        for thread in threads:
            thread.join(5)
        assert len(ends) == 4
        with pytest.raises(MachineCrashed):
            one.call(GET, 5)


def test_when_one_crashes_the_others_lose_it():
    with engine("c-a") as (one, _), engine("c-b") as (other, machine):
        know(other, machine, one)
        until(machine.reached)
        with pytest.raises(MachineCrashed):
            one.call(DescribePeer(), 5)
        until(machine.lost)


def test_a_call_on_a_closed_engine_says_so_and_one_that_waits_ends():
    with engine("c-a") as (one, machine):
        machine.producer = NodeId("c-nobody")
        ends = []

        def wait():
            try:
                one.call(GET, 20)
            except OutcomeUnknown as error:
                ends.append(str(error))

        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: machine.gets)
        one.close()
        thread.join(5)
        assert ends == ["the pool was closed before the answer came"]
        with pytest.raises((Unreachable, OutcomeUnknown), match="closed"):
            one.call(GET, 5)
    names = [thread.name for thread in threading.enumerate()]
    assert "snowmelt-pool" not in names


def test_what_is_queued_leaves_before_the_end():
    with engine("c-b") as (taker, machine):
        with engine("c-a") as (giver, giving):
            know(taker, machine, giver)
            came = []
            thread = threading.Thread(target=lambda: came.append(len(taker.call(GET, 20).blob)))
            thread.start()
            until(lambda: len(giving.line) == 1)
            giver.call(put(bytes(20 << 20)), 5)
        thread.join(20)
        assert came == [20 << 20]


# --- who is reached ------------------------------------------------------------------------------


def test_a_link_is_made_when_wanted_and_told_once():
    with engine("c-a") as (giver, giving), engine("c-b") as (taker, machine):
        know(taker, machine, giver)
        until(machine.reached)
        until(giving.reached)
        sleep(0.1)
        assert machine.reached() == ["c-a"]
        assert giving.reached() == ["c-b"]
        assert giver.address == giving.listening()


def test_a_message_to_a_known_address_dials():
    with engine("c-a") as (giver, _), engine("c-b") as (taker, machine):
        know(taker, machine, giver, wanted=False)
        giver.call(put(b"x"), 5)
        assert machine.reached() == []
        assert taker.call(GET, 5).blob == b"x"


def test_one_who_is_not_there_is_lost_again_and_again_until_it_comes():
    with engine("c-b") as (taker, machine):
        with engine("c-a") as (gone, _):
            address = gone.address
        machine.producer = NodeId("c-a")
        taker.call(Acquaintances({NodeId("c-a"): address}, (NodeId("c-a"),)), 5)
        until(lambda: len(machine.lost()) >= 3)
        assert set(machine.lost()) == {"c-a"}
        with engine("c-a", listen=address) as (giver, _):
            until(machine.reached)
            giver.call(put(b"x"), 5)
            assert taker.call(GET, 5).blob == b"x"


def test_another_where_one_should_be_is_not_taken_for_it():
    with engine("c-a") as (other, _), engine("c-b") as (taker, machine):
        taker.call(Acquaintances({NodeId("c-x"): other.address}, (NodeId("c-x"),)), 5)
        until(machine.lost)
        assert machine.lost()[0] == "c-x"
        assert "c-a answers where c-x should be" in str(taker.last_failure)


def test_two_that_dial_each_other_at_once_reach_each_other():
    with engine("c-a") as (one, first), engine("c-b") as (other, second):
        barrier = threading.Barrier(2)

        def meet(mine, machine, theirs):
            barrier.wait(5)
            know(mine, machine, theirs)

        threads = [
            threading.Thread(target=meet, args=(one, first, other)),
            threading.Thread(target=meet, args=(other, second, one)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5)
        until(lambda: first.reached() and second.reached())
        for count in range(20):
            one.call(put(bytes([count])), 5)
            other.call(put(bytes([count])), 5)
            assert one.call(GET, 5).blob == other.call(GET, 5).blob == bytes([count])
        assert first.lost() == second.lost() == []
        assert (first.reached(), second.reached()) == (["c-b"], ["c-a"])


KILLED = """
import sys
sys.path.insert(0, sys.argv[1])
from runtime.peering import engine, put
with engine("c-a") as (giver, machine):
    giver.call(put(bytes(256 << 20)), 5)
    print(giver.address.port, flush=True)
    sys.stdin.read()
"""


def test_one_that_is_killed_in_the_middle_of_an_object_is_lost():
    here = str(Path(__file__).parent.parent)
    program = [sys.executable, "-c", KILLED, here]
    with (
        subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other,
        engine("c-b") as (taker, machine),
    ):
        address = Address("127.0.0.1", int(other.stdout.readline()))
        machine.producer = NodeId("c-a")
        taker.call(Acquaintances({NodeId("c-a"): address}, (NodeId("c-a"),)), 5)
        until(machine.reached)
        came = []
        taker.submit(GET, came.append)
        until(machine.coming)
        other.send_signal(signal.SIGKILL)
        until(machine.lost)
        assert came == []
        assert taker._links.stores.held == 0


def test_dials_that_fail_wait_longer_each_time():
    with engine("c-b") as (taker, machine):
        nowhere = Address("127.0.0.1", 1)
        taker.call(Acquaintances({NodeId("c-a"): nowhere}, (NodeId("c-a"),)), 5)
        until(lambda: len(machine.lost()) >= 2)
        sleep(1.0)
        assert len(machine.lost()) <= 8  # after 0, 50, 150, 350 and 750 ms, or half of that


# --- many threads --------------------------------------------------------------------------------


def test_many_threads_of_two_processes_lose_no_wake_up(monkeypatch):
    """Both put and get at once. All must come.

    Nobody wakes by itself here, as in life, so that a ring that is lost shows.
    """
    monkeypatch.setattr("snowmelt.runtime.bell.LONGEST_SLEEP", 60.0)
    monkeypatch.setattr("snowmelt.runtime.peer.engine_thread.LONGEST_POLL", 60 * SECOND)
    rounds, width = 150, 6
    with engine("c-a") as (one, first), engine("c-b") as (other, second):
        know(one, first, other)
        know(other, second, one)
        took = []
        wrong = []

        def work(mine, number):
            try:
                for count in range(rounds):
                    mine.call(put(b"%d/%d" % (number, count)), 10)
                    took.append(bytes(mine.call(GET, 10).blob))
                    if count % 50 == 0:
                        sleep(0.003)
            except Exception as error:
                wrong.append(error)

        threads = [
            threading.Thread(target=work, args=((one, other)[number % 2], number))
            for number in range(2 * width)
        ]
        begin = monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert wrong == []
        assert not any(thread.is_alive() for thread in threads)
        assert monotonic() - begin < 30
        sent = [
            b"%d/%d" % (number, count) for number in range(2 * width) for count in range(rounds)
        ]
        assert sorted(took) == sorted(sent)


def test_threads_that_wait_for_different_times_each_end_in_theirs():
    with engine("c-a") as (one, _):
        late = []

        def wait(milliseconds):
            begin = monotonic()
            one.call(wait_room(milliseconds), 5)
            late.append(monotonic() - begin)

        threads = [threading.Thread(target=wait, args=(20 * n,)) for n in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5)
        assert len(late) == 8
        assert max(late) < 4


def test_others_are_answered_while_the_program_does_something_else():
    with engine("c-a") as (giver, _), engine("c-b") as (taker, machine):
        know(taker, machine, giver)
        for _ in range(20):
            giver.call(put(b"x"), 5)  # and then the giver's program does something else
        waits = []
        for _ in range(20):
            begin = monotonic()
            taker.call(GET, 5)
            waits.append(monotonic() - begin)
            sleep(0.003)
        assert sorted(waits)[10] < 0.5


INTERRUPTED = """
import os, signal, sys, threading, time
sys.path.insert(0, sys.argv[1])
from runtime.peering import engine, know, put, GET
with engine("c-a") as (giver, giving), engine("c-b") as (taker, machine):
    know(taker, machine, giver)
    def interrupt():
        while not giving.line:  # it has asked, and waits
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    try:
        taker.call(GET, 20)
    except KeyboardInterrupt:
        while not machine.withdrawn:
            time.sleep(0.01)
        print("interrupted", machine.withdrawn, flush=True)
    giving.line.clear()
    giver.call(put(b"x"), 5)
    print(taker.call(GET, 5).blob, flush=True)
"""


def test_an_interrupted_call_is_withdrawn_and_the_engine_lives():
    here = str(Path(__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, here], capture_output=True, timeout=30, check=True
    )
    first, second = done.stdout.splitlines()
    assert first.startswith(b"interrupted [")
    assert second == b"b'x'"


# --- limits and refusals -------------------------------------------------------------------------


def test_where_may_not_be_listened_is_said():
    with pytest.raises(BadOption, match="give a token"):
        PeerConfig(name=NodeId("c-a"), listen=Address("0.0.0.0", 0)).checked()
    token = Credentials(token="x")
    PeerConfig(name=NodeId("c-a"), listen=Address("10.0.0.5", 0), credentials=token).checked()
    with (
        engine("c-a") as (one, _),
        pytest.raises(BadOption, match="listen"),
        engine("c-b", listen=one.address),
    ):
        pass


@pytest.mark.parametrize(
    ("limits", "size"), [({"streams": 8}, 200_000), ({"incoming_bytes": 64 << 20}, 2 << 20)]
)
def test_what_is_more_than_may_be_on_its_way_comes_later(limits, size):
    shrunk = PeerLimits(**limits)
    with (
        engine("c-a", limits=shrunk) as (giver, giving),
        engine("c-b", limits=shrunk) as (taker, taking),
    ):
        know(taker, taking, giver)
        came = []
        for _ in range(50):
            taker.submit(GET, came.append)
        until(lambda: len(giving.line) == 50)

        def give_all_at_once():
            giving.objects.extend(bytes(size) for _ in range(50))
            for effect in giving._match():
                giver._links.send(effect.target, effect.message)

        inside(giver, give_all_at_once)
        until(lambda: len(came) == 50)
        assert {len(got.blob) for got in came} == {size}
        assert giving.lost() == taking.lost() == []
        until(lambda: taker._links.stores.held == 0)


def test_too_many_that_wait_for_a_dial_are_dropped_and_told():
    with engine("c-b", limits=PeerLimits(waiting=3)) as (taker, machine):
        machine.producer = NodeId("c-a")
        nowhere = Address("127.0.0.1", 1)
        taker.call(Acquaintances({NodeId("c-a"): nowhere}, (NodeId("c-a"),)), 5)
        for number in range(9):
            taker.call(Cancel(number, 1), 5)
        until(lambda: len(machine.told(Unsent)) == 9)
        assert {fact.message.number for fact in machine.told(Unsent)} == set(range(9))
        assert taker.statistics().links.dropped["too many wait for a dial"] >= 1


def test_what_is_for_one_whose_address_nobody_knows_is_told_at_once():
    with engine("c-b") as (taker, machine):
        machine.producer = NodeId("c-a")
        taker.call(Cancel(1, 1), 5)
        assert machine.told(Unsent) == [Unsent(NodeId("c-a"), Cancel(1, 1))]
