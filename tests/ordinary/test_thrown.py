"""What is thrown into a thread from outside, as time limits do, ends its call and nothing else."""

import asyncio
import faulthandler
import gc
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalNode
from snowmelt.store import Store
from throwing import throw_into

OURS = str(Path(snowmelt.__file__).parent)


class TimeLimitError(Exception):
    """As dramatiq, rq, stopit and func_timeout throw it."""


def at_line(number: int, call: Callable[[], Any]) -> int:
    """Makes the call with a limit that ends at so many lines of ours; how many there were."""
    lines = 0

    def line(_: FrameType, event: str, __: Any) -> Any:
        nonlocal lines
        if event == "line":
            lines += 1
            if lines == number:
                throw_into(threading.get_ident(), TimeLimitError)
        return line

    def work() -> None:
        sys.settrace(lambda frame, *_: line if frame.f_code.co_filename.startswith(OURS) else None)
        try:
            call()
        except (TimeLimitError, snowmelt.SnowmeltError):
            return
        finally:
            sys.settrace(None)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), f"it stands still after line {number}"
    return lines


@pytest.mark.parametrize("what", ["put", "get", "loop"])
def test_a_time_limit_ends_one_call_of_a_pool_and_the_next_works(
    node: LocalNode, name: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is thrown in a finalizer is shown, and pytest would keep what it has seen.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    with snowmelt.connect(node.url) as cluster:
        maker, taker = cluster.pool(name, buffers=1000, lease=1), cluster.pool(name, lease=1)
        calls: dict[str, Callable[[], Any]] = {
            "put": lambda: maker.put(b"cut off", timeout=1),
            "get": lambda: taker.get(timeout=1).ack(),
            "loop": lambda: next(taker.consume(timeout=1)),
        }
        for _ in range(3):
            maker.put(b"first")
        count = at_line(0, calls[what])
        for number in range(1, count + 1, max(1, count // 12)):
            maker.put(b"another")
            at_line(number, calls[what])
            maker.put(b"after it")
            with taker.get(timeout=3):
                pass
        end = time.monotonic() + 10
        while (told := maker.stats()).stock + told.on_loan:
            assert time.monotonic() < end, f"{told.on_loan} are with nobody"
            gc.collect()  # what was cut off may lie in a circle with its exception
            for one in taker.consume(timeout=0):
                assert one.body


def test_who_is_cut_off_while_it_leaves_leaves_all_the_same(node: LocalNode, name: str) -> None:
    with snowmelt.connect(node.url) as cluster:
        maker, taker = cluster.pool(name), cluster.pool(name)
        maker.put(b"one")
        held = taker.get()
        cut_off = threading.Event()

        def leave() -> None:
            try:
                maker.close()  # it waits for who has its object
            except TimeLimitError:
                cut_off.set()

        thread = threading.Thread(target=leave)
        thread.start()
        time.sleep(0.3)
        throw_into(thread.ident or 0, TimeLimitError)
        assert cut_off.wait(5)
        held.ack()
        maker.close(timeout=5)  # nothing is lost
        with pytest.raises(snowmelt.Closed):
            maker.put(b"late")


def thrown_in_at(number: int, call: Callable[[], Any]) -> int:
    """Python looks for what is thrown in as a function begins, and as a built-in one ends."""
    places = 0

    def seen(frame: FrameType, event: str, _: Any) -> None:
        nonlocal places
        if event in ("call", "c_return") and "embedded" in frame.f_code.co_filename:
            places += 1
            if places == number:
                raise TimeLimitError

    def work() -> None:
        sys.setprofile(seen)
        with suppress(TimeLimitError, snowmelt.SnowmeltError):
            call()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), f"it stands still after place {number}"
    return places


def test_what_is_thrown_in_leaves_nobody_before_a_folder_that_stands_still(tmp_path: Path) -> None:
    def thrown(number: int) -> int:
        with snowmelt.open(tmp_path / str(number)) as cluster:
            orders = cluster.fifo("orders")
            orders.put(b"before")
            places = thrown_in_at(number, partial(orders.put, b"cut off"))
            ended: list[str] = []

            def others() -> None:
                try:
                    ended.append(f"put at {orders.put(b'after', timeout=1)}")
                except snowmelt.SnowmeltError as error:
                    ended.append(str(error))

            thread = threading.Thread(target=others, daemon=True)
            thread.start()
            thread.join(20)
            assert ended, f"what was thrown in at place {number} holds up all others"
        return places

    count = thrown(0)
    assert count > 10
    for number in range(1, count + 1):
        thrown(number)


async def test_calls_of_a_pool_give_way_to_the_loop(node: LocalNode, name: str) -> None:
    async with snowmelt.aio.connect(node.url) as cluster:
        pool = cluster.pool(name, buffers=100_000, lease=1)

        async def work() -> None:
            for _ in range(20_000):
                await pool.put(b"x")
                await (await pool.get()).ack()

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(work(), 0.3)
        assert [one.body async for one in pool.consume(timeout=2)] in ([], [b"x"])


async def test_the_loop_never_waits_for_the_disk_of_a_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    write = Store.commit

    def slow(store: Store, *given: Any) -> Any:
        assert goes_on.wait(60), "whoever lets the disk go on waits for it"
        return write(store, *given)

    async with snowmelt.aio.open(tmp_path) as cluster:
        pool = cluster.pool("kept", spill=True)
        monkeypatch.setattr(Store, "commit", slow)
        put = asyncio.create_task(pool.put(b"one"))
        await asyncio.wait([put], timeout=0.2)
        assert not put.done()
        goes_on.set()
        await put
        await (await pool.get()).ack()


def test_a_call_of_a_pool_leaves_handlers_of_signals_alone(
    node: LocalNode, name: str, tmp_path: Path
) -> None:
    with snowmelt.connect(node.url) as cluster, (tmp_path / "dump").open("w+") as dump:
        pool = cluster.pool(name)
        heard: list[int] = []
        before = signal.signal(signal.SIGUSR2, lambda number, _: heard.append(number))
        # Of this thread alone: Python reads frames of others while they run, and may crash by it.
        faulthandler.register(signal.SIGUSR2, file=dump, all_threads=False, chain=True)
        try:
            pool.put(b"one")
            with pool.get():
                pass
            signal.raise_signal(signal.SIGUSR2)
        finally:
            faulthandler.unregister(signal.SIGUSR2)
            signal.signal(signal.SIGUSR2, before)
        assert heard == [signal.SIGUSR2]
        assert "test_thrown" in (tmp_path / "dump").read_text()
