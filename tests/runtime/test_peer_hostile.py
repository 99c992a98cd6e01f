"""What strangers may send to a process of a pool: it costs them their link, and nobody else."""

import gc
import random
import resource
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest

from greetings import speaker
from runtime.peering import GET, Simple, engine, inside, know, put
from snowmelt.core.instant import milliseconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import Address, NodeId
from snowmelt.core.users import Accounts
from snowmelt.protocols.calling import Call
from snowmelt.protocols.echo import Echo
from snowmelt.protocols.pool.calls import Acquaintances, NotReceived, Reachable, Unsent
from snowmelt.protocols.pool.messages import Cancel, ObjectsLent, ObjectSpan, Request, SettleLoan
from snowmelt.runtime.credentials import Credentials, channel_of
from snowmelt.runtime.peer import Engine
from snowmelt.runtime.peer.limits import PeerLimits
from snowmelt.runtime.peer.outgoing import CHUNK_HEAD, PARCEL_HEAD
from snowmelt.wire.codec import encode
from snowmelt.wire.framing import HEADER, VERSION, FrameReader, Kind, framed
from snowmelt.wire.greeting import Gate, Goodbye, Hello, Proof, Role, heard, said
from snowmelt.wire.sides import Dialling, Listening
from timing import until

TOKEN = "the token"
NONCE = bytes(16)
FOUND = ObjectsLent(1, 1, 1, 7, 0, 0.0, (ObjectSpan(0, b""),), b"")


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

    def greet(self, name: str = "c-stranger", token: str = TOKEN, after: bytes = b"") -> Self:
        side = Dialling(speaker(name, Role.PEER, token), channel=self.channel, after=after)
        self.send(side.first)
        kind, payload = self.frame()
        assert kind is Kind.WELCOME
        self.send(side.hear(kind, payload)[0])
        return self

    def channel(self) -> bytes:
        return channel_of(self.socket if isinstance(self.socket, ssl.SSLSocket) else None)

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


def hello(name: str = "c-x", role: Role = Role.PEER, **more: Any) -> bytes:
    more.setdefault("nonce", NONCE)
    return said(Kind.HELLO, Hello(more.pop("cluster", "snowmelt"), name, role, **more))


FIRST_WORDS = {
    "a client": (hello(role=Role.CLIENT), "AccessDenied", "a client has no business"),
    "a node": (hello("n1", role=Role.NODE), "AccessDenied", "a node has no business"),
    "of another cluster": (hello(cluster="rain"), "AccessDenied", "not 'rain'"),
    "named as nodes are": (hello("n1"), "AccessDenied", "of clients begin with c-"),
    "without a nonce": (hello(nonce=b""), "HandshakeError", "does not read"),
    "no greeting": (framed(Kind.HELLO, b"\xc1"), "HandshakeError", "does not read"),
    "a proof first": (said(Kind.PROVE, Proof(bytes(32))), "HandshakeError", "PROVE does not stand"),
    "a wrong proof": (hello() + said(Kind.PROVE, Proof(bytes(32))), "AccessDenied", "the token"),
    "twice": (hello() + hello(), "HandshakeError", "HELLO does not stand"),
    "a message": (framed(Kind.MESSAGE, encode(FOUND)), "HandshakeError", "MESSAGE does not"),
    "a parcel": (framed(Kind.PARCEL, bytes(12)), "HandshakeError", "PARCEL does not stand"),
    "a chunk": (framed(Kind.CHUNK, bytes(12)), "HandshakeError", "CHUNK does not stand"),
    "too long": (HEADER.pack(0x53, VERSION, 1, 0, 1 << 20), "FrameError", "the limit here is 8192"),
    "another protocol": (b"GET / HTTP/1.1\r\n\r\n", "FrameError", "no frame"),
    "another version": (
        HEADER.pack(0x53, 9, 1, 0, 0),
        "FrameError",
        "of version 9; this",
    ),
    "an unknown kind": (HEADER.pack(0x53, VERSION, 99, 0, 0), "FrameError", "kind 99"),
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


def parcel(number: int, size: int, message: Any = FOUND, kind: Kind = Kind.PARCEL) -> bytes:
    return framed(kind, PARCEL_HEAD.pack(number, size) + encode(message))


def grant(number: int) -> bytes:
    return framed(Kind.GRANT, CHUNK_HEAD.pack(number))


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
    "a chunk without a number": (
        HEADER.pack(0x53, VERSION, 9, 0, 3) + b"abcd",
        "FrameError",
        "of -1",
    ),
    "a chunk of what waits for room": (
        parcel(1, 9, kind=Kind.OFFER) + parcel(2, 9, kind=Kind.OFFER) + chunk(2, b"x"),
        "FrameError",
        "no stream 2 waits",
    ),
    "room for what was not offered": (grant(3), "FrameError", "room for stream 3"),
    "a message that does not read": (framed(Kind.MESSAGE, b"\xc1"), "MessageError", "not read"),
    "a call": (framed(Kind.MESSAGE, encode(Call(1, Echo(b"x")))), "MessageError", "not read"),
    "a frame above the limit": (
        HEADER.pack(0x53, VERSION, 4, 0, 1 << 31),
        "FrameError",
        "the limit",
    ),
    "another greeting": (hello(), "FrameError", "HELLO does not stand in an open connection"),
}


