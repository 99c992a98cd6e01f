"""Results are found by their keys: the latest of each, for as long as they are kept."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import BadOption
from snowmelt_doors import results as module
from snowmelt_doors.results import AsyncResultTable, ResultTable

pytest_plugins = ("door_nodes",)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[snowmelt.EmbeddedCluster]:
    with snowmelt.open(tmp_path / "queues") as cluster:
        yield cluster


def test_the_latest_is_found_while_many_store(node: LocalNode, name: str) -> None:
    stop = threading.Event()

    def noise() -> None:
        with snowmelt.connect(node.url) as other:
            table, number = ResultTable(other, name, 3600), 0
            while not stop.is_set():
                table.store(f"noise-{number}", b"")
                number += 1

    others = [threading.Thread(target=noise) for _ in range(2)]
    for one in others:
        one.start()
    try:
        with snowmelt.connect(node.url) as cluster:
            table = ResultTable(cluster, name, 3600)
            for number in range(30):
                key = f"key-{number % 7}"
                table.store(key, str(number).encode())
                assert table.find(key) == str(number).encode()
                assert table.find(f"none-{number}") is None
    finally:
        stop.set()
        for one in others:
            one.join()


def test_what_was_forgotten_or_is_old_is_not_found(
    cluster: snowmelt.EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000_000.0]
    monkeypatch.setattr(module.time, "time", lambda: now[0])
    table = ResultTable(cluster, "results", 100)
    table.store("long", b"1")
    table.store("short", b"2", ttl=10)
    table.store("gone", b"3")
    table.forget("gone")
    assert [table.find(one) for one in ("long", "short", "gone")] == [b"1", b"2", None]
    now[0] += 11
    assert [table.find(one) for one in ("long", "short")] == [b"1", None]
    now[0] += 88.9
    assert table.find("long") == b"1"
    now[0] += 0.2
    assert table.find("long") is None


def test_old_windows_are_deleted_and_nothing_else(
    cluster: snowmelt.EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000_000.0]
    monkeypatch.setattr(module.time, "time", lambda: now[0])
    other = cluster.priority("results.100.x")
    other.put(b"not a window", priority=1)
    table = ResultTable(cluster, "results", 100)
    for number in range(6):
        table.store("key", str(number).encode())
        assert table.find("key") == str(number).encode()
        now[0] += 100
    kept = [one for one in cluster.queues() if one != "results.100.x"]
    assert kept == ["results.100.10003", "results.100.10004", "results.100.10005"]
    assert "results.100.x" in cluster.queues()


def test_the_later_window_counts(
    cluster: snowmelt.EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer whose clock is a little ahead stores into the next window."""
    now = [1_000_095.0]
    monkeypatch.setattr(module.time, "time", lambda: now[0])
    table = ResultTable(cluster, "results", 100)
    table.store("key", b"runs")
    now[0] += 6
    table.store("key", b"done")
    now[0] -= 6
    assert table.find("key") == b"done"


def test_two_keys_of_one_hash_are_never_mistaken(
    cluster: snowmelt.EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "place_of", lambda _: 7)
    table = ResultTable(cluster, "results")
    table.store("a", b"1")
    table.store("b", b"2")
    assert (table.find("a"), table.find("b"), table.find("c")) == (None, b"2", None)


def test_large_results_come_back(cluster: snowmelt.EmbeddedCluster) -> None:
    table, large = ResultTable(cluster, "results"), bytes(range(256)) * 12_000
    table.store("large", large)
    assert table.find("large") == large


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"name": ""}, "name is ''"),
        ({"name": "x" * 71}, "name is"),
        ({"name": "r", "retention": 9}, "retention is 9"),
        ({"name": "r", "retention": 60.5}, "retention is 60.5"),
    ],
)
def test_bad_options_are_named(
    cluster: snowmelt.EmbeddedCluster, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(BadOption, match=named):
        ResultTable(cluster, **options)


def test_a_longer_time_than_the_tables_is_refused(cluster: snowmelt.EmbeddedCluster) -> None:
    with pytest.raises(BadOption, match=r"ttl is 86401; allowed: up to 86400 seconds"):
        ResultTable(cluster, "results").store("key", b"", ttl=86_401)


def test_with_await_it_is_the_same(tmp_path: Path) -> None:
    async def work() -> list[bytes | None]:
        async with snowmelt.aio.open(tmp_path / "queues") as cluster:
            table = AsyncResultTable(cluster, "results")
            await table.store("a", b"1")
            await table.store("a", b"2")
            await table.store("b", b"3")
            await table.forget("b")
            return [await table.find(one) for one in ("a", "b", "c")]

    assert asyncio.run(work()) == [b"2", None, None]
