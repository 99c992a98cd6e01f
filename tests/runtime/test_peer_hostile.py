"""What strangers may send to a process of a pool: it costs them their link, and nobody else."""

import random
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any, Self

import pytest

from runtime.peering import GET, Simple, engine, know, put
from snowmelt.core.instant import milliseconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.calling import Call
from snowmelt.protocols.echo import Echo
from snowmelt.protocols.pool.messages import Found, Request, Settle, Span
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.peer import Engine
from snowmelt.runtime.peer.limits import PeerLimits
from snowmelt.runtime.peer.outgoing import CHUNK_HEAD, PARCEL_HEAD
from snowmelt.wire.codec import encode
from snowmelt.wire.framing import HEADER, FrameReader, Kind, framed
from snowmelt.wire.greeting import Gate, Goodbye, Hello, Proof, Role, Welcome, heard, said

TOKEN = "the token"
NONCE = bytes(16)
FOUND = Found(1, 1, 1, 7, 0, 0.0, (Span(0, b""),), b"")


class Stranger:
    """One raw connection. All its waits end."""

    def __init__(self, to: Engine) -> None:
        self.socket = socket.create_connection((to.address.host, to.address.port), 5)
        self._reader = FrameReader()
        self._came: list[tuple[Kind, bytes]] = []

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def frame(self) -> tuple[Kind, bytes]:
        while not self._came:
            data = self.socket.recv(1 << 16)
            if not data:
                raise EOFError
            self._came += self._reader.feed(data)
        return self._came.pop(0)

    def greet(self, name: str = "c-stranger", token: str = TOKEN) -> Self:
        hello = Hello("snowmelt", name, Role.PEER, nonce=NONCE)
        self.send(said(Kind.HELLO, hello))
        kind, payload = self.frame()
        assert kind is Kind.WELCOME
        proof = self.gate(token).prove(hello, heard(payload, Welcome))
        self.send(said(Kind.PROVE, proof))
        return self

    def gate(self, token: str) -> Gate:
        return Gate("snowmelt", token)

    def goodbye(self) -> Goodbye:
        kind, payload = self.frame()
        while kind is not Kind.GOODBYE:
            kind, payload = self.frame()
        with pytest.raises((EOFError, ConnectionResetError)):
            self.frame()
        return heard(payload, Goodbye)


@contextmanager
def stranger(to: Engine) -> Iterator[Stranger]:
    one = Stranger(to)
    try:
        yield one
    finally:
        one.socket.close()


@contextmanager
def victim(**limits: Any) -> Iterator[tuple[Engine, Simple]]:
    credentials = Credentials(token=TOKEN)
    with engine("c-a", credentials=credentials, limits=PeerLimits(**limits)) as pair:
        yield pair


def is_served(to: Engine, machine: Simple) -> None:
    """Another process has its object all the same."""
    with engine("c-good", credentials=Credentials(token=TOKEN)) as (taker, taking):
        know(taker, taking, to)
        machine.line.clear()
        to.call(put(b"x"), 5)
        assert taker.call(GET, 5).blob == b"x"


def until(so: Callable[[], Any]) -> None:
    end = monotonic() + 5
    while not so():
        assert monotonic() < end, "it did not come to be"
        sleep(0.002)


def hello(name: str = "c-x", role: Role = Role.PEER, **more: Any) -> bytes:
    more.setdefault("nonce", NONCE)
    return said(Kind.HELLO, Hello(more.pop("cluster", "snowmelt"), name, role, **more))