@pytest.mark.parametrize("case", LATER_WORDS)
def test_a_later_word_that_does_not_fit_ends_the_link_with_a_reason(case):
    words, error, text = LATER_WORDS[case]
    with victim(incoming_bytes=8) as (one, machine), stranger(one) as other:
        other.greet().send(words)
        last = other.goodbye()
        assert last.error == error
        assert text in last.text
        assert one._links.stores.held == 0
        until(machine.lost)
        is_served(one, machine)


def test_a_word_that_only_a_later_version_has_ends_nothing():
    unknown, known = (framed(Kind.MESSAGE, encode(one)) for one in (["pool.praise", 7], REQUEST))
    with victim() as (one, machine), stranger(one) as other:
        other.greet().send(unknown + known)
        until(lambda: machine.line)
        assert machine.lost() == []


def test_who_answers_without_the_token_is_not_believed():
    other_token = Credentials(token="x")
    with victim() as (one, _), engine("c-b", credentials=other_token) as (taker, machine):
        know(taker, machine, one)
        until(machine.lost)
        assert "token is missing or wrong: c-a has another" in str(taker.last_failure)


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


def test_strangers_who_say_nothing_take_few_descriptors():
    with victim(strangers=3) as (one, machine), ExitStack() as stack:
        silent = [stack.enter_context(stranger(one)) for _ in range(5)]
        assert all("others came" in each.goodbye().text for each in silent[:2])
        is_served(one, machine)


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


def give(one: Engine, message: Any, to: str = "c-stranger") -> None:
    """Sends it to the stranger, or another."""
    inside(one, lambda: one._links.send(NodeId(to), message))


def test_one_who_reads_late_has_all_that_it_asked_for():
    count, body = 400, bytes(60_000)
    with victim(unsent_bytes=2 << 20) as (one, machine), stranger(one) as other:
        other.greet()
        until(machine.reached)
        for number in range(count):
            give(one, msgspec.structs.replace(FOUND, number=number, blob=body))
        assert machine.facts[1:] == [Reachable(NodeId("c-stranger"))], "nothing is refused"
        whole, parts = 0, dict[int, int]()
        while whole < count:
            kind, payload = other.frame()
            if kind is Kind.MESSAGE:
                whole += 1
            elif kind is Kind.CHUNK:
                (stream,) = CHUNK_HEAD.unpack_from(payload)
                parts[stream] = parts.get(stream, 0) + len(payload) - CHUNK_HEAD.size
                whole += parts[stream] == len(body)
            elif kind is Kind.OFFER:
                other.send(framed(Kind.GRANT, payload[: CHUNK_HEAD.size]))
        assert machine.lost() == []


def test_large_ones_for_which_there_is_no_stream_wait_up_to_so_many_bytes():
    large = msgspec.structs.replace(FOUND, blob=bytes(256 << 20))
    with victim(streams=2) as (one, machine), stranger(one) as other:
        other.greet()
        until(machine.reached)
        for number in range(2 + 4):
            give(one, msgspec.structs.replace(large, number=number))
        assert not machine.told(Unsent)
        give(one, msgspec.structs.replace(large, number=6))
        assert [unsent.message.number for unsent in machine.told(Unsent)] == [6]
        give(one, Cancel(1, 1))
        assert len(machine.told(Unsent)) == 1, "what is small leaves"
        assert one.statistics().links.dropped == {"too many large ones are unsent": 1}
        assert machine.lost() == [], "the link stands"


def test_what_is_more_than_one_reads_is_refused_and_when_nothing_is_taken_the_link_ends():
    limits = {"unsent_bytes": 1 << 20, "stalled": milliseconds(300)}
    with victim(**limits) as (one, machine), stranger(one) as other:
        other.greet()
        until(machine.reached)
        word = SettleLoan(1, 1, tuple(Interval(n, n + 1) for n in range(1000)))
        sent = 0
        while not machine.told(Unsent):
            sent += 1
            give(one, word)
        assert machine.told(Unsent)[0].message == word
        assert machine.lost() == [], "the link stands"
        until(machine.lost)
        assert "FrameError" in one.statistics().links.closed


