"""Taskiq's tasks over Snowmelt: its broker, its results, its worker."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from taskiq import BrokerMessage, TaskiqResult
from taskiq.api import run_receiver_task
from taskiq.depends.progress_tracker import TaskProgress, TaskState

import snowmelt
from door_senders import FIRST, Sender
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import BadOption
from snowmelt_doors.taskiq import SnowmeltBroker, SnowmeltResultBackend
from snowmelt_doors.taskiq.results import ResultIsMissing

pytest_plugins = ("door_nodes",)


@asynccontextmanager
async def started(url: str, name: str, **options: Any) -> AsyncIterator[SnowmeltBroker]:
    broker = SnowmeltBroker(url, namespace=name, **options)
    broker = broker.with_result_backend(SnowmeltResultBackend(url, namespace=f"{name}-r"))
    await broker.startup()
    try:
        yield broker
    finally:
        await broker.shutdown()


def message(body: bytes = b"any", **labels: Any) -> BrokerMessage:
    return BrokerMessage(task_id=uuid.uuid4().hex, task_name="any", message=body, labels=labels)


async def got(broker: SnowmeltBroker, count: int) -> list[Any]:
    came = broker.listen()
    async with asyncio.timeout(20):
        some = [await anext(came) for _ in range(count)]
    await came.aclose()
    return some


def test_who_stops_listening_keeps_only_what_was_handed_out(node: LocalNode, name: str) -> None:
    async def work() -> None:
        async with started(node.url, name, prefetch=4) as broker:
            for _ in range(4):
                await broker.kick(message())
            came = broker.listen()
            first = await anext(came)
            await asyncio.sleep(0.3)  # one waits to be handed out by now, and one behind it
            await came.aclose()
            queue = await broker.queue_of("default")
            async with asyncio.timeout(10):
                while (status := await queue.stats()).leased > 1:
                    await asyncio.sleep(0.02)
            assert (status.ready, status.leased, status.failed) == (3, 1, 0)
            await first.ack()

    asyncio.run(work())


def test_what_a_cancelled_receiver_drops_goes_back(node: LocalNode, name: str) -> None:
    """Taskiq has a few messages in a queue of its own, which it forgets; the broker goes on."""

    async def work() -> None:
        ran: Counter[int] = Counter()
        async with started(node.url, name) as broker:

            @broker.task
            async def count(number: int) -> None:
                ran[number] += 1
                await asyncio.sleep(0.01)

            tasks = [await count.kiq(number) for number in range(60)]
            for _ in range(3):
                receiver = asyncio.create_task(run_receiver_task(broker, run_startup=False))
                await asyncio.sleep(0.1)
                receiver.cancel()
                await asyncio.gather(receiver, return_exceptions=True)
            receiver = asyncio.create_task(run_receiver_task(broker, run_startup=False))
            for one in tasks:
                await one.wait_result(timeout=20)
            receiver.cancel()
            await asyncio.gather(receiver, return_exceptions=True)
        assert sorted(ran) == list(range(60))

    asyncio.run(work())


def test_messages_come_by_priority_and_when_their_delay_is_over(node: LocalNode, name: str) -> None:
    async def work() -> None:
        async with started(node.url, name) as broker:
            begun = time.monotonic()
            await broker.kick(message(b"late", delay=0.3, priority=9))
            await broker.kick(message(b"usual"))
            await broker.kick(message(b"patient", priority="-2"))
            await broker.kick(message(b"urgent", priority=10**15))
            some = await got(broker, 4)
            assert time.monotonic() - begun > 0.3
            others = [one.data for one in some if one.data != b"late"]  # it may be before them
            assert others == [b"urgent", b"usual", b"patient"]
            for one in some:
                await one.ack()

    asyncio.run(work())


def test_what_is_not_acknowledged_comes_again(node: LocalNode, name: str) -> None:
    async def work() -> None:
        async with started(node.url, name) as broker:
            for number in range(5):
                await broker.kick(message(b"%d" % number))
            some = await got(broker, 3)
            await some[1].ack()
        async with started(node.url, name) as broker:
            again = await got(broker, 4)
            assert [one.data for one in again] == [b"0", b"2", b"3", b"4"]
            status = await (await broker.queue_of("default")).stats()
            assert status.failed == 0

    asyncio.run(work())


def test_a_label_names_another_queue(node: LocalNode, name: str) -> None:
    async def work() -> None:
        async with started(node.url, name) as broker:
            await broker.kick(message(b"other", queue_name="other"))
            async with started(node.url, name, queue_name="other") as other:
                assert [one.data for one in await got(other, 1)] == [b"other"]

    asyncio.run(work())


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        ({"priority": "high"}, "priority is 'high'; allowed: a number"),
        ({"priority": 0.5}, "priority is 0.5; allowed: a whole number"),
        ({"delay": "soon"}, "delay is 'soon'; allowed: a number"),
    ],
)
def test_bad_labels_are_named(
    node: LocalNode, name: str, labels: dict[str, Any], named: str
) -> None:
    async def work() -> None:
        async with started(node.url, name) as broker:
            with pytest.raises(BadOption, match=named):
                await broker.kick(message(**labels))

    asyncio.run(work())
    with pytest.raises(BadOption, match="where is ''"):
        SnowmeltBroker("")


def test_tasks_work_and_their_results_come_back(node: LocalNode, name: str) -> None:
    async def work() -> None:
        async with started(node.url, name) as broker:

            @broker.task
            async def double(number: int) -> int:
                return 2 * number

            @broker.task
            def fail() -> None:
                raise ValueError("no")

            receiver = asyncio.create_task(run_receiver_task(broker))
            asked = [await double.kiq(number) for number in range(20)]
            results = [await one.wait_result(timeout=20) for one in asked]
            assert [one.return_value for one in results] == [2 * one for one in range(20)]
            failed = await (await fail.kiq()).wait_result(timeout=20)
            assert failed.is_err
            with pytest.raises(ValueError, match="no"):
                failed.raise_for_error()
            receiver.cancel()
            await asyncio.gather(receiver, return_exceptions=True)
        async with started(node.url, name) as broker:
            status = await (await broker.queue_of("default")).stats()
            assert (status.ready, status.leased, status.failed) == (0, 0, 0)

    asyncio.run(work())


def test_results_are_there_until_they_are_forgotten(node: LocalNode, name: str) -> None:
    async def work() -> None:
        backend = SnowmeltResultBackend(node.url, namespace=name, keep_results=False)
        result: TaskiqResult[Any] = TaskiqResult(
            is_err=False, log="a log", return_value={"a": [1, None]}, execution_time=0.1
        )
        with pytest.raises(ResultIsMissing, match="no result of task a, or it is older than 86400"):
            await backend.get_result("a")
        assert not await backend.is_result_ready("a")
        assert await backend.get_progress("a") is None
        await backend.set_progress("a", TaskProgress(state=TaskState.STARTED, meta={"at": 3}))
        progress = await backend.get_progress("a")
        assert progress is not None
        assert (progress.state, progress.meta) == ("STARTED", {"at": 3})
        await backend.set_result("a", result)
        assert await backend.is_result_ready("a")
        assert await backend.get_result("a", with_logs=True) == result
        assert not await backend.is_result_ready("a")
        await backend.shutdown()

    asyncio.run(work())


def test_a_broker_starts_again_on_another_loop(tmp_path: Path) -> None:
    broker = SnowmeltBroker(tmp_path / "queues")

    async def put() -> None:
        await broker.startup()
        await broker.kick(message())
        await broker.shutdown()

    asyncio.run(put())
    asyncio.run(put())
    with snowmelt.open(tmp_path / "queues") as cluster:
        assert cluster.priority("taskiq.default").stats().ready == 2


PROGRAM = """
import asyncio, os
from snowmelt_doors.taskiq import SnowmeltBroker, SnowmeltResultBackend
broker = SnowmeltBroker(os.environ["URL"]).with_result_backend(
    SnowmeltResultBackend(os.environ["URL"]))
