"""What one may cost others: each attack on a real node, with an honest client beside it."""

import asyncio
import logging
import ssl
from contextlib import AsyncExitStack
from pathlib import Path
from time import monotonic

import msgspec
import pytest

import snowmelt.aio
from runtime.network import Serving, Stranger, serving, until
from runtime.test_joining import members
from runtime.test_tls import TOKEN as TLS_TOKEN
from runtime.test_tls import Papers, url
from snowmelt.core.instant import seconds
from snowmelt.protocols.calling import Answer, Call
from snowmelt.protocols.echo import Echo, Echoed
from snowmelt.protocols.queue.api import calls
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.limits import Limits
from snowmelt.wire.codec import encode
from snowmelt.wire.framing import Kind, framed
from snowmelt.wire.greeting import Hello, Proof, Role, said

MEGABYTE = 1 << 20
TOKEN = "the token of all"


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path)


async def dialled(stack: AsyncExitStack, node: Serving, host: str = "127.0.0.1") -> Stranger:
    return await stack.enter_async_context(await Stranger.dial(node.address, host=host))


async def greeted(
    stack: AsyncExitStack, node: Serving, name: str, host: str = "127.0.0.1"
) -> Stranger:
    return await (await dialled(stack, node, host)).greet(name)


def used(node: Serving, kind: str) -> int:
    return node.server.statistics().costs[kind].used


# --- strangers ------------------------------------------------------------------------------------


async def test_who_does_not_greet_takes_no_place_of_others(tmp_path: Path) -> None:
    async with serving(tmp_path, limits=Limits(connections=20)) as node, AsyncExitStack() as stack:
        for at in range(60):
            await dialled(stack, node)
            if at % 6 == 5:
                await (await greeted(stack, node, f"c-{at}")).is_served()
        assert (used(node, "strangers"), used(node, "connections")) == (60, 10)


async def test_the_oldest_goes_of_those_who_do_not_greet(tmp_path: Path) -> None:
    async with serving(tmp_path, limits=Limits(strangers=5)) as node, AsyncExitStack() as stack:
        for at in range(30):
            await dialled(stack, node)
            if at % 6 == 5:
                await (await greeted(stack, node, f"c-{at}")).is_served()
        assert used(node, "strangers") <= 5
        assert node.closed["HandshakeError"] >= 25


async def test_those_of_another_host_are_not_the_ones_that_go(tmp_path: Path) -> None:
    async with serving(tmp_path, limits=Limits(strangers=10)) as node, AsyncExitStack() as stack:
        honest = await dialled(stack, node, "127.0.0.9")
        for _ in range(30):
            await dialled(stack, node)
        await (await honest.greet("c-honest")).is_served()


async def test_who_guesses_waits_and_others_of_its_host_do_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "snowmelt")
    wrong = said(Kind.HELLO, Hello("snowmelt", "c-wrong", Role.CLIENT, bytes(16)))
    wrong += said(Kind.PROVE, Proof(bytes(32)))
    async with (
        serving(tmp_path, credentials=Credentials(token=TOKEN)) as node,
        AsyncExitStack() as stack,
    ):
        guesses = [await dialled(stack, node) for _ in range(100)]
        for one in guesses:
            one.send(wrong)
        began = monotonic()
        await until(lambda: node.closed.get("AccessDenied", 0) >= 5)
        honest = await (await dialled(stack, node)).greet("c-honest", token=TOKEN)
        await honest.is_served()
        assert monotonic() - began < 5, "a hundred answers would take longer"
        await asyncio.sleep(0.5)
        assert node.closed["AccessDenied"] < 10, "guesses that came later are answered later"
        lines = [one.getMessage() for one in caplog.records if "refused" in one.getMessage()]
        assert lines == [
            "refused: node n1, host 127.0.0.1, reason the token is missing or wrong, times 1"
        ]


# --- TLS ------------------------------------------------------------------------------------------


async def test_who_says_nothing_before_tls_takes_no_place_of_others(
    tmp_path: Path, papers: Papers
) -> None:
    limits = Limits(strangers=10)
    async with (
        serving(tmp_path, credentials=papers.of("n1"), limits=limits) as node,
        AsyncExitStack() as stack,
    ):
        for _ in range(40):
            await dialled(stack, node)
        assert used(node, "strangers") <= 10
        async with snowmelt.aio.connect(url(node.address, papers), token=TLS_TOKEN) as cluster:
            assert await cluster.ping(b"there?") == b"there?"
        for _ in range(40):
            stranger = await dialled(stack, node)
            stranger.send(b"\x16\x03\x01\x02\x00\x01")  # a handshake that does not go on
        await until(lambda: used(node, "strangers") <= 10)
        async with snowmelt.aio.connect(url(node.address, papers), token=TLS_TOKEN) as cluster:
            assert await cluster.ping(b"there?") == b"there?"
    assert used(node, "strangers") == 0


