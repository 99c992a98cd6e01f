"""A member that says what no member would: no other ends by it.

What is mutated is what two nodes really said to each other, and what their messages' types allow;
it reaches a node where it is read and its sender is known.
"""

import asyncio
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import snowmelt.aio
from runtime.network import Serving, serving, until
from snowmelt.core.errors import MessageError
from snowmelt.core.names import NodeId
from snowmelt.protocols.baton import messages as baton_messages
from snowmelt.protocols.membership import messages as membership_messages
from snowmelt.protocols.multicast import messages as multicast_messages
from snowmelt.protocols.queue.messages import home_words as fifo_messages
from snowmelt.protocols.queue.messages import partition_words as parted_words
from snowmelt.wire.codec import MessageDecoder
from snowmelt_world.attack.malice import Malice

FAMILIES = {
    "membership": membership_messages.Message,
    "fifo": fifo_messages.Message,
    "parted": parted_words.Message,
    "baton": baton_messages.Message,
    "multicast": multicast_messages.Message,
}
HEARD_MAX = 2_000


class Tap:
    """What came to a node from another; and a way to say more in that one's name."""

    def __init__(self, node: Serving) -> None:
        transport = node.server._transport
        assert transport is not None
        self.node = node
        self.heard: list[Any] = []
        self._deliver = transport.deliver
        transport.deliver = self._came

    def _came(self, source: NodeId, message: Any) -> None:
        if not source.startswith("c-") and len(self.heard) < HEARD_MAX:
            self.heard.append(msgspec.to_builtins(message, builtin_types=(bytes,)))
        self._deliver(source, message)

    def say(self, source: str, plain: Any) -> bool:
        """Whether it reads as a message."""
        try:
            message = MessageDecoder.for_nodes().decode(msgspec.msgpack.encode(plain))
        except (MessageError, OverflowError):
            return False
        self._deliver(NodeId(source), message)
        return True


async def use(node: Serving, number: int) -> None:
    """Something of each kind."""
    async with snowmelt.aio.connect(f"snowmelt://{node.address}") as cluster:
        orders = cluster.fifo("q", replicas=2)
        await orders.put_many([b"%d" % at for at in range(20)])
        async with await orders.get(timeout=10):
            pass
        parted = cluster.fifo("log", partitions=4, replicas=2)
        await parted.put_many([b"%d" % at for at in range(20)])
        async with await parted.get(timeout=10):
            pass
        jobs = cluster.priority("p")
        await jobs.put(b"x", priority=number)
        async with await jobs.get(timeout=10):
            pass
        async with await cluster.baton("b").acquire(timeout=10):
            pass
        await cluster.multicast("m").publish(b"x")


async def whatever_a_member_says(folder: Path, family: str, seeds: range, count: int) -> None:
    """So many words by each seed, one after the other, to the same nodes."""
    async with serving(folder) as n1, serving(folder, "n2", join=(n1.address,)) as n2:
        taps = {"n1": Tap(n1), "n2": Tap(n2)}
        for number, node in enumerate((n1, n2)):
            await until(lambda node=node: node.server.view and len(node.server.view.members) == 2)
            await use(node, number)
        # Who decides on views may end a member, and a member itself: that is no crash.
        targets = ("n1",) if family == "membership" else ("n1", "n2")
        tags = {one.__struct_config__.tag for one in get_args(FAMILIES[family])}
        genuine = [one for tap in taps.values() for one in tap.heard if one[0] in tags]
        for seed in seeds:
            malice, read = Malice(seed, FAMILIES[family]), 0
            for tap in taps.values():
                malice.heard(tap.heard)
            for at in range(count):
                target = malice.chance.choice(targets)
                plain = malice.body()
                if genuine and malice.chance.random() < 0.7:
                    plain = malice.mutated(malice.chance.choice(genuine))
                read += taps[target].say("n2" if target == "n1" else "n1", plain)
                if at % 20 == 0:
                    await asyncio.sleep(0)
                for name in targets:
                    failure = taps[name].node.server.failure
                    assert failure is None, (failure, seed, plain)
            assert read > count // 4
        await asyncio.sleep(0.5)  # what they have begun comes to its end
        assert all(taps[name].node.server.failure is None for name in targets)


@pytest.mark.parametrize("family", FAMILIES)
async def test_whatever_a_member_says_no_other_ends(tmp_path: Path, family: str) -> None:
    await whatever_a_member_says(tmp_path, family, range(1, 9), 500)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 9))
@pytest.mark.parametrize("family", FAMILIES)
async def test_whatever_a_member_says_for_long(tmp_path: Path, family: str, seed: int) -> None:
    await whatever_a_member_says(tmp_path, family, range(seed, seed + 1), 10_000)
