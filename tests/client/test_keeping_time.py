"""A time-out is kept, whoever is silent; and what waits for ever lives through what ends."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from client.fakes import fake, greeted
from client.test_fifo_failures import WHOLE, queue_elsewhere
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.core.errors import Empty, Full, OutcomeUnknown
from timing import in_time, in_vain

CALLS: list[Callable[[Any], Any]] = [
    lambda queue: queue.put(b"one", timeout=0.5),
    lambda queue: queue.put_many([b"one"], timeout=0.5),
    lambda queue: queue.get(timeout=0.5),
    lambda queue: queue.get_many(timeout=0.5),
    lambda queue: queue.peek(timeout=0.5),
    lambda queue: queue.stats(timeout=0.5),
    lambda queue: queue.purge(timeout=0.5),
    lambda queue: queue.pause(timeout=0.5),
    lambda queue: queue.groups(timeout=0.5),
]


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """The URL of what greets like a node, and then says nothing."""
    with fake(greeted) as address:
        yield f"snowmelt://{address}"


@pytest.mark.parametrize("call", CALLS)
def test_a_time_out_is_kept_though_a_node_is_silent(
    silent: str, call: Callable[[Any], Any]
) -> None:
    with snowmelt.connect(silent) as cluster:
        queue = cluster.fifo("orders")

        def asked() -> None:
            with pytest.raises(OutcomeUnknown):
                call(queue)

        in_time(3, asked, least=0.45)


def test_async_calls_keep_their_time_too(silent: str) -> None:
    async def main() -> None:
        async with snowmelt.aio.connect(silent) as cluster:
            queue = cluster.fifo("orders")
            begin = time.monotonic()
            calls = [asyncio.ensure_future(call(queue)) for call in CALLS]
            told = await asyncio.gather(*calls, return_exceptions=True)
            assert 0.45 < time.monotonic() - begin < 4, "all of them wait at once"
            assert {type(one) for one in told} <= {OutcomeUnknown, snowmelt.Unreachable}

    asyncio.run(asyncio.wait_for(main(), 20))


@pytest.mark.parametrize("talk", [greeted, lambda _: None], ids=["greets", "greets not"])
def test_a_loop_that_is_held_up_when_the_time_ends_takes_no_silence_for_an_empty_queue(
    talk: Callable[[socket.socket], None],
) -> None:
    async def main(address: str) -> None:
        async with snowmelt.aio.connect(f"snowmelt://{address}") as cluster:
            queue = cluster.fifo("orders")
            asyncio.get_running_loop().call_later(0.54, time.sleep, 0.1)
            with pytest.raises((OutcomeUnknown, snowmelt.Unreachable)):
                await queue.get(timeout=0.5)

    with fake(talk) as address:
        asyncio.run(asyncio.wait_for(main(address), 20))


def test_a_wait_in_vain_ends_by_the_nodes_word(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        queue = cluster.fifo("in-vain", max_items=1)
        queue.put(b"one")
        queue.get()

        def got() -> None:
            in_vain(Empty, lambda: queue.get(timeout=0.5))

        def put() -> None:
            in_vain(Full, lambda: queue.put(b"two", timeout=0.5))

        for call in (got, put):
            in_time(3, call, least=0.35)


def test_a_loop_for_ever_goes_on_when_all_that_its_url_names_are_dead(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path, 0.3) as cluster:
        cluster.start()
        with snowmelt.connect(cluster.url) as client:
            queue, master = queue_elsewhere(cluster, client)
            came: list[bytes] = []
            failures: list[BaseException] = []

            def work() -> None:
                with snowmelt.connect(master.url) as only:
                    for _ in range(8):  # each is granted a node to put at, by chance
                        only.fifo(queue).put(b"more")
                    try:
                        for item in only.fifo(queue, **WHOLE).consume():
                            came.append(item.body)
                            item.ack()
                            if item.body == b"last":
                                return
                    except BaseException as error:
                        failures.append(error)

            working = threading.Thread(target=work)
            working.start()
            orders = client.fifo(queue)
            orders.put(b"one", timeout=40)
            while len(came) < 10:
                assert working.is_alive()
                time.sleep(0.01)
            master.kill()
            orders.put(b"last", timeout=60)
            working.join(60)
            assert not working.is_alive()
            assert failures == []
            assert set(came) == {b"first", b"more", b"one", b"last"}
