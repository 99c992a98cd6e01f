"""Queues in a folder: what a killed process leaves behind, and who may have the folder."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from runtime.failing import FAILED, Failing
from snowmelt.core.errors import Empty, OutcomeUnknown, StoreBusy, Unreachable
from snowmelt.core.interval import Interval
from snowmelt.store import Store
from timing import TRIES, until
from wide import wide

PUTTING = """
import sys, snowmelt
with snowmelt.open(sys.argv[1], timeout=20) as cluster:
    orders = cluster.fifo("orders")
    number = int(sys.argv[2])
    while True:
        orders.put(b"%d" % number)
        print(number, flush=True)
        number += 1
        orders.put_many([b"%d" % one for one in range(number, number + 50)])
        print(*range(number, number + 50), sep="\\n", flush=True)
        number += 50
"""

MOVING = """
import sys, snowmelt
with snowmelt.open(sys.argv[1], timeout=20) as cluster:
    orders = cluster.fifo("orders")
    while True:
        with orders.get_many(7, timeout=0) as items:
            told = [bytes(body).decode() for body in items.batch]
        print(*told, sep="\\n", flush=True)
"""


PROCESSES = """
import json, os, sys, snowmelt  # once for all of them: to load it takes longer than they live
for line in sys.stdin:
    program, out, *arguments = json.loads(line)
    child = os.fork()
    if not child:
        os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT), sys.stdout.fileno())
        sys.argv[1:] = arguments
        exec(program, {})
        os._exit(0)
    print(child, flush=True)
    os.waitpid(child, 0)
    print("gone", flush=True)
