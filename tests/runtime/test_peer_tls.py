"""Links between processes over TLS: what passes, who is let in, and what strangers may try.

A link whose two ends are on loopback stays plain, so these use the machine's own address.
"""

import datetime as dt
import os
import random
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import msgspec
import pytest

from runtime.peering import GET, Simple, engine, know, put
from runtime.test_peer_hostile import FOUND, REQUEST, Stranger, chunk, hello, parcel
from runtime.test_tls import TOKEN, Papers
from snowmelt.core.errors import BadOption
from snowmelt.core.instant import milliseconds
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.pool.calls import Acquaintances
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.peer import Engine, PeerConfig
from snowmelt.runtime.peer.limits import PeerLimits
from snowmelt.runtime.peer.link import Link
from snowmelt.wire.codec import encode
from snowmelt.wire.framing import Kind, framed
from timing import until

TOKEN_ALONE = Credentials(token=TOKEN)


def own_address() -> str:
    """An address of this machine that is not on loopback; without one the test is skipped."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("198.51.100.1", 9))  # which sends nothing
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(asking.getsockname()[0])


@pytest.fixture(scope="module")
def host() -> str:
    return own_address()


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path)


@contextmanager
def listening(host: str, papers: Papers, **limits: Any) -> Iterator[tuple[Engine, Simple]]:
    """One that others reach over TLS alone."""
    config = {"listen": Address(host, 0), "credentials": papers.of("c-here")}
    with engine("c-a", limits=PeerLimits(**limits), **config) as pair:
        yield pair


def reader(papers: Papers, token: str = TOKEN) -> Credentials:
    """Of a process that only dials: it has no certificate."""
    return Credentials(token=token, authority=papers.authority)


def links(of: Engine) -> list[Link]:
    return list(of._links._links)


def is_served(to: Engine, machine: Simple, papers: Papers) -> None:
    with engine("c-good", credentials=reader(papers)) as (taker, taking):
        know(taker, taking, to)
        machine.line.clear()
        to.call(put(b"x"), 5)
        assert taker.call(GET, 5).blob == b"x"


# --- what passes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 16_384, 65_535, 65_536, (3 << 20) + 1, 64 << 20])
def test_a_body_arrives_as_it_was_sent(host: str, papers: Papers, size: int) -> None:
    with (
        listening(host, papers) as (giver, _),
        engine("c-b", credentials=reader(papers)) as (taker, machine),
    ):
        know(taker, machine, giver)
        body = os.urandom(size)
        giver.call(put(body), 5)
        got = taker.call(GET, 30)
        assert got.blob == body
        for end in (giver, taker):
            (link,) = links(end)
            assert isinstance(link.socket, ssl.SSLSocket)
            assert link.socket.version() in ("TLSv1.2", "TLSv1.3")


def test_one_that_shows_a_certificate_is_served_too_whatever_name_stands_in_it(
    host: str, papers: Papers
) -> None:
    with (
        listening(host, papers) as (giver, _),
        engine("c-b", credentials=papers.of("anything")) as (taker, machine),
    ):
        know(taker, machine, giver)
        giver.call(put(b"x"), 5)
        assert taker.call(GET, 10).blob == b"x"
        (link,) = links(giver)
        assert link.socket.getpeercert()["subjectAltName"] == (("DNS", "anything"),)


def test_on_loopback_links_are_plain_and_nobody_needs_a_certificate(papers: Papers) -> None:
    with (
        engine("c-a", credentials=reader(papers)) as (giver, _),
        engine("c-b", credentials=reader(papers)) as (taker, machine),
    ):
        know(taker, machine, giver)
        giver.call(put(b"x"), 5)
        assert taker.call(GET, 5).blob == b"x"
        assert not isinstance(links(taker)[0].socket, ssl.SSLSocket)


@pytest.mark.parametrize("everywhere", ["0.0.0.0", "::"])
def test_one_that_listens_everywhere_speaks_tls_but_with_loopback(
    host: str, papers: Papers, everywhere: str
) -> None:
    config = {"listen": Address(everywhere, 0), "advertise": Address(host, 0)}
    with engine("c-a", credentials=papers.of("c-here"), **config) as (giver, machine):
        port = giver.address.port
        assert giver.address == Address(host, port)
        for at, secure in ((host, True), ("127.0.0.1", False)):
            with engine("c-b", credentials=reader(papers)) as (taker, taking):
                taking.producer = NodeId("c-a")
                told = {taking.producer: Address(at, port)}
                taker.call(Acquaintances(told, (taking.producer,)), 5)
                machine.line.clear()
                giver.call(put(b"x"), 5)
                assert taker.call(GET, 5).blob == b"x"
                assert isinstance(links(taker)[0].socket, ssl.SSLSocket) is secure


def test_what_tls_has_read_and_not_given_out_is_had_before_the_next_wait(
    host: str, papers: Papers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a chunk and the message after it come in one record, and a turn ends between."""
    monkeypatch.setattr("snowmelt.runtime.peer.link.TURN_BYTES", 1)
    with listening(host, papers) as (one, machine), secure_stranger(one, papers) as other:
        other.greet()
        until(machine.reached)
        wire = parcel(1, 70_000) + chunk(1, bytes(70_000))
        other.send(wire[:60_000])
        until(lambda: links(one)[0].bytes_in > 60_000)
        other.send(wire[60_000:] + framed(Kind.MESSAGE, encode(REQUEST)) * 3)
        until(lambda: len(machine.line) == 3)


