"""The map that all doors share: changes upon versions, snapshots, and doors that are behind."""

import asyncio
from pathlib import Path

import pytest

from snowmelt import aio
from snowmelt_doors.sqs import registry as registry_file
from snowmelt_doors.sqs.registry import REGISTRY, Registry


def test_of_two_changes_upon_one_version_one_counts(tmp_path: Path) -> None:
    async def both() -> None:
        async with aio.open(tmp_path) as cluster:
            first, second = Registry(cluster), Registry(cluster)
            told = await asyncio.gather(
                first.change("a", 0, b"first"), second.change("a", 0, b"second")
            )
            assert sorted(told) == [False, True]
            await first.look(fresh=True)
            assert first.rows == second.rows
            version, value = first.rows["a"]
            assert value == (b"first" if told[0] else b"second")
            assert await second.change("a", version, None)
            assert not await first.change("a", version, b"late")
            assert first.rows == {}

    asyncio.run(both())


def test_doors_that_write_at_once_end_with_one_map(tmp_path: Path) -> None:
    async def write(one: Registry, name: str, times: int) -> int:
        done = 0
        while done < times:
            await one.look(fresh=True)
            found = one.find("count")
            version, value = found or (0, b"0")
            done += await one.change("count", version, str(int(value) + 1).encode())
            await one.change(name, (one.find(name) or (0, b""))[0], str(done).encode())
        return done

    async def all_of_them() -> None:
        async with aio.open(tmp_path) as cluster:
            doors = [Registry(cluster) for _ in range(3)]
            await asyncio.gather(*[write(one, str(at), 20) for at, one in enumerate(doors)])
            for one in (*doors, Registry(cluster)):
                await one.look(fresh=True)
                told = {key: value for key, (_, value) in one.rows.items()}
                assert told == {"count": b"60", "0": b"20", "1": b"20", "2": b"20"}

    asyncio.run(all_of_them())


def test_a_snapshot_stands_for_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_file, "CHANGES_MAX", 30)

    async def many() -> None:
        async with aio.open(tmp_path) as cluster:
            late, doors = Registry(cluster), [Registry(cluster) for _ in range(2)]
            await late.change("first", 0, b"1")
            for at in range(150):
                one = doors[at % 2]
                await one.look(fresh=True)
                key = f"key-{at % 7}"
                found = one.find(key)
                assert await one.change(key, found[0] if found else 0, str(at).encode())
            kept = (await cluster.fifo(REGISTRY).stats()).ready
            assert kept < 100, "what snapshots stand for is gone"
            for one in (late, *doors, Registry(cluster)):
                await one.look(fresh=True)
                told = {key: value for key, (_, value) in one.rows.items()}
                last = {f"key-{at % 7}": str(at).encode() for at in range(150)}
                assert told == {"first": b"1"} | last

    asyncio.run(many())


def test_a_door_waits_for_what_another_has_in_hand(tmp_path: Path) -> None:
    async def held() -> None:
        async with aio.open(tmp_path) as cluster:
            writer, reader = Registry(cluster), Registry(cluster)
            await writer.change("a", 0, b"1")
            item = await cluster.fifo(REGISTRY).get()
            await cluster.fifo(REGISTRY).put(item.body)
            await reader.look(fresh=True)
            assert reader.rows == {}, "position 1 must not be taken before 0"
            await item.release()
            await reader.look(fresh=True)
            assert reader.rows["a"] == (1, b"1")

    asyncio.run(held())
