"""A loop over a queue with priorities hands out what is more urgent before the rest of what it got.

No test waits for a clock: `looking` has a loop look before each item, `takes` says how many it
takes.
"""

import asyncio
import threading
from contextlib import suppress

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalCluster
from snowmelt.client.leases import urgent_check, urgent_check_async
from snowmelt.client.leases.looping import PrefetchSize
from snowmelt.client.priority.face import PriorityQueue
from snowmelt.client.priority.steps import RankedSteps
from snowmelt.client.queue.options import ProducerSequence, ranked_settings
from snowmelt.core.errors import Closed, Unavailable
from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.queue.api.calls import Get, NodeAddress, Open, Opened, Put, PutDone

KINDS = {
    "numbered": ({"priorities": 9}, (6, 3, 1)),
    "largest of few": ({"priorities": 9, "largest_first": True}, (2, 5, 7)),
    "any": ({}, (10**12, -5, -(2**63))),
    "largest": ({"largest_first": True}, (-7, 0, 2**63 - 1)),
    "fractions": ({"priorities": float}, (2.5, 0.25, float("-inf"))),
    "largest fraction": ({"priorities": float, "largest_first": True}, (-0.5, 0.0, 1e300)),
}
HERE = NodeAddress(NodeId("n1"), Address("127.0.0.1", 1))


@pytest.fixture(params=KINDS, ids=[one.replace(" ", "-") for one in KINDS])
def kind(request):
    """Its settings; and three priorities, each more urgent than the one before."""
    return KINDS[request.param]


@pytest.fixture
def looking(monkeypatch):
    """It is always time to look."""
    for face in (urgent_check, urgent_check_async):
        monkeypatch.setattr(face.UrgentCheck, "got", lambda *_: None)


@pytest.fixture
def takes(monkeypatch):
    """How many a loop takes at once, by hand."""
    size = [20]
    monkeypatch.setattr(PrefetchSize, "next", lambda *_: size[0])
    return size


@pytest.fixture
def three(tmp_path):
    """A client of each of two nodes of three."""
    with LocalCluster(3, tmp_path, 0.5) as cluster:
        cluster.start()
        first, second, _ = cluster.nodes
        with snowmelt.connect(first.url) as one, snowmelt.connect(second.url) as other:
            yield one, other


@pytest.fixture(params=["node", "embedded"])
def queues_async(request, tmp_path):
    """Runs a scene on a node, and in a folder."""

    def play(scene):
        async def played():
            if request.param == "embedded":
                opened = snowmelt.aio.open(tmp_path / "q")
            else:
                opened = snowmelt.aio.connect(request.getfixturevalue("node").url)
            async with opened as cluster:
                await scene(cluster)

        asyncio.run(played())

    return play


def bodies(items):
    return [bytes(item.body) for item in items]


def row(text, count):
    return [b"%s %d" % (text, at) for at in range(count)]


def taken(loop, count):
    """So many items of a loop, acknowledged."""
    found = []
    for _ in range(count):
        item = next(loop)
        found.append(bytes(item.body))
        item.ack()
    return found


# --- what is more urgent comes first --------------------------------------------------------------


@pytest.mark.usefixtures("looking")
def test_what_is_put_meanwhile_comes_before_the_rest_of_what_was_got(queues, name, kind):
    settings, (patient, soon, urgent) = kind
    jobs = queues.priority(name, **settings)
    jobs.put_many(row(b"patient", 8), priority=patient)
    with jobs.consume(prefetch=8, timeout=0) as loop:
        assert taken(loop, 2) == row(b"patient", 2)
        jobs.put_many(row(b"soon", 3), priority=soon)
        assert taken(loop, 1) == [b"soon 0"]
        jobs.put_many(row(b"urgent", 2), priority=urgent)
        jobs.put(b"soon 3", priority=soon)
        rest = [*row(b"urgent", 2), *row(b"soon", 4)[1:], *row(b"patient", 8)[2:]]
        assert taken(loop, len(rest)) == rest
        assert not list(loop)
    assert jobs.stats().ready == jobs.stats().leased == 0