def test_bytes_torn_anywhere_make_the_same_messages(host: str, papers: Papers) -> None:
    wire = framed(Kind.MESSAGE, encode(REQUEST)) * 3 + parcel(5, 100_000)
    wire += (
        chunk(5, bytes(60_000)) + chunk(5, bytes(40_000)) + framed(Kind.MESSAGE, encode(REQUEST))
    )
    chance = random.Random(4)
    with listening(host, papers) as (one, machine):
        for _ in range(5):
            with secure_stranger(one, papers) as other:
                other.greet()
                at, before = 0, len(machine.line)
                while at < len(wire):
                    step = chance.choice([1, 7, 11, 100, 16_384, 30_000])
                    other.send(wire[at : at + step])
                    at += step
                until(lambda before=before: len(machine.line) == before + 4)
                assert one._links.stores.held == 0


def test_one_who_reads_late_has_it_all(host: str, papers: Papers) -> None:
    """So much that the system takes no more in the middle of a record."""
    with listening(host, papers) as (one, machine), secure_stranger(one, papers) as other:
        other.greet()
        until(machine.reached)
        size = 24 << 20
        one.call(put(bytes(size)), 5)
        other.send(framed(Kind.MESSAGE, encode(REQUEST)))
        kind, payload = other.frame()
        assert kind is Kind.OFFER
        other.send(framed(Kind.GRANT, payload[:4]))
        until(lambda: links(one)[0].blocked)
        came = 0
        while came < size:
            kind, payload = other.frame()
            came += len(payload) - 4 if kind is Kind.CHUNK else 0
        assert came == size
        until(lambda: not links(one)[0].blocked)


# --- who is let in --------------------------------------------------------------------------------


def expired(papers: Papers, folder: Path) -> Credentials:
    past = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    issued = papers._authority.issue_cert("c-old", not_after=past)
    certificate, key = folder / "old.crt", folder / "old.key"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    return Credentials(token=TOKEN, authority=papers.authority, certificate=certificate, key=key)


def missed(taker: Engine, machine: Simple) -> str:
    until(machine.lost)
    return str(taker.last_failure)


def test_tls_does_not_replace_the_token(host: str, papers: Papers) -> None:
    with (
        listening(host, papers) as (one, _),
        engine("c-b", credentials=reader(papers, "guess")) as (taker, machine),
    ):
        know(taker, machine, one)
        assert "token is missing or wrong: c-a has another" in missed(taker, machine)


def test_who_listens_with_what_is_not_good_is_not_believed(
    host: str, papers: Papers, tmp_path: Path
) -> None:
    others = Papers(tmp_path, "others").of("c-other")
    here = {"listen": Address(host, 0)}
    for shown, text in (
        (others, "its certificate is not good here: self-signed certificate in certificate chain"),
        (expired(papers, tmp_path), "its certificate is not good here: certificate has expired"),
        (TOKEN_ALONE, "wrong version number"),
    ):
        with (
            engine("c-a", credentials=shown, **here) as (one, _),
            engine("c-b", credentials=reader(papers)) as (taker, machine),
        ):
            know(taker, machine, one)
            assert missed(taker, machine) == f"TLS with c-a failed: {text}"
            assert taker.statistics().links.dropped["dial failed: HandshakeError"] >= 1
            until(lambda one=one: one.statistics().links.links == 0)
            until(lambda one=one: one.last_failure)