async def test_handshakes_are_so_many_in_a_second_and_hosts_have_their_turn(
    tmp_path: Path, papers: Papers
) -> None:
    context = ssl.create_default_context(cafile=papers.authority)
    context.check_hostname = False
    limits = Limits(handshakes=20)
    async with (
        serving(tmp_path, credentials=papers.of("n1"), limits=limits) as node,
        AsyncExitStack() as stack,
    ):
        began = monotonic()
        flood = [asyncio.create_task(Stranger.dial(node.address, context)) for _ in range(100)]
        await asyncio.sleep(0.5)
        there = sum(one.done() for one in flood)
        assert there <= 10 + 20 * (monotonic() - began)
        honest = await Stranger.dial(node.address, context, "127.0.0.9")
        await stack.enter_async_context(honest)
        assert not all(one.done() for one in flood), "it does not stand behind them all"
        for one in flood:
            await stack.enter_async_context(await one)
        assert monotonic() - began > 2
    assert used(node, "strangers") == 0


# --- connections ----------------------------------------------------------------------------------


async def test_one_program_can_t_have_all_connections(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, limits=Limits(connections=30)) as node,
        AsyncExitStack() as stack,
    ):
        for _ in range(30):
            await (await dialled(stack, node)).greet("c-greedy")
        await until(lambda: used(node, "connections") >= 20)
        assert used(node, "connections") <= 21
        for at in range(3):
            await (await greeted(stack, node, f"c-{at}")).is_served()
        for at in range(3):
            await (await greeted(stack, node, f"c-far-{at}", "127.0.0.9")).is_served()
        assert node.server.statistics().costs["connections"].refused >= 9


# --- large frames ---------------------------------------------------------------------------------


def large(number: int, size: int) -> bytes:
    return framed(Kind.MESSAGE, encode(Call(number, Echo(bytes(size)))))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9"])