def test_a_large_object_of_which_nothing_is_taken_is_kept_in_memory_for_no_longer_than_so():
    body = memoryview(bytearray(8 << 20))
    with victim(stalled=milliseconds(300)) as (one, machine), stranger(one) as other:
        other.greet()
        until(machine.reached)
        give(one, msgspec.structs.replace(FOUND, blob=body))  # over TCP, and never read
        until(machine.lost)
        assert machine.lost() == [NodeId("c-stranger")]
    gc.collect()
    body.release()  # nobody has it any more


def test_a_large_object_for_which_there_is_no_room_is_refused_and_the_link_stands():
    size = 700_000
    first = msgspec.structs.replace(FOUND, number=1, token=11)
    second = msgspec.structs.replace(FOUND, number=2, token=22)
    with victim(incoming_bytes=1 << 20) as (one, machine), stranger(one) as other:
        other.greet().send(parcel(1, size, first) + parcel(2, size, second))
        other.send(chunk(2, bytes(size)) + chunk(1, bytes(size)))
        until(lambda: one.statistics().links.frames_in == 6)
        until(lambda: one._links.stores.held == 0)
        assert machine.told(NotReceived) == [NotReceived(NodeId("c-stranger"), 2, 1, 22)]
        assert machine.lost() == []
        other.send(framed(Kind.MESSAGE, encode(REQUEST)))
        until(lambda: machine.line)


