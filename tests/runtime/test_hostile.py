"""Every way to break the rules of the wire ends that connection, says why, and harms nobody."""

import os
from pathlib import Path

import pytest

from runtime.network import Stranger, packed, serving
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.calling import Call
from snowmelt.protocols.membership import Depart, Member
from snowmelt.protocols.membership.messages import Join, LeftView
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.limits import Limits
from snowmelt.wire.codec import encode
from snowmelt.wire.framing import HEADER, MAGIC, VERSION, Kind, framed
from snowmelt.wire.greeting import Hello, Proof, Role, said

TOKEN = "the token"
FRAME_MAX = 100_000


def hello(
    name: str = "c-1", role: Role = Role.CLIENT, cluster: str = "snowmelt", nonce: bytes = bytes(16)
) -> bytes:
    return said(Kind.HELLO, Hello(cluster, name, role, nonce))


BEFORE = {
    "another protocol": (b"GET / HTTP/1.1\r\n\r\n", "FrameError", "another protocol"),
    "TLS without TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "FrameError", "TLS"),
    "noise": (os.urandom(4096).replace(b"S", b"s"), "FrameError", "no frame"),
    "a later version": (HEADER.pack(MAGIC, 3, 1, 0, 5), "FrameError", "version 3"),
    "an unknown kind": (HEADER.pack(MAGIC, VERSION, 99, 0, 5), "FrameError", "kind 99"),
    "an oversized greeting": (HEADER.pack(MAGIC, VERSION, 1, 0, 8193), "FrameError", "8192"),
    "a call first": (
        packed(["call", 1, ["echo.echo", b""]]),
        "HandshakeError",
        "does not stand here",
    ),
    "a question first": (framed(Kind.INQUIRE, b""), "HandshakeError", "does not stand"),
    "a welcome first": (framed(Kind.WELCOME, b""), "HandshakeError", "does not stand"),
    "a garbled hello": (framed(Kind.HELLO, b"\xc1\xc1"), "HandshakeError", "does not read"),
    "a nested hello": (framed(Kind.HELLO, b"\x91" * 8000), "HandshakeError", "does not read"),
    "a garbled goodbye": (framed(Kind.GOODBYE, b""), "HandshakeError", "does not read"),
    "the wrong cluster": (hello(cluster="rain"), "AccessDenied", "cluster 'snowmelt', not 'rain'"),
    "no nonce": (hello(nonce=b""), "HandshakeError", "does not read"),
    "a long nonce": (hello(nonce=bytes(17)), "HandshakeError", "does not read"),
    "an earlier version": (HEADER.pack(MAGIC, 1, 1, 0, 5), "FrameError", "version 1"),
    "a wrong proof": (
        hello() + said(Kind.PROVE, Proof(bytes(32))),
        "AccessDenied",
        "token is missing or wrong",
    ),
    "a short proof": (
        hello() + framed(Kind.PROVE, b"\x81\xa5proof\xc4\x01a"),
        "HandshakeError",
        "read",
    ),
    "a proof first": (said(Kind.PROVE, Proof(bytes(32))), "HandshakeError", "does not stand"),
    "a call for a proof": (
        hello() + packed(["call", 1, ["echo.echo", b""]]),
        "HandshakeError",
        "MESSAGE does not stand here",
    ),
    "hello twice": (hello() + hello(), "HandshakeError", "HELLO does not stand here"),
    "a client with a node's name": (hello("n2"), "AccessDenied", "can't be the name of a client"),
    "a node with a client's name": (hello("c-2", Role.NODE), "AccessDenied", "the name of a node"),
    "a node with the node's own name": (hello("n1", Role.NODE), "NodeRefused", "node's own"),
    "a name that is none": (hello("c-\0/"), "BadOption", "node id"),
    "an endless name": (hello("c-" + "☃" * 2500), "BadOption", "node id"),
}
AFTER = {
    "noise": (b"\0" * 100, "FrameError", "no frame"),
    "an oversized frame": (
        HEADER.pack(MAGIC, VERSION, 4, 0, FRAME_MAX + 1),
        "FrameError",
        "100000",
    ),
    "a huge frame": (HEADER.pack(MAGIC, VERSION, 4, 0, 0xFFFFFFFF), "FrameError", "4294967295"),
    "a second hello": (hello(), "FrameError", "HELLO does not stand"),
    "a welcome": (framed(Kind.WELCOME, b""), "FrameError", "WELCOME does not stand"),
    "an answer to no question": (framed(Kind.INFORM, b"{}"), "FrameError", "INFORM does not"),
    "a garbled message": (framed(Kind.MESSAGE, b"\xc1"), "MessageError", "does not read"),
    "a nested message": (framed(Kind.MESSAGE, b"\x91" * 90_000), "MessageError", "does not read"),
    "a pickle": (framed(Kind.MESSAGE, b"\x80\x04\x95cposix\nsystem."), "MessageError", "not read"),
    "wrong types": (packed(["call", "1", ["echo.echo", 5]]), "MessageError", "does not read"),
    "an unknown request": (packed(["call", 1, ["exec", b"rm"]]), "MessageError", "does not read"),
    "an answer": (packed(["answer", 1, ["echo.echoed", b""]]), "MessageError", "does not read"),
    "a node's word": (
        framed(Kind.MESSAGE, encode(LeftView(1))),
        "MessageError",
        "does not read",
    ),
    "a join": (
        framed(
            Kind.MESSAGE,
            encode(Join(1, 1, Member(NodeId("n9"), Address("127.0.0.1", 1), 1, 1), 0, 0)),
        ),
        "MessageError",
        "does not read",
    ),
    "an order to depart": (
        framed(Kind.MESSAGE, encode(Call(1, Depart()))),
        "MessageError",
        "does not read",
    ),
}


async def breaks(folder: Path, greeted: bool, data: bytes, error: str, why: str) -> None:
    config = {"limits": Limits(frame_bytes=FRAME_MAX), "credentials": Credentials(token=TOKEN)}
    async with serving(folder, **config) as node, await Stranger.dial(node.address) as other:
        await other.greet(token=TOKEN)
        async with await Stranger.dial(node.address) as stranger:
            if greeted:
                await stranger.greet("c-bad", token=TOKEN)
            stranger.send(data)
            word = await stranger.goodbye()
        assert (word.error, why in word.text) == (error, True), word
        assert node.closed == {error: 1}
        await other.is_served()
        assert len(node.server.statistics().connections) == 1


@pytest.mark.parametrize(("data", "error", "why"), BEFORE.values(), ids=BEFORE)
async def test_a_stranger_who_can_not_greet_is_told_why_and_counted(
    tmp_path: Path, data: bytes, error: str, why: str
) -> None:
    await breaks(tmp_path, False, data, error, why)


@pytest.mark.parametrize(("data", "error", "why"), AFTER.values(), ids=AFTER)
async def test_a_client_that_breaks_the_rules_is_told_why_and_counted(
    tmp_path: Path, data: bytes, error: str, why: str
) -> None:
    await breaks(tmp_path, True, data, error, why)