@pytest.mark.parametrize("names", ["one name", "many names"])
async def test_those_who_send_slowly_do_not_hold_up_others(
    tmp_path: Path, host: str, names: str
) -> None:
    limits = Limits(arriving_bytes=64 * MEGABYTE, slow_sender_seconds=600.0)
    async with serving(tmp_path, limits=limits) as node, AsyncExitStack() as stack:
        for at in range(12):
            slow = await greeted(stack, node, f"c-{at if names == 'many names' else 'slow'}")
            slow.send(large(1, 8 * MEGABYTE)[: MEGABYTE + at])
        await until(lambda: node.server.statistics().arriving_waits)
        honest = await greeted(stack, node, "c-honest", host)
        for at in range(5):
            honest.send(large(at, MEGABYTE // 4))
            assert await honest.answer() == Answer(at, Echoed(bytes(MEGABYTE // 4)))


# --- answers, and calls without one ---------------------------------------------------------------


async def reads_slowly(stranger: Stranger) -> None:
    """Half a megabyte a second."""
    while await stranger._reader.read(50_000):
        await asyncio.sleep(0.1)


async def test_slow_readers_are_cut_off_where_they_leave_no_room(tmp_path: Path) -> None:
    size = 16 * MEGABYTE
    limits = Limits(answer_bytes=60 * MEGABYTE, slow_reader_seconds=30.0)
    async with serving(tmp_path, limits=limits) as node, AsyncExitStack() as stack:
        honest = await greeted(stack, node, "c-honest")
        slow = [await greeted(stack, node, f"c-{at}") for at in range(16)]
        reading = [asyncio.create_task(reads_slowly(one)) for one in slow]
        for one in slow:
            one.send(large(1, size))
            await one._writer.drain()
        # In a time that goes by what they hold, and not in the half a minute of any slow reader.
        await until(lambda: node.closed.get("slow reader", 0) >= 10)
        await until(lambda: used(node, "answer_bytes") < 60 * MEGABYTE)
        honest.send(large(2, size))
        assert await honest.answer() == Answer(2, Echoed(bytes(size)))
        for one in reading:
            one.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
    held = node.server.statistics().costs.items()
    assert sum(one.used for kind, one in held if kind != "memory_bytes") == 0


async def test_what_one_asks_and_is_not_answered_leaves_room_for_others(tmp_path: Path) -> None:
    limits = Limits(call_bytes=MEGABYTE)
    gets = calls.Get("q", 1, 100, seconds(30))
    async with serving(tmp_path, limits=limits) as node, AsyncExitStack() as stack:
        async with snowmelt.aio.connect(f"snowmelt://{node.address}") as cluster:
            await cluster.fifo("q").put(b"one")
            async with await cluster.fifo("q").get():
                pass
        greedy = [await greeted(stack, node, "c-greedy") for _ in range(8)]
        for line in greedy:
            line.say(*(Call(at, gets) for at in range(2, 1_500)))

        def in_flight() -> int:
            connections = node.server.statistics().connections
            return sum(one.in_flight_bytes for one in connections if one.peer.endswith("greedy"))

        await until(lambda: in_flight() > MEGABYTE // 2)
        await asyncio.sleep(0.3)
        assert in_flight() < 3 * MEGABYTE // 2
        honest = await greeted(stack, node, "c-honest")
        for at in range(300):
            honest.say(Call(at, Echo(b"there?")))
        for at in range(300):
            assert await honest.answer() == Answer(at, Echoed(b"there?"))


@pytest.mark.parametrize("nodes", [1, 2])
async def test_what_is_looked_at_is_put_together_when_its_reader_has_room(
    tmp_path: Path, nodes: int
) -> None:
    async with AsyncExitStack() as stack:
        node = other = await stack.enter_async_context(serving(tmp_path))
        if nodes == 2:
            other = await stack.enter_async_context(serving(tmp_path, "n2", join=(node.address,)))
            await until(lambda: members(node) == members(other) == ["n1", "n2"])
        cluster = await stack.enter_async_context(
            snowmelt.aio.connect(f"snowmelt://{node.address}")
        )
        queue = cluster.fifo("q", replicas=nodes)
        for _ in range(8):
            await queue.put(bytes(MEGABYTE))
        leader = node if (await queue.stats()).leader == "n1" else other
        looks = await greeted(stack, leader, "c-looks")
        await looks.is_served()
        (line,) = (one for one in leader.server._transport.connections() if "looks" in one.peer)
        looks._writer.transport.pause_reading()
        looks.say(*(Call(at, calls.Peek("q", 100, 8 * MEGABYTE, 0)) for at in range(40)))
        await until(lambda: line.unsent > MEGABYTE)
        await asyncio.sleep(1.0)
        assert len(line._machine.later) <= 8, "each of them has 8 MB"
        began = monotonic()
        await queue.put(b"still served")
        assert monotonic() - began < 10
        looks._writer.transport.resume_reading()
        for _ in range(40):
            answer = await looks.answer()
            assert sum(len(one.blob) for one in answer.body.parts) == 8 * MEGABYTE


async def test_who_asks_all_the_time_how_a_node_is_has_the_same_answer(tmp_path: Path) -> None:
    async with serving(tmp_path) as node, AsyncExitStack() as stack:
        asks = await greeted(stack, node, "c-asks")
        made, inform = [0], node.server._transport.inform[Kind.INQUIRE]

        def counted() -> bytes:
            made[0] += 1
            return inform()

        node.server._transport.inform[Kind.INQUIRE] = counted
        asks.send(framed(Kind.INQUIRE, b"") * 500)
        for _ in range(500):
            assert (await asks.frame())[0] is Kind.INFORM
        assert made[0] < 50


# --- names ----------------------------------------------------------------------------------------


async def test_who_has_most_queues_made_under_many_names_leaves_some_to_others(
    tmp_path: Path,
) -> None:
    async def makes(host: str, first: int, count: int) -> list[bool]:
        told = []
        for at in range(first, first + count):
            async with await Stranger.dial(node.address, host=host) as client:
                await client.greet(f"c-{at}")
                client.say(Call(1, calls.Open(f"q-{at}", make=True)))
                told.append(isinstance((await client.answer()).body, calls.Opened))
        return told

    async with serving(tmp_path) as node:
        assert node.server._queues is not None
        outbox = node.server._queues._outbox
        outbox.limits = msgspec.structs.replace(outbox.limits, queues=20)
        await until(lambda: outbox.presence is not None)
        assert sum(await makes("127.0.0.2", 0, 20)) == 16
        assert await makes("127.0.0.1", 20, 2) == [True, True]
