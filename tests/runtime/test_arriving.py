"""Large frames of all clients together: a place for each, in line, and not for ever."""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import pytest

from runtime.network import Serving, Stranger, serving, until
from snowmelt.protocols.calling import Answer, Call
from snowmelt.protocols.echo import Echo, Echoed, Recall, Recalled, Remember, Remembered
from snowmelt.runtime.arriving import Arriving
from snowmelt.runtime.ledger import Cost, CostLedger, Payer
from snowmelt.runtime.limits import Limits
from snowmelt.wire.codec import encode
from snowmelt.wire.framing import Kind, framed
from snowmelt.wire.greeting import Role

MEGABYTE = 1 << 20
ONE_READ = 256 << 10
"""What comes before a connection can be held up."""


PAYERS = [Payer(owner, f"{owner}{at}") for owner in "abc" for at in range(3)]


@pytest.mark.parametrize("seed", range(20))
def test_places_are_bounded_and_all_have_theirs(seed: int) -> None:
    chance = Random(seed)
    ledger = CostLedger({Cost.ARRIVING: 100})
    arriving = Arriving[int](ledger)
    line: set[int] = set()
    held: set[int] = set()

    def have_places(some: list[int]) -> None:
        for one in some:
            line.remove(one)
            held.add(one)

    for who in range(500):
        line.add(who)
        size = chance.choice((1, 5, 30, 60, 100, 150))
        if arriving.ask(who, chance.choice(PAYERS), size):
            have_places([who])
        arriving.check()
        ledger.check()
        while held and (chance.random() < 0.4 or len(line) > 20):
            gone = chance.choice(sorted(held) if chance.random() < 0.8 else sorted(held | line))
            held.discard(gone)
            line.discard(gone)
            have_places(arriving.leave(gone))
            arriving.check()
    while held or line:
        gone = min(held)
        held.discard(gone)
        have_places(arriving.leave(gone))
    assert (ledger.used(Cost.ARRIVING), arriving.waiting) == (0, 0)


@pytest.mark.parametrize("others", [PAYERS[1:2], PAYERS[3:4], PAYERS[1:3], PAYERS[1:]])
@pytest.mark.parametrize("size", [30, 60, 90, 200])
def test_nobody_waits_for_ever_behind_those_who_never_stop(others: list[Payer], size: int) -> None:
    chance, first = Random(size), PAYERS[0]
    arriving = Arriving[int](CostLedger({Cost.ARRIVING: 256}))
    held = list[int]()
    waits = False
    for who in range(20_000):
        payer = chance.choice(others)
        if arriving.ask(who, payer, chance.choice((1, 2, 20))):
            held.append(who)
        if who == 1_000:
            waits = not arriving.ask(-1, first, size)
        if len(held) > 5 or arriving.waiting > 50:
            gone = held.pop(chance.randrange(len(held)))
            held += arriving.leave(gone)
        if -1 in held or (who >= 1_000 and not waits):
            return
    raise AssertionError("it waits still")


def large(number: int, size: int) -> bytes:
    """A call of this size, as it goes."""
    return framed(Kind.MESSAGE, encode(Call(number, Echo(bytes(size)))))


async def strangers(stack: AsyncExitStack, node: Serving, count: int) -> list[Stranger]:
    """So many clients."""
    found = [
        await stack.enter_async_context(await Stranger.dial(node.address)) for _ in range(count)
    ]
    for at, one in enumerate(found):
        await one.greet(f"c-{at}")
    return found


def held(node: Serving) -> int:
    """Bytes of large frames that have their place."""
    return node.server.statistics().costs["arriving_bytes"].used


def came(node: Serving) -> list[int]:
    """What has come from each client, the most first."""
    return sorted((one.bytes_in for one in node.server.statistics().connections), reverse=True)


async def test_what_many_begin_and_do_not_end_is_bounded_and_ends_in_time(tmp_path: Path) -> None:
    limits = Limits(arriving_bytes=4 * MEGABYTE, slow_sender_seconds=0.25)
    async with serving(tmp_path, limits=limits) as node, AsyncExitStack() as stack:
        *stalled, other = await strangers(stack, node, 9)
        for one in stalled:
            one.send(large(1, 2 * MEGABYTE)[:-1000])
        await until(lambda: node.server.statistics().arriving_waits)
        for _ in range(10):
            told = node.server.statistics()
            assert held(node) <= limits.arriving_bytes
            assert told.arriving_waits <= 8 - len(node.closed)
            assert sum(came(node)[2:]) <= 7 * ONE_READ
            await other.is_served()
        for one in stalled:
            await one.gone()
        assert node.closed == {"slow sender": 8}
        told = node.server.statistics()
        assert (held(node), told.arriving_waits) == (0, 0)
        await other.is_served(bytes(3 * MEGABYTE))