done = os.open(os.environ["DONE"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)

@broker.task(task_name="work")
async def work(number: int, seconds: float) -> int:
    await asyncio.sleep(seconds)
    os.write(done, b"%d\\n" % number)
    return number
"""

SENDER = """
import asyncio, os
from snowmelt_doors.taskiq import SnowmeltBroker
broker = SnowmeltBroker(os.environ["URL"])
loop = asyncio.new_event_loop()
loop.run_until_complete(broker.startup())

@broker.task(task_name="work")
async def work(number: int, seconds: float) -> int:
    return number

def send(number):
    loop.run_until_complete(work.kiq(number, 0))
"""

Start = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(own_node: LocalNode, tmp_path: Path) -> Iterator[Start]:
    (tmp_path / "shop.py").write_text(PROGRAM)
    env = os.environ | {"URL": own_node.url, "DONE": str(tmp_path / "done")}
    begun: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "taskiq", "worker", "shop:broker", "-w", "2"]
        command += ["--max-async-tasks", "4", "--shutdown-timeout", "10"]
        with (tmp_path / "log").open("ab") as log:
            one = subprocess.Popen(
                command, cwd=tmp_path, env=env, stdout=log, stderr=log, start_new_session=True
            )
        begun.append(one)
        return one

    yield start
    for one in begun:
        if one.poll() is None:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()


def test_nothing_is_lost_though_workers_and_the_node_are_killed(
    start: Start, own_node: LocalNode, tmp_path: Path
) -> None:
    storm(start, own_node, tmp_path, 1)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_nothing_is_lost_in_a_long_storm(start: Start, own_node: LocalNode, tmp_path: Path) -> None:
    storm(start, own_node, tmp_path, 12)


def storm(start: Start, own_node: LocalNode, tmp_path: Path, rounds: int) -> None:
    """Each round kills the workers, a program that sends, and each second one the node."""
    chance, asked, one = random.Random(rounds), list[Any](), start()
    sender = Sender(tmp_path, SENDER, URL=own_node.url)
    with snowmelt.connect(own_node.url) as cluster:
        cluster.priority("taskiq.default", largest_first=True, lease=2).create()

    async def put(count: int) -> None:
        broker = SnowmeltBroker(own_node.url)

        @broker.task(task_name="work")
        async def work(number: int, seconds: float) -> int:
            raise NotImplementedError

        await broker.startup()
        for _ in range(count):
            kicker = work.kicker().with_labels(delay=chance.choice((0, 0, 0.3)))
            asked.append(await kicker.kiq(len(asked), chance.choice((0, 0, 0.2))))
        await broker.shutdown()

    async def check() -> None:
        backend = SnowmeltResultBackend(own_node.url)
        for number, task in enumerate(asked):
            assert (await backend.get_result(task.task_id)).return_value == number
        await backend.shutdown()

    for turn in range(rounds):
        sender.start()
        asyncio.run(put(50))
        time.sleep(chance.uniform(2, 3))
        os.killpg(one.pid, signal.SIGKILL)
        one.wait()
        if turn % 2 == 0:
            own_node.kill()
            own_node.start()
        one = start()
        sender.kill()
    end = time.monotonic() + 60
    numbers = set(range(len(asked)))
    with snowmelt.connect(own_node.url) as cluster:
        queue = cluster.priority("taskiq.default")
        while (status := queue.stats()).ready + status.leased + status.delayed:
            assert time.monotonic() < end, (tmp_path / "log").read_text()[-4000:]
            time.sleep(0.05)
        assert status.dead == 0
    one.terminate()
    one.wait(20)
    times = Counter(map(int, (tmp_path / "done").read_text().split()))
    sender.check(set(times))
    assert {number for number in times if number < FIRST} == numbers
    asyncio.run(check())
