"""The blocking and the async client, which must behave the same."""

import socket
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from client.fakes import Client, Talk, fake, greeted
from snowmelt.cli.local import LocalNode, free_port
from snowmelt.client.connection.url import read
from snowmelt.core.errors import (
    AccessDenied,
    BadOption,
    FrameError,
    OutcomeUnknown,
    SnowmeltError,
    TooLarge,
    Unreachable,
)
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.calling import Answer, Elsewhere
from snowmelt.protocols.echo import Remembered
from snowmelt.wire.codec import encode
from snowmelt.wire.framing import FRAME_BYTES_MAX, Kind, framed
from snowmelt.wire.greeting import Welcome, goodbye, said
from timing import TRIES, in_time

Connect = Callable[..., Client]


def fails(connect: Connect, where: str, timeout: float, body: bytes = b"?") -> SnowmeltError:
    """What a ping fails with, within its time and a little."""

    def failed() -> SnowmeltError:
        with connect(f"snowmelt://{where}") as client, pytest.raises(SnowmeltError) as raised:
            client.ping(body, timeout=timeout)
        return raised.value

    return in_time(max(0, timeout) + 3, failed)


def test_calls_are_answered(connect: Connect, node: LocalNode) -> None:
    with connect(node.url) as client:
        for size in (0, 1, 1000, 3_000_000):
            assert client.ping(bytes(size)) == bytes(size)
        status = client.status()
        assert (status.node, status.standing) == (node.name, "current")
        client.forget("n99")


def test_a_call_that_is_declined_raises_why(connect: Connect, node: LocalNode) -> None:
    with connect(node.url) as client:
        with pytest.raises(SnowmeltError, match="n1 is present in view") as raised:
            client.forget("n1")
        assert raised.value.definite
        with pytest.raises(BadOption, match="node id"):
            client.forget("not a name")


def test_statistics_come_from_the_process_and_survive_its_restart(
    connect: Connect, own_node: LocalNode
) -> None:
    with connect(own_node.url) as client:
        told = client.statistics()
        assert told.node == own_node.name
        own_node.kill()
        with pytest.raises(Unreachable):
            client.statistics(timeout=0.5)
        own_node.start()
        client.ping(timeout=20)
        assert client.statistics().seconds < told.seconds + 20


def test_statistics_from_who_does_not_answer_end_in_time(connect: Connect) -> None:
    with fake(greeted) as where, connect(f"snowmelt://{where}") as client:

        def asked() -> None:
            with pytest.raises(Unreachable):
                client.statistics(timeout=0.4)

        in_time(1, asked)
        client.close()
        with pytest.raises(Unreachable, match="closed"):
            client.statistics()


def test_nobody_listening_is_unreachable(connect: Connect) -> None:
    error = fails(connect, f"127.0.0.1:{free_port()}", 0.7)
    assert type(error) is Unreachable
    where = ("nobody listens at 127.0.0.1:", "Connect call failed ('127.0.0.1', ")
    assert any(one in str(error) for one in where)


@pytest.mark.parametrize("host", ["h" * 64 + ".example", "no-such-host.invalid"])
def test_a_host_that_is_none_is_unreachable(connect: Connect, host: str) -> None:
    with connect(f"snowmelt://{host}:4410") as client, pytest.raises(Unreachable):
        client.ping(timeout=0.5)


def never_greets(_: socket.socket) -> None:
    pass


def drips(one: socket.socket) -> None:
    for byte in said(Kind.WELCOME, Welcome("n1" * 30, 1 << 20)):
        one.sendall(bytes([byte]))
        time.sleep(0.1)  # it is the slowness that is tested


@pytest.mark.parametrize("talk", [never_greets, drips])
def test_who_never_greets_was_never_asked_so_it_is_definite(connect: Connect, talk: Talk) -> None:
    with fake(talk) as where:
        error = fails(connect, where, 0.6)
    assert type(error) is Unreachable
    assert error.definite


