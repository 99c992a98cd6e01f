"""Whoever has the client's token, or a certificate that never joined, greets as a node and harms.

It knows what a client is told: the view, with births and starts, and the names of queues.
"""

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec

import snowmelt.aio
from runtime.network import ANYWHERE, Stranger, serving, until
from runtime.test_tls import TOKEN, Papers, url
from snowmelt.cli.local import LocalCluster
from snowmelt.core.interval import Interval
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.membership import Member, View
from snowmelt.protocols.membership.messages import Adopt, Heartbeat, Join
from snowmelt.protocols.queue.messages.words import Append, Fence, Head
from snowmelt.protocols.queue.streams import keeper_of
from snowmelt.wire.greeting import Role

ME = Member(NodeId("n9"), Address("127.0.0.1", 1), 7, 1)
ITEMS = [b"%d" % at for at in range(20)]


def words(view: View) -> list[Any]:
    """What ended a cluster for good, a queue for good, or erased what was put."""
    view_of_mine = msgspec.structs.replace(view, members=(ME,), epoch=view.epoch + 9)
    far = (2**63 - 1, 2**32, 2**22)
    keepers = [keeper_of(one) for one in view.members]
    everything = (Interval(0, 2**62),)
    return [
        *(Heartbeat(1, 1, 1, 1, view.cluster, epoch) for epoch in far),
        *(Join(1, 1, ME, view.cluster, epoch) for epoch in far),
        *(Adopt(msgspec.structs.replace(view_of_mine, epoch=epoch)) for epoch in far),
        Adopt(view_of_mine),
        *(Fence("q", term, keeper) for term in (2**62, 2**21, 9) for keeper in keepers),
        *(
            Append("q", term, Head(term, 2), Head(term, 1), (), (), everything)
            for term in (2**21, 9, 1)
        ),
    ]


async def say_all(addresses: Sequence[Address], view: View, tls: ssl.SSLContext | None) -> None:
    """Each on a connection of its own: a word that does not read ends it."""
    for address in addresses:
        for word in words(view):
            async with await Stranger.dial(address, tls) as stranger:
                await stranger.greet("n9", Role.NODE, token=TOKEN if tls else "")
                stranger.say(word)
                await asyncio.sleep(0.02)


async def put(cluster: snowmelt.aio.Cluster) -> None:
    await cluster.fifo("q", replicas=2).put_many(ITEMS)
    await cluster.priority("p").put_many(ITEMS, priority=0)


async def all_there(cluster: snowmelt.aio.Cluster) -> None:
    """What was put can be read, and more can be put."""
    for queue in (cluster.fifo("q"), cluster.priority("p")):
        assert [one.body for one in await queue.peek(20, timeout=20)] == ITEMS
    await cluster.fifo("q").put(b"more", timeout=20)
    await cluster.priority("p").put(b"more", priority=0, timeout=20)


async def test_the_client_s_token_makes_nobody_a_node(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path, 0.5) as local:
        view = await asyncio.to_thread(local.start)
        addresses = [Address("127.0.0.1", one.port) for one in local.nodes]
        async with snowmelt.aio.connect(local.url) as cluster:
            await put(cluster)
        await say_all(addresses, view, None)
        for _ in range(2):
            for node in local.nodes:
                node.check_alive()
            async with snowmelt.aio.connect(local.url) as cluster:
                await all_there(cluster)
                now = (await cluster.status()).view
            assert now is not None
            assert now.epoch < view.epoch + 20
            assert [one.id for one in now.members] == ["n1", "n2", "n3"]
            for node in local.nodes:
                await asyncio.to_thread(node.stop)
            await asyncio.to_thread(local.start)


async def test_a_certificate_that_never_joined_makes_nobody_a_node(tmp_path: Path) -> None:
    papers = Papers(tmp_path)
    shown = papers.of("n9")
    context = ssl.create_default_context(cafile=papers.authority)
    context.check_hostname = False
    context.load_cert_chain(shown.certificate, shown.key)
    ports: dict[str, Address] = {}
    for life in range(2):
        async with AsyncExitStack() as stack:
            nodes = []
            for name in ("n1", "n2", "n3"):
                join = (ports["n1"],) if name != "n1" else ()
                listen = ports.get(name, ANYWHERE)
                one = serving(
                    tmp_path, name, join=join, listen=listen, credentials=papers.of(f"{name}")
                )
                nodes.append(await stack.enter_async_context(one))
                ports[name] = nodes[-1].address
            for node in nodes:
                await until(
                    lambda node=node: node.server.view and len(node.server.view.members) == 3
                )
            async with snowmelt.aio.connect(url(nodes[0].address, papers), token=TOKEN) as cluster:
                if life == 0:
                    await put(cluster)
                    view = nodes[0].server.view
                    assert view is not None
                    await say_all([one.address for one in nodes], view, context)
                await all_there(cluster)
            assert all(node.server.failure is None for node in nodes)
            assert life or nodes[1].server.statistics().dropped["of no member"] > 2
