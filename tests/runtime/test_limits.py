"""What a connection may cost: time to greet, places, bytes in flight, bytes unsent."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

from greetings import speaker, whole
from runtime.network import Serving, Stranger, serving, until
from snowmelt.core.names import Address, NodeId, contact
from snowmelt.protocols.calling import Answer, Call, Declined
from snowmelt.protocols.echo import Echo, Echoed, Recall, Recalled, Remember, Remembered
from snowmelt.protocols.queue.messages.words import NOTHING, Body, SnapshotChunk
from snowmelt.runtime import connection, hearing
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.limits import Limits
from snowmelt.runtime.statistics import NodeStatistics
from snowmelt.runtime.transport import Transport
from snowmelt.wire.codec import encode
from snowmelt.wire.framing import HEADER, MAGIC, VERSION, Kind, framed
from snowmelt.wire.greeting import Gate, Role

MEGABYTE = 1 << 20


def piece(number: int, body: bytes) -> SnapshotChunk:
    """What one node sends to another, with a body."""
    return SnapshotChunk(
        "q", 1, NOTHING, number, last=False, bodies=(Body(b"1", body),), records=()
    )


async def test_who_never_greets_is_sent_away_in_time(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, limits=Limits(greeting_seconds=0.3)) as node,
        await Stranger.dial(node.address) as silent,
        await Stranger.dial(node.address) as slow,
        await Stranger.dial(node.address) as other,
    ):
        slow.send(HEADER.pack(MAGIC, VERSION, 1, 0, 100)[:5])
        await other.greet()
        for one in (silent, slow):
            word = await one.goodbye()
            assert (word.error, word.text) == ("HandshakeError", "no greeting came in time")
        assert node.closed == {"HandshakeError": 2}
        await other.is_served()  # who has greeted may be idle


async def test_a_stream_that_ends_within_a_frame_is_counted_and_forgotten(tmp_path: Path) -> None:
    async with serving(tmp_path) as node, await Stranger.dial(node.address) as stranger:
        await stranger.greet()
        stranger.send(HEADER.pack(MAGIC, VERSION, 4, 0, MEGABYTE) + bytes(1000))
        stranger.end()
        await stranger.gone()
        assert node.closed == {"ended": 1}
        assert node.server.statistics().connections == ()


async def test_a_reset_connection_is_counted_and_forgotten(tmp_path: Path) -> None:
    async with serving(tmp_path) as node:
        async with await Stranger.dial(node.address) as stranger:
            await stranger.greet()
            own = stranger._writer.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await until(lambda: node.closed)
        assert sum(node.closed.values()) == 1
        assert node.server.statistics().connections == ()


async def test_a_client_that_vanished_from_the_network_is_looked_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as node, await Stranger.dial(node.address) as stranger:
        await stranger.greet()
        [connection] = node.server._transport.connections()
        own = connection._transport.get_extra_info("socket")
        assert own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


async def test_above_the_limit_of_connections_the_newest_is_sent_away(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, limits=Limits(connections=2)) as node,
        await Stranger.dial(node.address) as first,
        await Stranger.dial(node.address) as second,
    ):
        await first.greet("c-1")
        await second.greet("c-2")
        async with await Stranger.dial(node.address) as third:
            word = await third.goodbye()
            assert word.error == "Unavailable"
            assert "too many connections" in word.text
        assert node.closed == {"Unavailable": 1}
        await first.is_served()
        await second.is_served()
        await first.__aexit__()
        await until(lambda: len(node.server.statistics().connections) == 1)
        async with await Stranger.dial(node.address) as fourth:
            await (await fourth.greet("c-4")).is_served()


async def test_in_flight_bytes_stop_the_reading_and_every_call_is_answered(tmp_path: Path) -> None:
    count, body = 300, bytes(10_000)
    limits = Limits(in_flight_bytes=50_000)
    async with (
        serving(tmp_path, limits=limits) as node,
        await Stranger.dial(node.address) as stranger,
        await Stranger.dial(node.address) as other,
    ):
        await stranger.greet("c-many")
        await other.greet("c-other")
        stranger.say(*(Call(at, Remember(f"name {at}", body)) for at in range(count)))
        most, answered = 0, set()
        while len(answered) < count:
            answer = await stranger.answer()
            assert answer.body == Remembered(f"name {answer.number}")
            answered.add(answer.number)
            most = max(most, node.connection("c-many").in_flight_bytes)
            if len(answered) == 1:
                await other.is_served()
        # What stood in the one piece that crossed the limit was taken in too.
        assert most <= limits.in_flight_bytes + (256 << 10) + len(body)
        assert node.connection("c-many").in_flight_bytes == 0
        assert answered == set(range(count))


async def test_a_call_asked_a_thousand_times_under_one_number_costs_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as node, await Stranger.dial(node.address) as stranger:
        await stranger.greet("c-again")
        stranger.say(*[Call(1, Remember("name", bytes(1000)))] * 1000)
        for _ in range(1000):
            assert await stranger.answer() == Answer(1, Remembered("name"))
        assert node.connection("c-again").in_flight_bytes == 0


async def unread(node: Serving, name: str) -> int:
    """The most that ever was unsent to a client, until it is cut off."""
    most = 0
    await until(lambda: node.connection(name).role)

    def cut_off() -> bool:
        nonlocal most
        peers = [one for one in node.server.statistics().connections if one.peer == whole(name)]
        most = max([most, *(one.unsent_bytes for one in peers)])
        return not peers

    await until(cut_off)
    return most


async def test_a_reader_that_never_reads_is_cut_off_and_counted(tmp_path: Path) -> None:
    limits = Limits(unsent_bytes=MEGABYTE, slow_reader_seconds=0.5)
    async with (
        serving(tmp_path, limits=limits) as node,
        await Stranger.dial(node.address) as stranger,
        await Stranger.dial(node.address) as other,
    ):
        await stranger.greet("c-deaf")
        await other.greet("c-other")
        stranger._writer.transport.pause_reading()
        stranger.say(*(Call(at, Echo(bytes(MEGABYTE))) for at in range(64)))
        waiting = asyncio.ensure_future(unread(node, "c-deaf"))
        await other.is_served()
        assert await waiting <= 3 * MEGABYTE
        assert node.closed == {"slow reader": 1}
        await other.is_served()


async def test_a_slow_reader_that_reads_in_the_end_gets_all(tmp_path: Path) -> None:
    count, body = 200, bytes(range(256)) * 400
    limits = Limits(unsent_bytes=100_000, slow_reader_seconds=20.0)
    async with (
        serving(tmp_path, limits=limits) as node,
        await Stranger.dial(node.address) as stranger,
    ):
        await stranger.greet("c-slow")
        stranger._writer.transport.pause_reading()
        stranger.say(*(Call(at, Echo(body)) for at in range(count)))
        await until(lambda: node.connection("c-slow").unsent_bytes > limits.unsent_bytes)
        stranger._writer.transport.resume_reading()
        for at in range(count):
            assert await stranger.answer() == Answer(at, Echoed(body))


async def remembered(node: Serving, stranger: Stranger, body: bytes) -> None:
    """Kept under "large", with no flush under way that its loads would have to wait for."""
    stranger.say(Call(0, Remember("large", body)))
    assert await stranger.answer() == Answer(0, Remembered("large"))
    await until(lambda: node.server.current and not node.server.statistics().flush_waits)


def count_loads(node: Serving) -> list[None]:
    """Grows by one with each object that is read from the disk."""
    loads: list[None] = []
    load = node.server._store.load

    def counted(keys: tuple[bytes, ...]) -> Any:
        loads.append(None)
        return load(keys)

    node.server._store.load = counted
    return loads


async def test_small_questions_with_large_answers_wait_until_those_are_read(tmp_path: Path) -> None:
    limits = Limits(unsent_bytes=MEGABYTE, unsent_bytes_max=8 * MEGABYTE)
    async with (
        serving(tmp_path, limits=limits) as node,
        await Stranger.dial(node.address) as stranger,
    ):
        await stranger.greet("c-eager")
        await remembered(node, stranger, bytes(MEGABYTE))
        stranger.say(*(Call(at, Recall("large")) for at in range(1, 101)))  # one small piece
        for at in range(1, 101):
            assert await stranger.answer() == Answer(at, Recalled("large", bytes(MEGABYTE)))
        assert node.closed == {}


async def test_small_questions_whose_large_answers_nobody_reads_cost_little(tmp_path: Path) -> None:
    limits = Limits(unsent_bytes=MEGABYTE, slow_reader_seconds=0.5)
    async with (
        serving(tmp_path, limits=limits) as node,
        await Stranger.dial(node.address) as stranger,
    ):
        await stranger.greet("c-deaf")
        await remembered(node, stranger, bytes(MEGABYTE))
        stranger._writer.transport.pause_reading()
        stranger.say(*(Call(at, Recall("large")) for at in range(1, 5000)))
        assert await unread(node, "c-deaf") <= 3 * MEGABYTE
        assert node.closed == {"slow reader": 1}


async def test_answers_that_come_all_at_once_after_a_flush_are_bounded_too(tmp_path: Path) -> None:
    limits = Limits(unsent_bytes=MEGABYTE, slow_reader_seconds=0.5)
    async with (
        serving(tmp_path, limits=limits) as node,
        await Stranger.dial(node.address) as stranger,
    ):
        await stranger.greet("c-deaf")
        await remembered(node, stranger, bytes(MEGABYTE))
        stranger._writer.transport.pause_reading()
        recalls = (Call(at, Recall("large")) for at in range(2, 100))
        stranger.say(Call(1, Remember("flush", bytes(100_000))), *recalls)
        assert await unread(node, "c-deaf") <= 3 * MEGABYTE
        assert node.closed == {"slow reader": 1}


async def test_who_reads_what_comes_all_at_once_after_a_flush_gets_all(tmp_path: Path) -> None:
    limits = Limits(unsent_bytes=MEGABYTE, unsent_bytes_max=8 * MEGABYTE)
    async with (
        serving(tmp_path, limits=limits) as node,
        await Stranger.dial(node.address) as stranger,
        await Stranger.dial(node.address) as other,
    ):
        await stranger.greet("c-eager")
        await other.greet("c-other")
        await remembered(node, stranger, bytes(MEGABYTE))
        loads = count_loads(node)
        recalls = (Call(at, Recall("large")) for at in range(2, 100))
        stranger.say(Call(1, Remember("flush", bytes(100_000))), *recalls)
        stranger._writer.transport.pause_reading()
        await until(lambda: node.connection("c-eager").unsent_bytes)
        await other.is_served()
        assert len(loads) < 30, "some are on their way, and the others still on the disk"
        stranger._writer.transport.resume_reading()
        assert await stranger.answer() == Answer(1, Remembered("flush"))
        for at in range(2, 100):
            assert await stranger.answer() == Answer(at, Recalled("large", bytes(MEGABYTE)))
        assert len(loads) == 98
        assert node.closed == {}


async def test_what_was_to_be_read_for_one_who_is_gone_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All in one turn: what is heard later, while nothing more may be unsent, goes with the abort.
    monkeypatch.setattr(connection, "SLICE_FRAMES", 1_000)
    monkeypatch.setattr(hearing, "SLICE_SECONDS", 60.0)
    limits = Limits(unsent_bytes=MEGABYTE)
    async with (
        serving(tmp_path, limits=limits) as node,
        await Stranger.dial(node.address) as stranger,
        await Stranger.dial(node.address) as other,
    ):
        await stranger.greet("c-gone")
        await other.greet("c-other")
        await remembered(node, stranger, bytes(MEGABYTE))
        loads = count_loads(node)
        stranger._writer.transport.pause_reading()
        recalls = (Call(at, Recall("large")) for at in range(2, 100))
        stranger.say(Call(1, Remember("flush", bytes(1_000))), *recalls)
        await until(lambda: node.connection("c-gone").unsent_bytes)
        stranger._writer.transport.abort()
        await other.is_served()
        await until(lambda: len(loads) == 98)  # a machine counts on each


async def test_who_reads_slowly_and_steadily_is_not_cut_off(tmp_path: Path) -> None:
    limits = Limits(unsent_bytes=MEGABYTE, slow_reader_seconds=2.0)
    async with (
        serving(tmp_path, limits=limits) as node,
        await Stranger.dial(node.address) as stranger,
    ):
        await stranger.greet("c-slow")
        stranger.say(Call(1, Echo(bytes(12 * MEGABYTE))))
        for _ in range(48):  # for longer than such a reader's time, which begins anew
            await stranger._reader.readexactly(MEGABYTE // 4)
            await asyncio.sleep(0.07)
        assert node.closed == {}
        await until(lambda: not node.connection("c-slow").unsent_bytes)


async def test_a_client_that_asks_much_at_once_waits_for_the_node_to_read(tmp_path: Path) -> None:
    limits = Limits(unsent_bytes=MEGABYTE, unsent_bytes_max=8 * MEGABYTE)
    answers: list[Any] = []
    async with serving(tmp_path, limits=Limits(in_flight_bytes=2 * MEGABYTE)) as node:
        client = Transport(
            speaker("c-much"),
            Credentials(),
            limits,
            lambda _, message: answers.append(message),
        )
        target = contact(node.address)
        client.send(target, Call(0, Echo(b"")))
        await until(lambda: answers)
        for at in range(1, 33):
            client.send(target, Call(at, Remember(f"name {at}", bytes(MEGABYTE))))
        await until(lambda: len(answers) == 33 or client.closed_by.read())
        assert client.closed_by.read() == {}
        await client.close()


async def test_too_much_unsent_at_once_is_cut_off_and_counted(tmp_path: Path) -> None:
    limits = Limits(unsent_bytes=MEGABYTE, unsent_bytes_max=2 * MEGABYTE)
    async with (
        serving(tmp_path, limits=limits) as node,
        await Stranger.dial(node.address) as stranger,
        await Stranger.dial(node.address) as other,
    ):
        await stranger.greet("c-deaf")
        await other.greet("c-other")
        stranger._writer.transport.pause_reading()
        stranger.say(Call(1, Echo(bytes(20 * MEGABYTE))))
        await until(lambda: node.closed)
        assert node.closed == {"slow reader": 1}
        await other.is_served()


async def test_questions_about_the_process_that_nobody_reads_cost_little(tmp_path: Path) -> None:
    limits = Limits(unsent_bytes=100_000, slow_reader_seconds=0.5)
    async with (
        serving(tmp_path, limits=limits) as node,
        await Stranger.dial(node.address) as stranger,
    ):
        await stranger.greet("c-curious")
        stranger._writer.transport.pause_reading()
        stranger.send(framed(Kind.INQUIRE, b"") * 50_000)
        assert await unread(node, "c-curious") < 300_000
        assert node.closed == {"slow reader": 1}


async def test_a_flood_of_small_calls_waits_in_the_kernel_and_not_in_the_node(
    tmp_path: Path,
) -> None:
    count = 100_000
    async with serving(tmp_path) as node, await Stranger.dial(node.address) as stranger:
        await stranger.greet("c-flood")
        [connection] = node.server._transport.connections()
        stranger.say(*(Call(at, Echo(b"")) for at in range(count)))
        most = 0
        for at in range(count):
            assert await stranger.answer() == Answer(at, Echoed(b""))
            most = max(most, len(connection._machine.frames))
        assert 0 < most < 20_000


async def test_the_answer_about_the_process_is_its_statistics(tmp_path: Path) -> None:
    async with serving(tmp_path) as node, await Stranger.dial(node.address) as stranger:
        await stranger.greet("c-curious")
        stranger.send(framed(Kind.INQUIRE, b""))
        kind, payload = await stranger.frame()
        assert kind is Kind.INFORM
        told = msgspec.json.decode(payload, type=NodeStatistics)
        assert (told.node, told.connections_total) == ("n1", 1)
        [one] = told.connections
        assert (one.peer, one.role, one.inbound) == (whole("c-curious"), "client", True)
        assert one.frames_in == 3
        assert one.bytes_in > 0


async def test_who_breaks_the_rules_and_does_not_read_is_not_kept_for_ever(tmp_path: Path) -> None:
    limits = Limits(unsent_bytes=32 * MEGABYTE, slow_reader_seconds=0.5)
    async with (
        serving(tmp_path, limits=limits) as node,
        await Stranger.dial(node.address) as stranger,
    ):
        await stranger.greet("c-deaf")
        stranger._writer.transport.pause_reading()
        stranger.say(Call(1, Echo(bytes(20 * MEGABYTE))))
        await until(lambda: node.connection("c-deaf").unsent_bytes > MEGABYTE)
        [connection] = node.server._transport.connections()
        stranger.send(b"garbage that ends it")
        await until(lambda: node.closed == {"FrameError": 1})
        await until(lambda: connection.unsent == 0)
        await until(lambda: connection._transport is None)


async def test_an_answer_above_the_limit_is_declined_and_the_connection_lives_on(
    tmp_path: Path,
) -> None:
    call = Call(1, Remember("n", bytes(10_000)))
    async with (
        serving(tmp_path, limits=Limits(frame_bytes=len(encode(call)))) as node,
        await Stranger.dial(node.address) as stranger,
    ):
        await stranger.greet()
        stranger.say(call, Call(2, Recall("n")))
        assert await stranger.answer() == Answer(1, Remembered("n"))
        answer = await stranger.answer()
        assert isinstance(answer.body, Declined), answer
        assert answer.body.error == "TooLarge"
        await stranger.is_served()


async def test_what_is_too_large_for_another_node_is_lost_alone(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, limits=Limits(frame_bytes=10_000)) as node,
        await Stranger.dial(node.address) as stranger,
    ):
        await stranger.greet("n7", role=Role.NODE)
        stranger.say(piece(1, b"here"))
        await until(lambda: "of no member" in node.server.statistics().dropped)
        body = bytes(10_001)
        node.server._transport.send(NodeId("n7"), piece(1, body))
        assert node.server.statistics().dropped["too large for a frame"] == 1
        assert node.closed == {}
        node.server._transport.send(NodeId("n7"), piece(1, b"small"))
        kind, _ = await stranger.frame()
        assert kind is Kind.MESSAGE


async def test_two_nodes_that_have_much_for_each_other_at_once_both_get_it() -> None:
    names = NodeId("n1"), NodeId("n2")
    heard: dict[NodeId, list[Any]] = {name: [] for name in names}
    ends = []
    for name in names:

        def deliver(_: NodeId, message: Any, name: NodeId = name) -> None:
            heard[name].append(message)

        end = Transport(
            speaker(name, Role.NODE), Credentials(), Limits(), deliver, Gate("snowmelt")
        )
        ends.append((end, await end.listen(Address("127.0.0.1", 0))))
    (one, _), (other, address) = ends
    one.addresses[names[1]] = address
    one.send(names[1], piece(1, b"small"))
    await until(lambda: heard[names[1]])
    for at in range(2, 6):
        for end, target in ((one, names[1]), (other, names[0])):
            end.send(target, piece(at, bytes(8 * MEGABYTE)))
    try:
        async with asyncio.timeout(Limits().slow_reader_seconds / 2):
            await until(lambda: len(heard[names[0]]) == 4 and len(heard[names[1]]) == 5)
    finally:
        for end, _ in ends:
            await end.close()


async def test_who_claims_to_be_a_node_and_reads_no_answers_is_cut_off_at_the_limit(
    tmp_path: Path,
) -> None:
    limits = Limits(unsent_bytes=MEGABYTE, unsent_bytes_max=8 * MEGABYTE, slow_reader_seconds=60.0)
    async with (
        serving(tmp_path, limits=limits) as node,
        await Stranger.dial(node.address) as stranger,
    ):
        await stranger.greet("n9", Role.NODE)
        stranger._writer.transport.pause_reading()
        stranger.say(*(Call(at, Echo(bytes(MEGABYTE))) for at in range(64)))
        await until(lambda: node.closed)
        assert node.closed == {"slow reader": 1}


async def test_a_client_that_asks_and_is_answered_much_at_once_is_served_at_once(
    tmp_path: Path,
) -> None:
    answers: list[Any] = []
    async with serving(tmp_path) as node:
        client = Transport(
            speaker("c-both"),
            Credentials(),
            Limits(),
            lambda _, message: answers.append(message),
        )
        for at in range(1, 9):
            client.send(contact(node.address), Call(at, Echo(bytes(6 * MEGABYTE))))
        async with asyncio.timeout(Limits().slow_reader_seconds / 2):
            await until(lambda: len(answers) == 8)
        assert node.closed == client.closed_by.read() == {}
        await client.close()