@pytest.mark.parametrize("places", [1, 3 * MEGABYTE])
async def test_large_frames_of_many_all_come_in_turns(tmp_path: Path, places: int) -> None:
    limits = Limits(arriving_bytes=places)
    async with serving(tmp_path, limits=limits) as node, AsyncExitStack() as stack:
        clients = await strangers(stack, node, 8)

        async def asks(client: Stranger) -> None:
            for at in range(3):
                client.send(large(at, MEGABYTE))
            for at in range(3):
                assert await client.answer() == Answer(at, Echoed(bytes(MEGABYTE)))

        await asyncio.gather(*map(asks, clients))
        assert node.closed == {}
        assert held(node) == 0


async def test_who_sends_one_after_the_other_lets_others_come_between(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, limits=Limits(arriving_bytes=1)) as node,
        await Stranger.dial(node.address) as much,
        await Stranger.dial(node.address) as once,
    ):
        await much.greet("c-much")
        await once.greet("c-once")
        body = bytes(400 << 10)
        much.send(b"".join(large(at, len(body)) for at in range(200)))
        answered = [await much.answer() for _ in range(10)]
        once.send(large(1, len(body)))
        await once.answer()
        heard = node.connection("c-much").frames_in
        assert heard < 150, "whoever comes between waits for one frame, not for all"
        answered += [await much.answer() for _ in range(190)]
        assert [one.number for one in answered] == list(range(200))


async def test_who_goes_while_it_waits_leaves_the_line(tmp_path: Path) -> None:
    limits = Limits(arriving_bytes=MEGABYTE)
    async with serving(tmp_path, limits=limits) as node, AsyncExitStack() as stack:
        first, second, third = await strangers(stack, node, 3)
        whole = large(1, MEGABYTE)
        first.send(whole[:-1000])
        await until(lambda: held(node))
        second.send(whole[:-1000])
        await until(lambda: node.server.statistics().arriving_waits == 1)
        third.send(whole)
        await until(lambda: node.server.statistics().arriving_waits == 2)
        second._writer.transport.abort()
        first.send(whole[-1000:])
        for one in (first, third):
            assert await one.answer() == Answer(1, Echoed(bytes(MEGABYTE)))
        await until(lambda: not held(node))


async def test_who_is_not_read_from_is_not_called_slow(tmp_path: Path) -> None:
    limits = Limits(unsent_bytes=MEGABYTE, slow_sender_seconds=0.8)
    body = bytes(6 * MEGABYTE)
    async with (
        serving(tmp_path, limits=limits) as node,
        await Stranger.dial(node.address) as stranger,
    ):
        await stranger.greet("c-slow")
        stranger.say(Call(1, Remember("large", body)))
        assert await stranger.answer() == Answer(1, Remembered("large"))
        stranger._writer.transport.pause_reading()
        recalls = [Call(at, Recall("large")) for at in range(2, 5)]
        stranger.say(Call(1, Remember("flush", bytes(100_000))), *recalls)  # which wait for it
        whole = large(5, 2 * MEGABYTE)
        stranger.send(whole[:MEGABYTE])
        await until(lambda: node.connection("c-slow").unsent_bytes > MEGABYTE)
        assert held(node)
        await asyncio.sleep(1.8)  # it reads nothing, and nothing is read from it
        assert node.closed == {}
        stranger._writer.transport.resume_reading()
        assert await stranger.answer() == Answer(1, Remembered("flush"))
        for at in range(2, 5):
            assert await stranger.answer() == Answer(at, Recalled("large", body))
        stranger.send(whole[MEGABYTE:])
        assert await stranger.answer() == Answer(5, Echoed(bytes(2 * MEGABYTE)))


async def test_who_was_not_heard_because_the_node_stood_still_is_not_called_slow(
    tmp_path: Path,
) -> None:
    limits = Limits(slow_sender_seconds=0.5)
    async with (
        serving(tmp_path, limits=limits) as node,
        await Stranger.dial(node.address) as stranger,
    ):
        await stranger.greet()
        whole = large(1, MEGABYTE)
        stranger.send(whole[:-1000])
        await until(lambda: held(node))
        await until(lambda: came(node)[0] >= MEGABYTE - 1000)
        await asyncio.sleep(0.55)  # it has been looked at once, and had sent much
        time.sleep(1.2)  # all that is in this process
        await asyncio.sleep(0.01)
        stranger.send(whole[-1000:])
        assert await stranger.answer() == Answer(1, Echoed(bytes(MEGABYTE)))
        assert node.closed == {}


async def test_nodes_stand_in_no_line(tmp_path: Path) -> None:
    limits = Limits(arriving_bytes=MEGABYTE, slow_sender_seconds=60.0)
    async with (
        serving(tmp_path, limits=limits) as node,
        await Stranger.dial(node.address) as client,
        await Stranger.dial(node.address) as other,
    ):
        await client.greet("c-1")
        client.send(large(1, MEGABYTE)[:-1000])
        await until(lambda: held(node))
        await other.greet("n2", Role.NODE)
        other.send(large(1, 2 * MEGABYTE)[: 2 * MEGABYTE])
        await until(lambda: came(node)[0] >= 2 * MEGABYTE)
        assert node.server.statistics().arriving_waits == 0