def closes(one: socket.socket) -> None:
    greeted(one)
    one.recv(1)
    one.shutdown(socket.SHUT_RDWR)


def answers_with(data: bytes) -> Talk:
    def talk(one: socket.socket) -> None:
        greeted(one)
        one.recv(1)
        one.sendall(data)

    return talk


def message(value: object) -> bytes:
    return framed(Kind.MESSAGE, encode(value))


@pytest.mark.parametrize(
    "talk",
    [
        greeted,
        closes,
        answers_with(b"\0" * 100),
        answers_with(framed(Kind.MESSAGE, b"\xc1")),
        answers_with(framed(Kind.MESSAGE, b"\x91" * 100_000)),
        answers_with(framed(Kind.HELLO, b"")),
        answers_with(goodbye(FrameError("you"))),
        answers_with(message(Answer(99, Remembered("another's")))),
        answers_with(message(Answer(1, Elsewhere(NodeId("n2"), Address("no host at all", 1))))),
        answers_with(message(Answer(1, Elsewhere(NodeId("n2"), Address("127.0.0.1", 99_999))))),
    ],
    ids=count(),
)
def test_who_greets_and_never_answers_leaves_the_outcome_unknown(
    connect: Connect, talk: Talk
) -> None:
    with fake(talk) as where:
        error = fails(connect, where, 0.6)
    assert type(error) is OutcomeUnknown
    assert isinstance(error, TimeoutError)
    assert not error.definite


def test_who_does_not_read_a_large_call_does_not_hold_the_caller(connect: Connect) -> None:
    release = threading.Event()

    def never_reads(one: socket.socket) -> None:
        greeted(one)
        release.wait(20)

    with fake(never_reads) as where:
        try:
            error = fails(connect, where, 0.8, bytes(32 << 20))
        finally:
            release.set()
    assert isinstance(error, Unreachable | OutcomeUnknown)  # a torn call can never take effect


@pytest.mark.parametrize(
    ("said_first", "kind"),
    [
        (goodbye(AccessDenied("the token is missing or wrong")), AccessDenied),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", FrameError),
        (b"S\x03\x02\0\0\0\0\0", FrameError),
    ],
)
def test_what_was_wrong_at_the_door_is_what_the_call_raises(
    connect: Connect, said_first: bytes, kind: type[SnowmeltError]
) -> None:
    with fake(lambda one: one.sendall(said_first)) as where:
        assert type(fails(connect, where, 0.6)) is kind


def test_a_token_that_is_wrong_is_denied(connect: Connect, node: LocalNode) -> None:
    with (
        connect(node.url, token="guess") as client,
        pytest.raises(AccessDenied, match="the token is missing or wrong"),
    ):
        client.ping(timeout=20)


def test_the_wrong_cluster_is_denied(connect: Connect, node: LocalNode) -> None:
    with (
        connect(node.url + "/rain") as client,
        pytest.raises(AccessDenied, match="cluster 'snowmelt', not 'rain'"),
    ):
        client.ping(timeout=20)


@pytest.mark.parametrize("talk", [None, never_greets, greeted, closes])
def test_another_address_is_asked_when_the_first_does_not_answer(
    connect: Connect, node: LocalNode, talk: Talk | None
) -> None:
    with fake(talk or never_greets) as where:
        first = where if talk else f"127.0.0.1:{free_port()}"

        def again() -> float:
            with connect(f"snowmelt://{first},127.0.0.1:{node.port}") as client:
                assert client.ping(b"hey", timeout=10) == b"hey"
                begin = time.monotonic()
                assert client.ping(b"again", timeout=10) == b"again"
                return time.monotonic() - begin

        assert any(again() < 0.4 for _ in range(TRIES)), "it remembers who answered"


def test_a_node_that_was_away_is_found_again(connect: Connect, own_node: LocalNode) -> None:
    with connect(own_node.url) as client:
        client.ping()
        own_node.kill()
        with pytest.raises(SnowmeltError):
            client.ping(timeout=0.5)
        own_node.start()
        assert client.ping(b"back?", timeout=20) == b"back?"


