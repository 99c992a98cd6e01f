"""Before memory is full, puts are refused; what gives memory back is served."""

from pathlib import Path

import pytest

import snowmelt.aio
from runtime.network import Serving, serving, until
from snowmelt.core.errors import Unavailable
from snowmelt.runtime.limits import Limits
from snowmelt.runtime.memory import of_machine, resident


def connected(node: Serving) -> snowmelt.aio.Cluster:
    return snowmelt.aio.connect(f"snowmelt://{node.address}")


async def test_a_node_without_memory_refuses_puts_and_serves_gets(tmp_path: Path) -> None:
    async with serving(tmp_path) as node, connected(node) as cluster:
        jobs, topic = cluster.fifo("jobs"), cluster.multicast("news")
        await jobs.put_many([b"one", b"two"])
        memory = node.server._memory
        enough, memory._most = memory._most, 1
        await until(lambda: memory.why)
        with pytest.raises(Unavailable, match="it takes nothing more until it has less"):
            await jobs.put(b"three", timeout=2)
        with pytest.raises(Unavailable, match="it takes nothing more"):
            await topic.publish(b"word", timeout=2)
        async with await jobs.get(timeout=60) as item:
            assert item.body == b"one"
        assert node.server.statistics().costs["memory_bytes"].refused > 0
        memory._most = enough
        await until(lambda: not memory.why)
        await jobs.put(b"four")
        async with await jobs.get(timeout=60) as item:
            assert item.body == b"two"


async def test_a_node_may_have_a_part_of_its_machine_s_memory(tmp_path: Path) -> None:
    async with serving(tmp_path, limits=Limits(memory_share=0.5)) as node:
        told = node.server.statistics().costs["memory_bytes"]
        assert told.total == of_machine() // 2
        assert 0 < told.used < told.total


def test_the_least_bound_of_a_process_s_control_groups_counts(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("1:cpu:/old\n0::/pod/box\n")
    box = tmp_path / "groups/pod/box"
    box.mkdir(parents=True)
    there = of_machine(tmp_path / "groups", mine)
    assert there == of_machine(tmp_path / "none", tmp_path / "none") > resident() > 0
    (box / "memory.max").write_text("max\n")
    (box.parent / "memory.max").write_text("4096000\n")
    assert of_machine(tmp_path / "groups", mine) == 4_096_000
    (box / "memory.max").write_text("4096\n")
    assert of_machine(tmp_path / "groups", mine) == 4_096
