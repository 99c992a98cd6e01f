"""An open folder, and errors, among callers who ask for what no node would take."""

import asyncio
import multiprocessing
import pickle
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

import snowmelt
import snowmelt.aio
from snowmelt.client.connection.session import read_by_node
from snowmelt.core import errors
from snowmelt.core.errors import StoreBusy, StoreError
from snowmelt.protocols.queue.api.calls import Put
from snowmelt.store import Store


def test_a_call_that_no_node_would_read_is_refused_and_ends_nothing(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        orders = cluster.fifo("orders", producer="loader", sequence=1)
        receipts = orders.stage([b"one"])
        for digest in ([], "7", object(), 1.5, -1, 2**64, None):
            with pytest.raises(snowmelt.BadOption, match=r"digest is .*; allowed: a whole number"):
                orders.publish(receipts, digest=digest)
        for wrong in ([None], [object()], ["caf\udce9"], [receipts]):
            with pytest.raises((snowmelt.CallerError, TypeError)):
                orders.publish(wrong)
        orders.publish(receipts)
        item = orders.get()
        for reason in (7, ValueError("no text"), b"bytes"):
            with pytest.raises(snowmelt.BadOption, match=r"reason is .*; allowed: text"):
                item.nack(reason=reason)
        item.nack(reason="caf\udce9", dead=1)
        (dead,) = orders.peek(dead=True)
        assert (dead.body, dead.reason) == (b"one", "caf\\udce9")


@pytest.mark.parametrize("size", [1, 100_000])
def test_what_is_beside_a_body_is_read_as_a_node_would_and_a_large_body_is_not_copied(
    size: int,
) -> None:
    put = Put("orders", "loader", 1, b"", bytes(size))
    read = read_by_node(put)
    assert read == put
    assert (read.blob is put.blob) == (size > 65_536)
    for wrong in ({"producer": "caf\udce9"}, {"sequence": 2**64}, {"blob": [put.blob]}):
        with pytest.raises(snowmelt.CallerError, match="Put can't be asked so"):
            read_by_node(msgspec.structs.replace(put, **wrong))


@pytest.mark.parametrize(
    "error",
    [errors.BadOption("threads", 0, "1 to 99"), errors.CodecError("no JSON"), errors.Empty("no")],
    ids=lambda error: type(error).__name__,
)
def test_an_error_travels_between_processes(error: Any) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def _refused(_: int) -> None:
    snowmelt.Retry(first=-1)


def test_a_pool_of_processes_is_told_what_was_refused_in_one_of_them() -> None:
    with (
        multiprocessing.get_context("spawn").Pool(1) as pool,
        pytest.raises(snowmelt.BadOption, match="first is -1"),
    ):
        pool.map_async(_refused, [1]).get(30)


def test_a_value_that_cannot_be_shown_is_named_by_its_type() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]

    class Shy:
        def __repr__(self) -> str:
            raise ValueError("not me")

    assert errors.in_short(deep) == "<list, of which repr raised RecursionError>"
    assert errors.in_short(Shy()) == "<Shy, of which repr raised ValueError>"


def test_only_what_came_together_is_acknowledged_with_a_get(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        orders = cluster.fifo("orders")
        orders.put_many([b"one", b"two"])
        wrong: Any = orders.get()
        with pytest.raises(snowmelt.BadOption, match="allowed: the Items of an earlier get_many"):
            orders.get_many(ack=wrong)


async def test_whoever_waits_for_a_folder_may_be_cancelled_and_keeps_nothing_up(
    tmp_path: Path,
) -> None:
    held = snowmelt.open(tmp_path)
    begin = time.monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2), snowmelt.aio.open(tmp_path, timeout=60):
            pass
    cluster = snowmelt.aio.open(tmp_path, timeout=60)
    asked = asyncio.create_task(cluster.queues())
    await asyncio.sleep(0.2)
    await cluster.close()
    with pytest.raises(snowmelt.Closed):
        await asked
    assert time.monotonic() - begin < 10
    held.close()
    async with snowmelt.aio.open(tmp_path) as again:
        assert await again.queues() == []


async def test_a_folder_that_cannot_be_closed_says_so_and_leaves_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = snowmelt.aio.open(tmp_path)
    await cluster.queues()
    close = Store.close

    def fails(store: Store) -> None:
        close(store)
        raise StoreError("input/output error")

    monkeypatch.setattr(Store, "close", fails)
    with pytest.raises(StoreError, match="input/output error"):
        await cluster.close()
    await cluster.close()


def test_no_folder_is_not_the_folder_one_is_in() -> None:
    for opens in (snowmelt.open, snowmelt.aio.open):
        with pytest.raises(snowmelt.BadOption, match="folder is ''; allowed: the path of a folder"):
            opens("")


def test_a_url_is_no_folder() -> None:
    for opens in (snowmelt.open, snowmelt.aio.open):
        with pytest.raises(snowmelt.BadOption, match=r"a folder; connect\(url\) is for a cluster"):
            opens("snowmelt://127.0.0.1:4410")


def test_a_folder_that_this_program_has_open_is_said_to_be_its_own(tmp_path: Path) -> None:
    with (
        snowmelt.open(tmp_path),
        pytest.raises(StoreBusy, match="which is this one: close what has it open"),
    ):
        snowmelt.open(tmp_path, timeout=0)
