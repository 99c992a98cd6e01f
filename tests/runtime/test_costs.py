"""What one may cost others: each attack on a real node, with an honest client beside it."""

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from time import monotonic

import pytest

from runtime.network import Serving, Stranger, serving, until
from snowmelt.protocols.calling import Answer, Call
from snowmelt.protocols.echo import Echo, Echoed
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.limits import Limits
from snowmelt.wire.codec import encode
from snowmelt.wire.framing import Kind, framed
from snowmelt.wire.greeting import Hello, Proof, Role, said

MEGABYTE = 1 << 20
TOKEN = "the token of all"


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
        assert monotonic() - began < 0.7
        await asyncio.sleep(0.5)
        assert node.closed["AccessDenied"] < 10, "guesses that came later are answered later"
        lines = [one.getMessage() for one in caplog.records if "refused" in one.getMessage()]
        assert lines == [
            "refused: node n1, host 127.0.0.1, reason the token is missing or wrong, times 1"
        ]


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
