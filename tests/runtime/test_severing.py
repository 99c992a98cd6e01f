"""When a node is told to be severed, on real sockets."""

import asyncio

from snowmelt.core.names import Address, NodeId
from snowmelt.runtime.slow_client_cutoff import APART_SECONDS, DIALS, SlowClientCutoff

N2 = NodeId("n2")


class Ways:
    """One server, and what is told of it."""

    def __init__(self):
        self.server, self.address, self.told, self.connected = None, None, [], set()
        self.severing = SlowClientCutoff(self.addresses, lambda: self.connected, self.told.append)

    def addresses(self):
        return {N2: self.address}

    async def listen(self):
        self.server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        self.address = Address(*self.server.sockets[0].getsockname()[:2])

    async def close(self):
        self.server.close()
        await self.server.wait_closed()


async def told(ways, seconds):
    end = asyncio.get_running_loop().time() + seconds
    while not ways.told and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(0.005)
    return ways.told


async def test_who_listens_no_more_is_severed_soon():
    ways = Ways()
    await ways.listen()
    await ways.close()
    ways.severing.lost(N2)
    assert await told(ways, 5) == [N2]


async def test_a_process_that_dies_slowly_is_dialled_until_it_listens_no_more():
    ways = Ways()
    await ways.listen()
    ways.severing.lost(N2)
    await asyncio.sleep(2 * APART_SECONDS)
    assert not ways.told
    await ways.close()
    assert await told(ways, 5) == [N2]


async def test_who_still_listens_is_not():
    ways = Ways()
    await ways.listen()
    ways.severing.lost(N2)
    assert await told(ways, 2 * DIALS * APART_SECONDS) == []
    await ways.close()


async def test_nor_is_who_has_another_connection_nor_a_stranger():
    ways = Ways()
    await ways.listen()
    await ways.close()
    ways.connected.add(N2)
    ways.severing.lost(N2)
    ways.severing.lost(NodeId("c-1"))
    assert await told(ways, 2 * DIALS * APART_SECONDS) == []


async def test_nothing_is_told_by_who_has_stopped():
    ways = Ways()
    await ways.listen()
    await ways.close()
    ways.severing.lost(N2)
    ways.severing.stop()
    assert await told(ways, 2 * DIALS * APART_SECONDS) == []


async def test_whoever_stops_dials_nobody_though_its_connections_end():
    ways = Ways()
    await ways.listen()
    before = len(asyncio.all_tasks())
    ways.severing.stop()
    ways.severing.lost(N2)
    assert len(asyncio.all_tasks()) == before
    await ways.close()