def test_without_looking_what_was_got_is_handed_out(queues, name, monkeypatch):
    never = later(Instant(0), seconds(10**9))
    monkeypatch.setattr(
        urgent_check.UrgentCheck, "got", lambda self, _: setattr(self, "due", never)
    )
    jobs = queues.priority(name, priorities=3)
    jobs.put_many(row(b"patient", 3), priority=2)
    with jobs.consume(prefetch=3, timeout=0) as loop:
        assert taken(loop, 1) == [b"patient 0"]
        jobs.put(b"urgent", priority=0)
        assert taken(loop, 1) == [b"patient 1"]
        loop._urgent_check.due = Instant(0)
        assert taken(loop, 2) == [b"urgent", b"patient 2"]


@pytest.mark.usefixtures("looking")
def test_what_goes_back_at_another_consumer_comes_first_too(queues, name):
    jobs = queues.priority(name, priorities=3)
    jobs.put_many(row(b"job", 4), priority=1)
    other = jobs.get_many(2)
    with jobs.consume(prefetch=2, timeout=0) as loop:
        assert taken(loop, 1) == [b"job 2"]
        other.release()
        assert taken(loop, 3) == [b"job 0", b"job 1", b"job 3"]


@pytest.mark.usefixtures("looking")
def test_what_is_less_urgent_is_left_to_others(queues, name):
    jobs = queues.priority(name)
    jobs.put_many(row(b"job", 3), priority=4)
    with jobs.consume(prefetch=3, timeout=0) as loop:
        assert taken(loop, 1) == [b"job 0"]
        jobs.put_many([(4, b"as urgent"), (5, b"less")])
        assert taken(loop, 1) == [b"job 1"]
        assert bodies(jobs.get_many(9, timeout=0)) == [b"as urgent", b"less"]


@pytest.mark.usefixtures("looking")
def test_on_three_nodes(three, name):
    jobs, others = three[0].priority(name), three[1].priority(name)
    jobs.put_many(row(b"patient", 5), priority=9)
    with jobs.consume(prefetch=5, timeout=0) as loop:
        assert taken(loop, 1) == [b"patient 0"]
        others.put(b"urgent", priority=-9)
        assert taken(loop, 5) == [b"urgent", *row(b"patient", 5)[1:]]
    assert jobs.stats().leased == 0


@pytest.mark.usefixtures("looking")
def test_tasks_share_a_loop_and_each_item_comes_once(tmp_path):
    async def scene():
        async with snowmelt.aio.open(tmp_path / "q") as cluster:
            jobs, found = cluster.priority("jobs"), []
            await jobs.put_many(row(b"job", 40), priority=5)
            loop = jobs.consume(prefetch=20, timeout=0)

            async def work(number):
                async for item in loop:
                    found.append(bytes(item.body))
                    if len(found) == 7:
                        await jobs.put_many(row(b"urgent", 5), priority=number - 9)
                    await item.ack()

            await asyncio.gather(*map(work, range(3)))
            assert sorted(found) == sorted([*row(b"job", 40), *row(b"urgent", 5)])
            assert (await jobs.stats()).leased == 0

    asyncio.run(scene())


@pytest.mark.usefixtures("looking")
def test_workers_are_given_what_is_more_urgent_and_leave_the_rest(queues, name):
    jobs = queues.priority(name)
    jobs.put_many(row(b"patient", 5), priority=2)
    intake = jobs.intake(prefetch=5)
    assert bytes(intake.next(0).body) == b"patient 0"
    jobs.put_many(row(b"urgent", 3), priority=1)
    assert bytes(intake.next(0).body) == b"urgent 0"
    intake.rest()
    left = [*row(b"urgent", 3)[1:], *row(b"patient", 5)[1:]]
    assert bodies(jobs.get_many(9, timeout=0)) == left
    intake.close()


@pytest.mark.usefixtures("looking")
def test_workers_of_tasks_are_given_what_is_more_urgent(queues_async, name):
    async def scene(cluster):
        jobs = cluster.priority(name)
        await jobs.put_many(row(b"patient", 5), priority=2)
        intake = jobs.intake(prefetch=5)
        assert bytes((await intake.next(0)).body) == b"patient 0"
        urgent = asyncio.ensure_future(jobs.put(b"urgent", priority=1))
        await asyncio.sleep(0)
        assert bytes((await intake.next(0)).body) == b"urgent"
        await urgent
        await intake.rest()
        assert bodies(await jobs.get_many(9, timeout=0)) == row(b"patient", 5)[1:]
        await intake.close()

    queues_async(scene)


# --- how much waits here --------------------------------------------------------------------------


