"""Idle connections: thousands of them cost a bounded memory each, and others are served."""

import asyncio
import resource
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from runtime.network import Stranger
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.client.cluster import Cluster
from snowmelt.core.names import Address

BYTES_EACH = 20_000


def resident(node: LocalNode) -> int:
    """Bytes of memory that a node's process holds now."""
    fields = Path(f"/proc/{node.pid}/status").read_text().splitlines()
    return next(int(one.split()[1]) for one in fields if one.startswith("VmRSS:")) * 1024


async def idle(folder: Path, count: int) -> float:
    """Bytes that each of so many greeted and idle connections costs a node."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 200:
        pytest.skip(f"{count} connections need {count + 200} descriptors; the limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 200), hard))  # a child's too
    with LocalCluster(1, folder, 0.5) as cluster:
        await asyncio.to_thread(cluster.start)
        [node] = cluster.nodes
        address = Address("127.0.0.1", node.port)
        async with AsyncExitStack() as stack:

            async def enter(first: int, last: int) -> None:
                for at in range(first, last):
                    one = await stack.enter_async_context(await Stranger.dial(address))
                    await one.greet(f"c-{at}")

            await enter(0, 100)  # what the first ones cost is the program's, not theirs
            before = resident(node)
            await enter(100, count)
            each = (resident(node) - before) / (count - 100)
            async with await Stranger.dial(address) as other:
                await (await other.greet("c-other")).is_served()
            with Cluster(node.url) as client:
                told = await asyncio.to_thread(client.statistics)
                assert told.connections_total > count
                assert len(told.connections) == 1000
                assert told.closed.keys() <= {"ended"}
        assert await asyncio.to_thread(node.stop) == 0
    return each


async def test_a_thousand_idle_connections_cost_little_and_others_are_served(
    tmp_path: Path,
) -> None:
    each = await idle(tmp_path, 1000)
    print(f"{each:.0f} bytes for each of 1,000 idle connections")
    assert each < BYTES_EACH


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_ten_thousand_idle_connections_cost_little_and_others_are_served(
    tmp_path: Path,
) -> None:
    each = await idle(tmp_path, 10_000)
    print(f"{each:.0f} bytes for each of 10,000 idle connections")
    assert each < BYTES_EACH