FIRST_WORDS = {
    "a client": (hello(role=Role.CLIENT, token=TOKEN), "AccessDenied", "a client has no business"),
    "a node": (hello("n1", role=Role.NODE, token=TOKEN), "AccessDenied", "a node has no business"),
    "of another cluster": (hello(cluster="rain"), "AccessDenied", "not 'rain'"),
    "named as nodes are": (hello("n1"), "AccessDenied", "theirs begin with c-"),
    "without a nonce": (hello(nonce=b""), "HandshakeError", "a nonce of 0 bytes"),
    "no greeting": (framed(Kind.HELLO, b"\xc1"), "HandshakeError", "does not read"),
    "a proof first": (said(Kind.PROVE, Proof(b"")), "HandshakeError", "PROVE does not stand"),
    "a wrong proof": (hello() + said(Kind.PROVE, Proof(bytes(32))), "AccessDenied", "the token"),
    "twice": (hello() + hello(), "HandshakeError", "HELLO does not stand"),
    "a message": (framed(Kind.MESSAGE, encode(FOUND)), "HandshakeError", "MESSAGE does not"),
    "a parcel": (framed(Kind.PARCEL, bytes(12)), "FrameError", "PARCEL does not stand"),
    "a chunk": (framed(Kind.CHUNK, bytes(12)), "FrameError", "no stream 0 waits for"),
    "too long": (HEADER.pack(0x53, 1, 1, 0, 1 << 20), "FrameError", "the limit here is 8192"),
    "another protocol": (b"GET / HTTP/1.1\r\n\r\n", "FrameError", "no frame"),
    "another version": (HEADER.pack(0x53, 9, 1, 0, 0), "FrameError", "no frame"),
    "an unknown kind": (HEADER.pack(0x53, 1, 99, 0, 0), "FrameError", "kind 99"),
}


@pytest.mark.parametrize("case", FIRST_WORDS)
def test_a_first_word_that_does_not_fit_ends_the_link_with_a_reason(case):
    words, error, text = FIRST_WORDS[case]
    with victim() as (one, machine), stranger(one) as other:
        other.send(words)
        last = other.goodbye()
        assert last.error == error
        assert text in last.text
        assert machine.reached() == []
        is_served(one, machine)


def parcel(number: int, size: int, message: Any = FOUND) -> bytes:
    return framed(Kind.PARCEL, PARCEL_HEAD.pack(number, size) + encode(message))


def chunk(number: int, data: bytes) -> bytes:
    return framed(Kind.CHUNK, CHUNK_HEAD.pack(number) + data)


REQUEST = Request(NodeId("c-stranger"), 1, 1, 1, ())
LATER_WORDS = {
    "a parcel above the limit": (parcel(1, (256 << 20) + 1), "TooLarge", "allowed are 1 to"),
    "a parcel of nothing": (parcel(1, 0), "TooLarge", "0 bytes"),
    "a parcel without a head": (framed(Kind.PARCEL, b"x"), "FrameError", "PARCEL"),
    "a stream twice": (parcel(1, 9) + parcel(1, 9), "FrameError", "stream 1 is open"),
    "a parcel of what has no blob": (parcel(1, 9, REQUEST), "MessageError", "no large blob"),
    "a chunk of no stream": (parcel(1, 9) + chunk(2, b"x"), "FrameError", "no stream 2 waits"),
    "a chunk that is too long": (parcel(1, 9) + chunk(1, bytes(10)), "FrameError", "a chunk of 10"),
    "a chunk of nothing": (parcel(1, 9) + chunk(1, b""), "FrameError", "a chunk of 0 bytes"),
    "a chunk without a number": (HEADER.pack(0x53, 1, 9, 0, 3) + b"abcd", "FrameError", "of -1"),
    "a message that does not read": (framed(Kind.MESSAGE, b"\xc1"), "MessageError", "not read"),
    "a call": (framed(Kind.MESSAGE, encode(Call(1, Echo(b"x")))), "MessageError", "not read"),
    "a frame above the limit": (HEADER.pack(0x53, 1, 4, 0, 1 << 31), "FrameError", "the limit"),
    "another greeting": (hello(), "FrameError", "HELLO does not stand in an open link"),
}


@pytest.mark.parametrize("case", LATER_WORDS)
def test_a_later_word_that_does_not_fit_ends_the_link_with_a_reason(case):
    words, error, text = LATER_WORDS[case]
    with victim() as (one, machine), stranger(one) as other:
        other.greet().send(words)
        last = other.goodbye()
        assert last.error == error
        assert text in last.text
        assert one._links.stores.held == 0
        until(machine.lost)
        is_served(one, machine)