@contextmanager
def little_memory() -> Iterator[None]:
    """This process gets 64 MiB more at most."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (32 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory has no such limit")
@pytest.mark.parametrize("kind", [Kind.PARCEL, Kind.OFFER])
def test_a_large_object_for_which_there_is_no_memory_ends_nothing(kind):
    size = 256 << 20  # the most; others may give back some memory meanwhile
    with victim() as (one, machine), stranger(one) as other, little_memory():
        other.greet().send(parcel(1, size, kind=kind) + framed(Kind.MESSAGE, encode(REQUEST)))
        until(lambda: machine.line)
        assert machine.lost() == []
        assert one._links.stores.held == 0


def test_what_is_offered_is_asked_for_when_there_is_room():
    size = 700_000
    with victim(incoming_bytes=1 << 20) as (one, machine), stranger(one) as other:
        other.greet().send(parcel(1, size) + parcel(2, size, kind=Kind.OFFER))
        until(lambda: len(machine.coming()) == 2)
        other.send(chunk(1, bytes(size)))
        assert other.frame() == (Kind.GRANT, CHUNK_HEAD.pack(2))
        assert one._links.stores.held == size
        other.send(chunk(2, bytes(size)))
        until(lambda: one._links.stores.held == 0)
        assert machine.told(NotReceived) == machine.lost() == []


def test_what_an_ended_link_had_offered_keeps_nobody_from_the_room():
    size = 700_000
    with (
        victim(incoming_bytes=1 << 20) as (one, machine),
        stranger(one) as first,
        stranger(one) as second,
        stranger(one) as third,
    ):
        first.greet("c-first").send(parcel(1, size))
        until(machine.coming)
        second.greet("c-second").send(parcel(1, size, kind=Kind.OFFER))
        until(lambda: len(machine.coming()) == 2)
        third.greet("c-third").send(parcel(1, size, kind=Kind.OFFER))
        until(lambda: len(machine.coming()) == 3)
        second.socket.close()
        first.socket.close()
        assert third.frame() == (Kind.GRANT, CHUNK_HEAD.pack(1))


def test_a_link_that_brings_slowly_does_not_hold_the_room_of_another():
    size = 700_000
    with victim(incoming_bytes=1 << 20) as (one, _), stranger(one) as slow, stranger(one) as quick:
        slow.greet("c-slow").send(parcel(1, size, kind=Kind.OFFER))
        assert slow.frame() == (Kind.GRANT, CHUNK_HEAD.pack(1))
        slow.send(chunk(1, bytes(1000)))
        quick.greet("c-quick").send(parcel(1, size, kind=Kind.OFFER))
        assert quick.frame() == (Kind.GRANT, CHUNK_HEAD.pack(1))


def test_what_one_that_stands_still_was_to_bring_is_given_up_and_the_link_stands():
    size = 700_000
    large = msgspec.structs.replace(FOUND, token=11)
    with victim(silent=milliseconds(100)) as (one, machine), stranger(one) as still:
        still.greet().send(parcel(1, size, large) + chunk(1, bytes(1000)))
        until(lambda: machine.told(NotReceived))
        assert machine.told(NotReceived) == [NotReceived(NodeId("c-stranger"), 1, 1, 11)]
        assert one._links.stores.held == 0
        still.send(chunk(1, bytes(size - 1000)) + framed(Kind.MESSAGE, encode(REQUEST)))
        until(lambda: machine.line)
        assert len(machine.told(NotReceived)) == 1
        assert machine.lost() == []
        assert one.statistics().links.dropped == {"nothing came of it for long": 1}


def test_what_had_not_left_a_link_when_it_ended_is_told():
    with victim() as (one, machine), stranger(one) as other:
        other.greet()
        until(machine.reached)
        large = [msgspec.structs.replace(FOUND, number=n, blob=bytes(16 << 20)) for n in (1, 2)]
        for message in large:
            give(one, message)
        other.socket.close()
        until(machine.lost)
        assert [fact.message for fact in machine.told(Unsent)] == large


# --- one link between two -------------------------------------------------------------------------


def test_a_new_link_of_the_same_process_takes_the_place_of_the_old_and_both_are_told():
    """Half an object lies on the old one, which nobody but the other side knows to be dead."""
    with victim() as (one, machine), stranger(one) as other, stranger(one) as again:
        other.greet().send(parcel(1, 1 << 20) + chunk(1, bytes(1000)))
        until(machine.coming)
        again.greet()
        until(machine.lost)
        until(lambda: len(machine.reached()) == 2)
        assert "another link was made" in other.goodbye().text
        assert len(one._links._links) == 1
        again.send(framed(Kind.MESSAGE, encode(REQUEST)))
        until(lambda: machine.line)


class Other:
    """A raw process that is dialled."""

    def __init__(self, name: str) -> None:
        self.name = NodeId(name)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self.listener.getsockname()[1])
        self._gate = Gate("snowmelt", Accounts.of_token(TOKEN))

    def accept(self) -> tuple[socket.socket, Hello]:
        """Lets in who has dialled; returns the link, and how it was greeted."""
        self.listener.settimeout(5)
        stream, _ = self.listener.accept()
        stream.settimeout(5)
        side = Listening(self._gate, self.name, Role.PEER, 1 << 20)
        hello = _payload(stream)
        stream.sendall(side.hear(Kind.HELLO, hello)[0])
        side.hear(Kind.PROVE, _payload(stream))
        return stream, heard(hello, Hello)


@contextmanager
def both_dialled(name: str) -> Iterator[tuple[Engine, Simple, socket.socket, Hello]]:
    """The engine has dialled one who may dial it too."""
    raw = Other(name)
    with raw.listener, victim() as (one, machine):
        one.call(Acquaintances({raw.name: raw.address}, (raw.name,)), 5)
        stream, hello = raw.accept()
        until(machine.reached)
        with stream:
            yield one, machine, stream, hello


@pytest.mark.parametrize("name", ["c-0", "c-z"])
def test_of_two_links_that_were_dialled_at_once_the_lesser_names_stands(name):
    with both_dialled(name) as (one, machine, dialled, _), stranger(one) as other:
        other.greet(name)
        until(lambda: len(one._links._links) == 2)
        machine.producer = NodeId(name)
        until(lambda: one.statistics().links.frames_in >= 2)
        one.call(Cancel(7, 1), 5)
        stands, spare = (other.socket, dialled) if name < "c-a" else (dialled, other.socket)
        stands.settimeout(5)
        assert b"pool.cancel" in stands.recv(1000)
        spare.sendall(framed(Kind.MESSAGE, encode(REQUEST)))
        until(lambda: machine.line)  # what was sent by the other is not lost
        spare.settimeout(5)
        assert spare.recv(1000) == b"", "it ends without a word"
        assert (machine.lost(), machine.reached()) == ([], [name])


def test_one_who_dials_since_it_has_seen_the_end_of_a_link_is_believed():
    with both_dialled("c-z") as (one, machine, _, hello), stranger(one) as other:
        other.greet("c-z", after=hello.nonce)
        until(machine.lost)
        until(lambda: len(machine.reached()) == 2)
        machine.producer = NodeId("c-z")
        one.call(Cancel(7, 1), 5)
        other.socket.settimeout(5)
        assert b"pool.cancel" in other.socket.recv(1000)


def _payload(stream: socket.socket) -> bytes:
    head = stream.recv(HEADER.size, socket.MSG_WAITALL)
    return stream.recv(HEADER.unpack(head)[-1], socket.MSG_WAITALL)


def test_a_machine_that_a_message_crashes_ends_its_engine_only():
    with victim() as (one, _), stranger(one) as other:
        other.greet().send(framed(Kind.MESSAGE, encode(SettleLoan(1, 1, (Interval(0, 1),)))))
        assert "left the pool" in other.goodbye().text


def test_nobody_is_dialled_because_another_process_said_an_address():
    with socket.create_server(("127.0.0.1", 0)) as trap, victim() as (one, machine):
        address = NodeId(f"127.0.0.1:{trap.getsockname()[1]}")
        give(one, FOUND, to=address)
        give(one, REQUEST, to=address)
        assert [fact.target for fact in machine.told(Unsent)] == [address, address]
        assert one.statistics().links.dropped == {"no route": 2}
        give(one, Call(1, Echo(b"hello")), to=address)  # as nodes are called
        trap.settimeout(5)
        trap.accept()[0].close()