def test_who_dials_with_what_is_not_good_is_not_let_in(
    host: str, papers: Papers, tmp_path: Path
) -> None:
    others = Papers(tmp_path, "others").of("c-other")
    mixed = msgspec.structs.replace(others, authority=papers.authority)
    with listening(host, papers) as (one, good):
        for shown, text in (
            (mixed, "TLS failed: its certificate is not good here: unable to get local issuer"),
            (expired(papers, tmp_path), "certificate has expired"),
            (others, "TLS failed: tlsv1 alert unknown ca"),
            (TOKEN_ALONE, "links to this process are TLS; give authority=FILE in the URL"),
        ):
            with engine("c-b", credentials=shown) as (taker, machine):
                know(taker, machine, one)
                assert missed(taker, machine)
                until(lambda text=text: text in str(one.last_failure))
                if shown is TOKEN_ALONE:
                    assert text in str(taker.last_failure)
        until(lambda: one.statistics().links.closed["HandshakeError"] >= 4)
        assert good.reached() == []
        is_served(one, good, papers)


@pytest.mark.parametrize("terminates", [False, True])
def test_a_proof_is_good_for_the_certificate_it_was_made_with_alone(
    host: str, papers: Papers, *, terminates: bool
) -> None:
    """One with a certificate and no token can't stand in between; one that only carries may."""
    with (
        listening(host, papers) as (one, _),
        between(host, one.address, papers if terminates else None) as place,
        engine("c-b", credentials=reader(papers)) as (taker, machine),
    ):
        machine.producer = NodeId("c-a")
        taker.call(Acquaintances({machine.producer: place}, (machine.producer,)), 5)
        if terminates:
            assert "token is missing or wrong: c-a has another" in missed(taker, machine)
        else:
            one.call(put(b"x"), 5)
            assert taker.call(GET, 5).blob == b"x"


@contextmanager
def between(host: str, target: Address, papers: Papers | None) -> Iterator[Address]:
    """Passes bytes on; with papers it ends the TLS of both sides."""
    streams: list[socket.socket] = []
    shown = papers.of("c-between") if papers else None

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)

    def accept() -> None:
        with suppress(OSError):
            while True:
                near = listener.accept()[0]
                far = socket.create_connection((target.host, target.port), 5)
                if shown is not None:
                    near = shown.server_context().wrap_socket(near, server_side=True)
                    far = shown.client_context().wrap_socket(far)
                streams.extend((near, far))
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    with socket.create_server((host, 0)) as listener:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield Address(host, listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)
            for stream in streams:
                with suppress(OSError):
                    stream.shutdown(socket.SHUT_RDWR)
                stream.close()


# --- strangers ------------------------------------------------------------------------------------


@contextmanager
def plain_stranger(to: Engine) -> Iterator[Stranger]:
    other = Stranger(to)
    try:
        yield other
    finally:
        other.socket.close()


@contextmanager
def secure_stranger(to: Engine, papers: Papers) -> Iterator["Secured"]:
    other = Secured(to, papers)
    try:
        yield other
    finally:
        other.socket.close()


class Secured(Stranger):
    """The same, within TLS."""

    def __init__(self, to: Engine, papers: Papers) -> None:
        super().__init__(to)
        context = reader(papers).client_context()
        assert context is not None
        try:
            self.socket = context.wrap_socket(self.socket)
        except BaseException:
            self.socket.close()
            raise


