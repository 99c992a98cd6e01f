"""Groups that several use at once, and those whose callers are cancelled: nothing is half done."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.client.connection.steps import run
from snowmelt.client.priority.group_steps import PriorityGroupSteps
from snowmelt.client.priority.notes import Note
from snowmelt.client.priority.staging import receipt_of
from snowmelt.client.priority.steps import PrioritySteps
from snowmelt.client.queue.group_steps import BEGINNING, Mark
from snowmelt.core.errors import Unavailable

LEASE = 30.0
ENDING = """
import signal, sys, threading, snowmelt
cluster = snowmelt.connect(sys.argv[1])
group = cluster.priority(sys.argv[2]).group("spark")
ask = group._port.call
asked = []
def counted(*given):
    asked.append(given)
    if len(asked) == 4:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    return ask(*given)
group._port.call = counted
try:
    group.advance(items_max=5)
except KeyboardInterrupt:
    print("interrupted")
if sys.argv[3] == "its cluster":
    cluster.close()
"""


@pytest.mark.parametrize("kind", ["priority", "fifo"])
def test_threads_that_share_a_group_are_told_the_same(node: LocalNode, kind: str) -> None:
    with snowmelt.connect(node.url) as cluster:
        queue: Any = getattr(cluster, kind)(f"shared-{kind}")
        queue.put_many([b"%d" % at for at in range(100)])
        group = queue.group("spark")
        told: list[Mark] = []
        at_once = threading.Barrier(8)

        def work() -> None:
            at_once.wait(20)
            told.append(group.advance(items_max=5).end)

        working = [threading.Thread(target=work) for _ in range(8)]
        for one in working:
            one.start()
        for one in working:
            one.join(30)
        assert len(told) == 8
        assert len(set(told)) == 1
        assert queue.stats().leased == (5 if kind == "priority" else 0)  # a fifo's group's are not
        assert group.release() == 5
        assert queue.stats().ready == 100


def test_who_waits_for_another_s_turn_in_vain_says_so() -> None:
    class Nobody:
        def call(self, *given: Any) -> Any:
            raise AssertionError(given)

    group = PriorityGroupSteps(PrioritySteps("jobs", None), "spark")
    first = group.advance(BEGINNING, 1, 1, 5)
    next(first)  # and it waits for its answer
    with pytest.raises(Unavailable, match="another thread or task is at work in group 'spark'"):
        run(Nobody(), group.advance(BEGINNING, 1, 1, 0.01))
    first.close()
    next(group.advance(BEGINNING, 1, 1, 5))


@pytest.mark.parametrize("call", range(1, 22))
async def test_an_advance_that_is_cancelled_leaves_nothing_half_done(
    node: LocalNode, call: int
) -> None:
    async with snowmelt.aio.connect(node.url) as cluster:
        jobs = cluster.priority(f"cancelled-{call}", lease=LEASE)
        await jobs.put_many([b"%d" % at for at in range(10)])
        await jobs.group("spark").advance(items_max=0)
        await note_that_lapsed(cluster, jobs)
        group = jobs.group("spark")
        advancing = asyncio.ensure_future(group.advance(items_max=5))
        asked, port = 0, group._port
        ask = port.call

        async def counted(*given: Any) -> Any:
            nonlocal asked
            asked += 1
            if asked == call:
                advancing.cancel()
            return await ask(*given)

        port.call = counted  # type: ignore[method-assign]
        await asyncio.wait([advancing])
        assert advancing.cancelled() == (call <= asked)
        begin = time.monotonic()
        end = (await group.advance(items_max=5)).end
        assert time.monotonic() - begin < LEASE / 3
        assert sum(note.count for note in await group.batches(BEGINNING, end)) == 5
        assert (await jobs.stats()).leased == 5


@pytest.mark.parametrize("call", range(1, 22))
def test_an_advance_that_is_interrupted_leaves_nothing_half_done(
    node: LocalNode, call: int
) -> None:
    with snowmelt.connect(node.url) as cluster:
        jobs = cluster.priority(f"interrupted-{call}", lease=LEASE)
        jobs.put_many([b"%d" % at for at in range(10)])
        jobs.group("spark").advance(items_max=0)
        lapsed(cluster, jobs)
        group = jobs.group("spark")
        asked, ask = 0, group._port.call

        def counted(*given: Any) -> Any:
            nonlocal asked
            asked += 1
            if asked == call:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            return ask(*given)

        group._port.call = counted  # type: ignore[method-assign]
        try:
            group.advance(items_max=5)
        except KeyboardInterrupt:
            assert asked >= call
        else:
            assert asked < call
        group._port.call = ask  # type: ignore[method-assign]
        begin = time.monotonic()
        end = group.advance(items_max=5).end
        assert time.monotonic() - begin < LEASE / 3
        assert sum(note.count for note in group.batches(BEGINNING, end)) == 5
        assert jobs.stats().leased == 5


@pytest.mark.parametrize("ends", ["its cluster", "the program"])
def test_who_interrupts_an_advance_and_ends_waits_for_it(node: LocalNode, ends: str) -> None:
    name = f"ended-{ends[-3:]}"
    with snowmelt.connect(node.url) as cluster:
        cluster.priority(name, lease=LEASE).put_many([b"%d" % at for at in range(10)])
        cluster.priority(name).group("spark").advance(items_max=0)
    told = subprocess.run(
        [sys.executable, "-c", ENDING, node.url, name, ends],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (told.returncode, told.stdout, told.stderr) == (0, "interrupted\n", "")
    with snowmelt.connect(node.url) as cluster:
        jobs = cluster.priority(name)
        group = jobs.group("spark")
        end = group.advance(items_max=0).end  # adds nothing: it is what the other was given
        assert sum(note.count for note in group.batches(BEGINNING, end)) == 5
        assert jobs.stats().leased == 5


def test_a_group_goes_on_while_a_node_is_dead(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path, 0.5) as cluster, snowmelt.connect(cluster.url) as client:
        cluster.start()
        jobs = client.priority("jobs", replicas=3)
        jobs.put_many([b"one", b"two"])
        group = jobs.group("spark")
        first = group.advance(items_max=1).end
        cluster.nodes[2].kill()
        second = group.advance(first, items_max=1, timeout=20).end
        assert second.count == 2
        (note,) = group.batches(first, second, timeout=20)
        (piece,) = group.read(note, timeout=20)
        assert bytes(piece.blob) == b"two"


def lapsed(cluster: snowmelt.Cluster, jobs: snowmelt.PriorityQueue) -> None:
    """Somebody leased, wrote it down, and gave it back before it was kept."""
    items = jobs.get_many(2)
    receipt = receipt_of(items.delivered)
    notes = cluster.fifo(f"{jobs.name}.spark", producer="notes-of-spark")
    notes.put(msgspec.msgpack.encode(Note(receipt.token, receipt.shares, 0)), sequence=1)
    items.release()


async def note_that_lapsed(cluster: snowmelt.aio.Cluster, jobs: snowmelt.aio.PriorityQueue) -> None:
    """Somebody leased, wrote it down, and gave it back before it was kept."""
    items = await jobs.get_many(2)
    receipt = receipt_of(items.delivered)
    notes = cluster.fifo(f"{jobs.name}.spark", producer="notes-of-spark")
    await notes.put(msgspec.msgpack.encode(Note(receipt.token, receipt.shares, 0)), sequence=1)
    await items.release()