"""


class Processes:
    """Runs programs one after the other, each in a process of its own, which it kills."""

    def __init__(self, running: subprocess.Popen[str], folder: Path) -> None:
        self._running = running
        self._outs = (folder / f"out{number}" for number in count())

    def killed(
        self, program: str, after: float | Callable[[], object], *arguments: str
    ) -> list[str]:
        """The whole lines that one had printed when it was killed.

        That is so many seconds after the first, or as soon as something is so.
        """
        assert self._running.stdin is not None
        assert self._running.stdout is not None
        out = next(self._outs)
        out.touch()
        self._running.stdin.write(json.dumps((program, str(out), *arguments)) + "\n")
        self._running.stdin.flush()
        child = int(self._running.stdout.readline())
        end = time.monotonic() + 60
        while not out.stat().st_size:  # from then on it is at work
            assert time.monotonic() < end
            time.sleep(0.001)
        time.sleep(after) if isinstance(after, float) else until(after)
        os.kill(child, signal.SIGKILL)
        assert self._running.stdout.readline() == "gone\n"
        lines = out.read_text().splitlines(keepends=True)
        return [line.strip() for line in lines if line.endswith("\n")]


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    command = [sys.executable, "-c", PROCESSES]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        yield Processes(running, tmp_path_factory.mktemp("printed"))


@pytest.mark.parametrize("times", [8, *wide(20)])
def test_whatever_moment_a_process_is_killed_what_put_returned_is_there(
    tmp_path: Path, processes: Processes, times: int
) -> None:
    chance = random.Random(20)
    folder = tmp_path / "queues"
    told: list[int] = []
    for turn in range(times):
        told += map(
            int,
            processes.killed(PUTTING, chance.uniform(0, 0.3), str(folder), str(turn * 10**6)),
        )
    with snowmelt.open(folder) as cluster:
        there: list[int] = []
        previous = None
        for _ in range(1_000_000):
            try:
                previous = cluster.fifo("orders").get_many(10_000, timeout=0, ack=previous)
            except Empty:
                break
            there += (int(body) for body in previous.batch)
    assert len(told) > 20
    assert not set(told) - set(there), "lost"
    assert len(set(there)) == len(there), "doubled"
    assert there == sorted(there), "out of order"


@pytest.mark.parametrize("times", [5, *wide(10)])
def test_what_was_acknowledged_by_a_killed_process_never_comes_again(
    tmp_path: Path, processes: Processes, times: int
) -> None:
    chance = random.Random(21)
    total = 20_000
    with snowmelt.open(tmp_path) as cluster:
        cluster.fifo("orders").put_many(b"%d" % at for at in range(total))
    told: list[int] = []
    for _ in range(times):
        told += map(int, processes.killed(MOVING, chance.uniform(0, 0.2), str(tmp_path)))
    with snowmelt.open(tmp_path) as cluster:
        orders = cluster.fifo("orders")
        items = orders.get_many(total, timeout=0)
        rest = [int(body) for body in items.batch]
        items.ack()
        assert orders.stats().done == total
    assert len(told) > 20
    assert not set(told) & set(rest)
    assert set(range(total)) - set(told) - set(rest) <= set(range(rest[0]))
    # What was acknowledged and not told before the kill: at most what one get brought, each time.
    assert total - len(told) - len(rest) <= 7 * 10


def test_leases_end_with_the_process_that_held_them(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        cluster.fifo("orders", lease=3600).put_many([b"one", b"two"])
        cluster.fifo("orders").get()
    with snowmelt.open(tmp_path) as cluster, cluster.fifo("orders").get(timeout=0) as item:
        assert item.body == b"one"


def test_a_folder_is_waited_for_and_then_said_to_be_held(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        with pytest.raises(StoreBusy, match="held by process"):
            snowmelt.open(tmp_path, timeout=0.2)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(snowmelt.open, tmp_path, timeout=20)
            time.sleep(0.2)  # so that it waits
            cluster.close()
            waiting.result(5).close()


def test_it_starts_no_thread(tmp_path: Path) -> None:
    before = threading.enumerate()
    with snowmelt.open(tmp_path) as cluster:
        orders = cluster.fifo("orders")
        orders.put(b"one")
        orders.get().ack()
        with pytest.raises(Empty):
            orders.get(timeout=0.1)
        assert threading.enumerate() == before


def test_closing_ends_the_calls_that_wait(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        cluster = snowmelt.open(tmp_path)
        waiting = pool.submit(cluster.fifo("orders").get, timeout=20)
        time.sleep(0.2)  # so that it waits
        cluster.close()
        with pytest.raises((OutcomeUnknown, Unreachable), match="closed"):
            waiting.result(5)


def test_what_is_put_with_a_late_flush_is_there_too(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        assert cluster.fifo("orders", flush=1).put_many([b"x"] * 10) == (Interval(0, 10),)
    with snowmelt.open(tmp_path) as cluster:
        assert len(cluster.fifo("orders").get_many()) == 10


LINGERING = """
import sys, time, snowmelt
cluster = snowmelt.open(sys.argv[1])
cluster.fifo("orders", flush=0.1).put_many([b"lingers"] * 10)
print("put", flush=True)
time.sleep(60)
"""


def test_what_lingers_is_flushed_in_time_though_nobody_calls(
    tmp_path: Path, processes: Processes
) -> None:
    def flushed() -> bool:
        return b"lingers" in (tmp_path / "log").read_bytes()

    assert processes.killed(LINGERING, flushed, str(tmp_path)) == ["put"]
    with snowmelt.open(tmp_path) as cluster:
        assert cluster.fifo("orders").stats().ready == 10


def test_an_open_folder_that_nobody_uses_takes_no_processor(tmp_path: Path) -> None:
    async def idle() -> float:
        async with snowmelt.aio.open(tmp_path) as cluster:
            fifo = cluster.fifo("orders")
            await fifo.put(b"one")
            await (await fifo.get(timeout=1)).ack()
            begin = time.process_time()
            await asyncio.sleep(1)
            return time.process_time() - begin

    assert any(asyncio.run(idle()) < 0.05 for _ in range(TRIES))


def test_what_several_tasks_ask_for_at_once_is_flushed_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    commit = Store.commit

    def counted(store: Store, groups: Any, *given: Any) -> Any:
        flushed.append(len(groups))
        return commit(store, groups, *given)

    async def work() -> int:
        async with snowmelt.aio.open(tmp_path) as cluster:
            queues = [cluster.fifo("jobs") for _ in range(64)]
            await queues[0].put_many([b"%d" % at for at in range(64)])
            monkeypatch.setattr(Store, "commit", counted)
            items = await asyncio.gather(*[queue.get() for queue in queues])
            await asyncio.gather(*[item.ack() for item in items])
            assert len({item.position for item in items}) == 64
            return (await queues[0].stats()).ready

    assert asyncio.run(work()) == 0
    assert len(flushed) < 40, "each get, and each acknowledgement, is flushed before its answer"


def test_asking_about_a_queue_right_after_opening_is_answered_at_once(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        cluster.fifo("orders").put(b"one")

    def asked() -> float:
        with snowmelt.open(tmp_path) as cluster:
            begin = time.monotonic()
            assert cluster.fifo("orders").stats().ready == 1
            return time.monotonic() - begin

    assert any(asked() < 0.3 for _ in range(TRIES))


@pytest.mark.parametrize("fails", ["reads", "writes"])
def test_when_the_disk_fails_every_call_from_then_on_says_so(tmp_path: Path, fails: str) -> None:
    cluster = snowmelt.open(tmp_path)
    fifo = cluster.fifo("orders")
    fifo.put(b"one")
    cluster.close()  # so that its body is read from the disk
    cluster = snowmelt.open(tmp_path)
    fifo = cluster.fifo("orders")
    cluster.queues()
    setattr(Failing(cluster._machine._store), fails, False)
    with pytest.raises(OutcomeUnknown, match=FAILED):  # not that it did not happen: it may have
        fifo.get() if fails == "reads" else fifo.put(b"two")
    for call in (fifo.get, lambda: fifo.put(b"three"), cluster.queues):
        with pytest.raises(Unreachable, match=FAILED):
            call()
    cluster.close()
    with snowmelt.open(tmp_path) as again:
        assert again.fifo("orders").get().body == b"one"