def client_hello() -> bytes:
    """The first bytes of a good handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


FIRST_BYTES: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "half a handshake": lambda: client_hello()[:100],
    "a handshake that stops": client_hello,
    "a greeting in plain": hello,
    "another protocol": lambda: b"GET / HTTP/1.1\r\n\r\n",
    "noise after the first byte": lambda: b"\x16" + bytes(range(256)),
    "a record without end": lambda: b"\x16\x03\x01\xff\xff" + bytes(70_000),
}


@pytest.mark.parametrize("case", FIRST_BYTES)
def test_a_stranger_costs_a_link_for_the_time_of_a_greeting_and_nobody_else(
    host: str, papers: Papers, case: str
) -> None:
    with listening(host, papers, greeting=milliseconds(300)) as (one, machine):
        with plain_stranger(one) as other:
            begun = monotonic()
            with suppress(OSError):
                other.send(FIRST_BYTES[case]())
            with suppress(OSError):
                while other.socket.recv(1 << 16):
                    pass
            assert monotonic() - begun < 10
        until(lambda: one.statistics().links.links == 0)
        assert one.last_failure is not None
        closed = one.statistics().links.closed
        assert closed.get("HandshakeError", 0) + closed.get("FrameError", 0) == 1
        assert machine.reached() == []
        is_served(one, machine, papers)


def test_a_greeting_in_plain_is_answered_in_plain(host: str, papers: Papers) -> None:
    with listening(host, papers) as (one, _), plain_stranger(one) as other:
        other.send(hello())
        assert "links to this process are TLS" in other.goodbye().text


def test_within_tls_a_word_that_does_not_fit_ends_the_link_with_a_reason(
    host: str, papers: Papers
) -> None:
    with listening(host, papers) as (one, machine), secure_stranger(one, papers) as other:
        other.greet().send(parcel(1, 9) + parcel(1, 9, FOUND))
        assert "stream 1 is open" in other.goodbye().text
        until(machine.lost)
        is_served(one, machine, papers)


def test_those_who_are_gone_before_they_are_accepted_do_no_harm(host: str, papers: Papers) -> None:
    reset = struct.pack("ii", 1, 0)
    with listening(host, papers) as (one, machine):
        for at in range(60):
            with plain_stranger(one) as other:
                other.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                other.send(client_hello()[: at * 10] or b"\x16")
        is_served(one, machine, papers)
        until(lambda: one.statistics().links.links == 0)


def test_many_who_knock_at_once_are_all_let_in(host: str, papers: Papers) -> None:
    with listening(host, papers) as (one, machine), ExitStack() as stack:
        knocking = [stack.enter_context(plain_stranger(one)) for _ in range(40)]
        for other in knocking:
            other.send(client_hello())
        for other in knocking:
            assert other.socket.recv(1) == b"\x16"  # its part of the handshake
        is_served(one, machine, papers)


def test_a_listener_that_says_nothing_costs_a_dial_its_time(host: str, papers: Papers) -> None:
    with (
        socket.create_server((host, 0)) as silent,
        engine("c-b", credentials=reader(papers), limits=PeerLimits(dial=milliseconds(200))) as (
            taker,
            machine,
        ),
    ):
        begun = monotonic()
        machine.producer = NodeId("c-a")
        place = Address(host, silent.getsockname()[1])
        taker.call(Acquaintances({machine.producer: place}, (machine.producer,)), 5)
        assert "timed out" in missed(taker, machine)
        assert monotonic() - begun < 10


# --- refusals -------------------------------------------------------------------------------------


def test_where_may_not_be_listened_is_said(papers: Papers) -> None:
    full = papers.of("c-here")
    no_key = msgspec.structs.replace(full, key=None)
    files = "certificate=FILE in the URL and key=FILE in the URL"
    for shown, missing in (
        (Credentials(), "give a token"),
        (reader(papers), f"give {files}"),
        (reader(papers, ""), f"give a token and {files}"),
        (papers.of("c-here", token=""), "give a token"),
        (no_key, "give key=FILE in the URL"),
    ):
        config = PeerConfig(name=NodeId("c-a"), listen=Address("10.0.0.5", 0), credentials=shown)
        with pytest.raises(BadOption, match=f"an address on loopback, or {missing}$"):
            config.checked()
    for shown in (TOKEN_ALONE, full):
        listen = Address("10.0.0.5", 0)
        PeerConfig(name=NodeId("c-a"), listen=listen, credentials=shown).checked()
    for everywhere in ("0.0.0.0", "::"):
        config = PeerConfig(name=NodeId("c-a"), listen=Address(everywhere, 0), credentials=full)
        with pytest.raises(BadOption, match="advertise is None; allowed: host:port by which"):
            config.checked()


def test_a_file_without_a_certificate_is_named(papers: Papers, tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.pem"
    garbage.write_bytes(b"garbage")
    shown = msgspec.structs.replace(papers.of("c-here"), certificate=garbage)
    with pytest.raises(BadOption, match="TLS files is"), engine("c-a", credentials=shown):
        sleep(0)
