"""An open folder, and errors, among callers who ask for what no node would take."""

import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import pytest

import snowmelt
from snowmelt.core import errors


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