@pytest.mark.usefixtures("looking")
def test_work_that_becomes_slow_holds_little(queues, name, takes, kind):
    settings, (patient, soon, urgent) = kind
    jobs = queues.priority(name, **settings)
    jobs.put_many(row(b"patient", 20), priority=patient)
    with jobs.consume(timeout=0) as loop:
        assert taken(loop, 1) == [b"patient 0"]
        assert jobs.stats().leased >= 19
        takes[0] = 2
        item = next(loop)
        assert bytes(item.body) == b"patient 1"
        assert jobs.stats().leased <= 3, "what waits long is others'"
        assert bodies(jobs.get_many(9, timeout=0)) == row(b"patient", 12)[3:]
        takes[0] = 1
        jobs.put_many([(soon, b"soon"), (urgent, b"urgent")])
        item.ack()
        assert taken(loop, 3) == [b"urgent", b"soon", b"patient 2"]
        left = [next(loop) for _ in range(8)]
        assert bodies(left) == row(b"patient", 20)[12:]
        assert {item.failures for item in left} == {0}


def test_slow_work_has_one_in_hand():
    pace, now = PrefetchSize(None), Instant(0)
    pace.came(now, now, 0)
    for settled in range(1, 600):  # at once
        most = pace.next(now := later(now, seconds(0.0001)), settled)
    assert most == 1000
    for settled in range(600, 603):
        most = pace.next(now := later(now, seconds(1)), settled)
    assert most == 1


# --- nothing is lost, whatever ends a loop --------------------------------------------------------


class Ended(Exception):
    pass


@pytest.mark.usefixtures("looking")
@pytest.mark.parametrize("end", ["break", "exception", "close"])
def test_what_waits_goes_back_when_the_loop_ends(queues, name, end):
    jobs = queues.priority(name, max_deliveries=5)
    jobs.put_many(row(b"patient", 6), priority=2)
    with suppress(Ended), jobs.consume(prefetch=6, timeout=0) as loop:
        assert taken(iter(loop), 1) == [b"patient 0"]  # from here on it is known what is handled
        jobs.put_many(row(b"urgent", 2), priority=1)
        assert bytes(next(loop).body) == b"urgent 0"
        if end == "exception":
            raise Ended
        if end == "close":
            loop.close()
    again = jobs.get_many(9, timeout=0)
    assert bodies(again) == [*row(b"urgent", 2), *row(b"patient", 6)[1:]]
    assert [item.failures for item in again] == [int(end == "exception"), *[0] * 6]


@pytest.mark.parametrize("where", ["before", "got", "given back"])
def test_a_look_that_is_cancelled_loses_nothing(tmp_path, takes, where, monkeypatch):
    async def scene():
        async with snowmelt.aio.open(tmp_path / "q") as cluster:
            jobs = cluster.priority("jobs")
            await jobs.put_many(row(b"patient", 20), priority=2)
            loop = jobs.consume(timeout=0)
            await (await anext(loop)).ack()
            await jobs.put(b"urgent", priority=1)
            takes[0] = 3
            loop._urgent_check.due = Instant(0)
            reached = asyncio.Event()

            async def stop(*_):
                reached.set()
                await asyncio.Event().wait()

            if where == "before":
                monkeypatch.setattr(jobs._puts, "send", stop)
            elif where == "got":
                monkeypatch.setattr(urgent_check_async, "leasing", stop)
            else:
                monkeypatch.setattr(urgent_check_async, "run_async", stop)
            task = asyncio.ensure_future(anext(loop))
            await reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            monkeypatch.undo()
            again = await jobs.get_many(99, timeout=0)
            assert bodies(again) == [b"urgent", *row(b"patient", 20)[1:]]
            assert {item.failures for item in again} == {0}

    asyncio.run(scene())


def test_a_worker_whose_look_is_cancelled_goes_on_with_what_it_brought(
    tmp_path, takes, monkeypatch
):
    """A cancelled handler does not end its worker, so nothing goes back by its end."""

    async def scene():
        async with snowmelt.aio.open(tmp_path / "q") as cluster:
            jobs = cluster.priority("jobs")
            await jobs.put_many(row(b"patient", 20), priority=2)
            intake = jobs.intake()
            await (await intake.next(0)).ack()
            await jobs.put(b"urgent", priority=1)
            takes[0] = 3
            intake._urgent_check.due = Instant(0)
            told, reached = urgent_check_async.run_async, asyncio.Event()

            async def stop(*asked):
                await told(*asked)
                reached.set()
                await asyncio.Event().wait()

            monkeypatch.setattr(urgent_check_async, "run_async", stop)
            task = asyncio.ensure_future(intake.next(0))
            await reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            monkeypatch.undo()
            assert bodies(await jobs.get_many(99, timeout=0)) == row(b"patient", 20)[3:]
            here = [await intake.next(0) for _ in range(4)]
            assert bodies(here[:3]) == [b"urgent", *row(b"patient", 20)[1:3]]
            assert here[3] is None
            await intake.close()

    asyncio.run(scene())