def test_a_body_above_the_limit_is_refused_at_once_and_harms_no_later_call(
    connect: Connect, node: LocalNode
) -> None:
    with connect(node.url) as client:
        begin = time.monotonic()
        with pytest.raises(TooLarge, match=f"the limit of a frame is {FRAME_BYTES_MAX}"):
            client.ping(bytes(FRAME_BYTES_MAX))
        assert time.monotonic() - begin < 5
        with pytest.raises(SnowmeltError):  # lasts long enough for anything left over to stir
            client.forget("n1", timeout=1)
        with fake(greeted) as where, connect(f"snowmelt://{where}") as other:
            with pytest.raises(TooLarge):
                other.ping(bytes(FRAME_BYTES_MAX))
            with pytest.raises(OutcomeUnknown):
                other.ping(timeout=1.2)
        assert client.ping(b"fine") == b"fine"


def test_a_closed_client_says_so(connect: Connect, node: LocalNode) -> None:
    with connect(node.url) as client:
        client.ping()
        client.close()
        client.close()
        with pytest.raises(Unreachable, match="closed"):
            client.ping()


@pytest.mark.parametrize("timeout", [float("nan"), float("inf"), 1e12])
def test_a_timeout_that_no_clock_counts_is_named(
    connect: Connect, node: LocalNode, timeout: float
) -> None:
    with connect(node.url) as client, pytest.raises(BadOption, match="allowed: seconds, at most"):
        client.ping(timeout=timeout)


@pytest.mark.parametrize("timeout", [0, -1, 1e-9])
def test_no_time_at_all_ends_at_once(connect: Connect, timeout: float) -> None:
    with fake(greeted) as where:
        assert isinstance(fails(connect, where, timeout), Unreachable | OutcomeUnknown)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:4410",
        "http://127.0.0.1:4410",
        "snowmelt://",
        "snowmelt://127.0.0.1",
        "snowmelt://127.0.0.1:99999",
        "snowmelt://127.0.0.1:4410,",
        "snowmelt://user:secret@127.0.0.1:4410",
        "snowmelt://[::1:4410",
        "snowmelt://[zz]:4410",
        "snowmelt://127.0.0.1:4410?token=secret",
        "snowmelt://127.0.0.1:4410?authority",
        "snowmelt://127.0.0.1:4410?authority=/no/such/file",
        "snowmelt://127.0.0.1:4410?certificate=/no/such/file",
    ],
)
def test_a_url_that_is_wrong_says_what_is_allowed(connect: Connect, url: str) -> None:
    with pytest.raises(BadOption, match="allowed: "), connect(url) as client:
        client.ping(timeout=0.2)


def test_a_token_does_not_travel_in_clear(connect: Connect) -> None:
    with pytest.raises(BadOption, match="nothing in clear"):
        connect("snowmelt://10.1.2.3:4410", token="secret")


def test_a_token_travels_in_clear_where_the_url_says_so(connect: Connect) -> None:
    with connect("snowmelt://10.1.2.3:4410?tls=no", token="secret"):
        pass
    for wrong in ("tls=yes", "tls=no&authority=/no/such/file"):
        with pytest.raises(BadOption, match=r"\?tls= is "):
            connect(f"snowmelt://10.1.2.3:4410?{wrong}")


def test_a_token_may_lie_in_a_file_that_the_environment_names(
    connect: Connect, node: LocalNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    monkeypatch.setenv("SNOWMELT_TOKEN_FILE", str(file))
    with pytest.raises(BadOption, match=r"SNOWMELT_TOKEN_FILE is .*allowed: a readable text file"):
        connect(node.url)
    file.write_text("secret\n")
    with (
        connect(node.url) as client,
        pytest.raises(AccessDenied, match="the token is missing or wrong"),
    ):
        client.ping()
    monkeypatch.setenv("SNOWMELT_TOKEN", "another")
    assert read(node.url).credentials.token == "another"