def test_who_answers_without_the_token_is_not_believed():
    other_token = Credentials(token="x")
    with victim() as (one, _), engine("c-b", credentials=other_token) as (taker, machine):
        know(taker, machine, one)
        until(machine.lost)
        assert "c-a has another token" in str(taker.last_failure)


def test_bytes_torn_anywhere_make_the_same_messages():
    bodies = [b"", bytes(range(256)), b"z" * 100_000]
    wire = b"".join(framed(Kind.MESSAGE, encode(REQUEST)) for _ in range(3))
    wire += parcel(5, len(bodies[2])) + chunk(5, bodies[2][:60_000]) + chunk(5, bodies[2][60_000:])
    wire += framed(Kind.MESSAGE, encode(REQUEST))
    chance = random.Random(3)
    with victim() as (one, machine):
        for _ in range(10):
            with stranger(one) as other:
                other.greet()
                other.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                at = 0
                before = len(machine.line), len(machine.coming())
                while at < len(wire):
                    step = chance.choice([1, 2, 7, 11, 13, 100, 30_000])
                    other.send(wire[at : at + step])
                    at += step
                until(lambda before=before: len(machine.line) == before[0] + 4)
                assert len(machine.coming()) == before[1] + 1
                assert one._links.stores.held == 0


def test_noise_never_harms_the_engine():
    chance = random.Random(5)
    good = parcel(1, 70_000) + chunk(1, bytes(70_000)) + framed(Kind.MESSAGE, encode(REQUEST))
    with victim() as (one, machine):
        for _ in range(60):
            noise = bytearray(good)
            for _ in range(chance.randrange(1, 6)):
                noise[chance.randrange(200)] = chance.randrange(256)
            with stranger(one) as other:
                other.greet()
                other.send(noise[: chance.randrange(len(noise))])
        is_served(one, machine)
        until(lambda: one._links.stores.held == 0)


def test_a_stranger_who_says_nothing_is_sent_away():
    with victim(greeting=milliseconds(100)) as (one, _), stranger(one) as other:
        assert "no greeting came in time" in other.goodbye().text


def test_a_large_object_that_does_not_go_on_ends_its_link():
    with victim(stalled=milliseconds(100)) as (one, machine), stranger(one) as other:
        other.greet().send(parcel(1, 1 << 20) + chunk(1, bytes(1000)))
        until(machine.coming)
        assert "nothing came" in other.goodbye().text
        assert machine.lost() == ["c-stranger"]
        assert one._links.stores.held == 0


def test_a_link_too_many_is_refused_and_the_others_live():
    with victim(links=2) as (one, _), stranger(one) as first, stranger(one) as second:
        first.greet()
        second.greet("c-other")
        with stranger(one) as third:
            assert "2 links" in third.goodbye().text
        first.send(framed(Kind.MESSAGE, encode(REQUEST)))
        until(lambda: one.statistics().links.frames_in >= 5)


def test_one_who_does_not_read_is_cut_off():
    with victim(unsent_bytes=1 << 20) as (one, machine), stranger(one) as other:
        other.greet()
        until(machine.reached)
        body = bytes(60_000)
        sent = 0
        while sent < 400 and not machine.lost():
            sent += 1
            one.call(put(body), 5)
            machine.line.append((NodeId("c-stranger"), REQUEST))
            with one._lock:
                for effect in machine._match():
                    one._links.send(effect.target, effect.message)
                one._links.flush()
        assert sent < 400
        assert machine.lost() == ["c-stranger"]


def test_a_machine_that_a_message_crashes_ends_its_engine_only():
    with victim() as (one, _), stranger(one) as other:
        other.greet().send(framed(Kind.MESSAGE, encode(Settle(1, 1, (Interval(0, 1),)))))
        assert "left the pool" in other.goodbye().text