@pytest.mark.usefixtures("looking")
def test_when_nobody_answers_what_is_here_is_worked_on(queues, name, takes, monkeypatch):
    jobs = queues.priority(name)
    jobs.put_many(row(b"job", 20))
    with jobs.consume(timeout=0) as loop:
        assert taken(loop, 1) == row(b"job", 1)
        takes[0] = 2

        def silent(*_):
            raise Unavailable("nobody is there")

        monkeypatch.setattr(loop._renewals, "get", silent)
        monkeypatch.setattr(loop._renewals, "release", silent)
        assert taken(loop, 19) == row(b"job", 20)[1:]


def test_an_ended_loop_hands_out_nothing_that_a_look_brought(tmp_path, monkeypatch):
    async def scene():
        async with snowmelt.aio.open(tmp_path / "q") as cluster:
            jobs = cluster.priority("jobs")
            await jobs.put_many(row(b"job", 5))
            loop = jobs.consume(prefetch=5, timeout=0)
            await (await anext(loop)).ack()
            loop._urgent_check.due = Instant(0)
            ended = loop.aclose

            async def ends(*_):
                await ended()

            monkeypatch.setattr(jobs._puts, "send", ends)
            with pytest.raises(StopAsyncIteration):
                await anext(loop)
            monkeypatch.undo()
            assert bodies(await jobs.get_many(9, timeout=0)) == row(b"job", 5)[1:]

    asyncio.run(scene())


# --- what the same program put before -------------------------------------------------------------


def test_tasks_put_before_a_loop_takes(queues_async, name):
    async def scene(cluster):
        jobs = cluster.priority(name, priorities=4)
        for turn in range(10):
            await jobs.put_many([b"old"] * 5, priority=2)
            first = asyncio.ensure_future(jobs.put(b"first", priority=3))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            urgent = asyncio.ensure_future(jobs.put(b"urgent", priority=0))
            await asyncio.sleep(0)
            async with jobs.consume() as loop:
                item = await anext(loop)
                assert item.body == b"urgent", f"{turn}: what was put before is passed"
                await asyncio.gather(first, urgent, item.ack())
            await jobs.purge()

    queues_async(scene)


class Node:
    """Answers puts, the first one late; and no get."""

    def __init__(self):
        self.heard = []
        self.late = threading.Event()
        self.came = threading.Event()

    def before_closing(self, _):
        pass

    def call(self, body, timeout, target=None, weight=0):
        del timeout, target, weight
        if isinstance(body, Open):
            return Opened(body.queue, ranked_settings(priorities=4, replicas=1), HERE, HERE)
        self.heard.append(body)
        if isinstance(body, Get):
            raise Closed("it is over")
        if len(self.heard) == 1:
            self.came.set()
            self.late.wait(20)
        return PutDone(0, body.count, 1, True)


def test_threads_put_before_a_loop_takes():
    node = Node()
    settings = ranked_settings(priorities=4, replicas=1)
    jobs = PriorityQueue(node, RankedSteps("jobs", settings, ProducerSequence()))
    line = jobs._puts._coalescer
    line._in_flight._late = seconds(100)  # so that what gathers does so for as long as this takes
    puts = [threading.Thread(target=jobs.put, args=(one,)) for one in (b"first", b"urgent")]
    puts[0].start()
    assert node.came.wait(20)
    puts[1].start()
    while not line.waiting:
        pass
    with pytest.raises(Closed):
        next(jobs.consume())
    words = [(type(body), getattr(body, "blob", b"")) for body in node.heard]
    assert words[:3] == [(Put, b"first"), (Put, b"urgent"), (Get, b"")]
    node.late.set()
    for one in puts:
        one.join(20)


def test_a_fifo_does_not_look(queues, name):
    assert queues.fifo(name).consume()._urgent_check.due == urgent_check.NEVER
