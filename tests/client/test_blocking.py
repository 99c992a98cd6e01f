"""What only the blocking client has: threads that share it, and no thread of its own."""

import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

import snowmelt
from client.fakes import fake, greeted
from snowmelt.cli.local import LocalNode
from snowmelt.client.connection import blocking
from snowmelt.client.connection.blocking import BlockingClient, NodeConnection
from snowmelt.client.connection.clients import CLOSING_SECONDS
from snowmelt.client.connection.url import read
from snowmelt.core.errors import CallerError, Closed, OutcomeUnknown
from snowmelt.protocols.echo import Echo


def test_it_starts_no_thread(node: LocalNode) -> None:
    before = threading.enumerate()
    with snowmelt.connect(node.url) as client:
        client.ping()
        assert threading.enumerate() == before
    assert threading.enumerate() == before


def test_threads_that_share_a_client_each_get_their_own_answer(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as client, ThreadPoolExecutor(8) as pool:
        bodies = [b"%d" % at for at in range(800)]
        assert list(pool.map(client.ping, bodies)) == bodies


def test_a_client_has_one_call_at_a_time() -> None:
    with (
        fake(greeted) as where,
        closing(BlockingClient(read(f"snowmelt://{where}"))) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        long = pool.submit(client.call, Echo(b""), 0.5)
        while not client._calling:
            assert not long.done()
        with pytest.raises(CallerError, match="in the middle of a call"):
            client.call(Echo(b""), 0.2)
        with pytest.raises(OutcomeUnknown, match="in the time given"):
            long.result(5)  # it was not disturbed
        with pytest.raises(OutcomeUnknown):
            client.call(Echo(b""), 0.1)


def test_a_client_closed_in_the_middle_of_a_call_ends_it_and_its_connections() -> None:
    with fake(greeted) as where, ThreadPoolExecutor(1) as pool:
        client = BlockingClient(read(f"snowmelt://{where}"))
        call = pool.submit(client.call, Echo(b""), 30.0)
        while not client._lines:
            assert not call.done()
        client.close()
        with pytest.raises(OutcomeUnknown, match="closed before the answer came"):
            call.result(5)
        assert client._lines == {}
        with pytest.raises(Closed):
            client.call(Echo(b""), 0.1)
        assert client._lines == {}


def test_closing_lets_calls_end_that_are_answered_soon(node: LocalNode) -> None:
    def calls(client: snowmelt.Cluster) -> int:
        for at in range(1_000_000):
            try:
                assert client.ping(b"%d" % at) == b"%d" % at
            except Closed:
                return at
        raise AssertionError("it was never closed")

    for _ in range(10):
        with snowmelt.connect(node.url) as client, ThreadPoolExecutor(8) as pool:
            under_way = [pool.submit(calls, client) for _ in range(8)]
            time.sleep(0.05)
            client.close()
            for one in under_way:  # none is unknown
                assert one.result(5) >= 0


def test_closing_ends_calls_that_would_wait_longer() -> None:
    with fake(greeted) as where, ThreadPoolExecutor(1) as pool:
        client = snowmelt.connect(f"snowmelt://{where}")
        call = pool.submit(client.ping, timeout=30.0)
        while not client._client._lent:
            assert not call.done()
        client.close()
        with pytest.raises(OutcomeUnknown, match="closed before the answer came"):
            call.result(CLOSING_SECONDS + 5)


def test_a_client_interrupted_in_the_middle_of_a_step_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with fake(greeted) as where, closing(BlockingClient(read(f"snowmelt://{where}"))) as client:
        with pytest.raises(OutcomeUnknown):
            client.call(Echo(b""), 0.1)
        monkeypatch.setattr(NodeConnection, "send", interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.call(Echo(b""), 5.0)
        assert client.closed
        assert client._lines == {}


def test_it_works_in_a_process_with_thousands_of_descriptors(node: LocalNode) -> None:
    more = [os.dup(0) for _ in range(1100)]
    try:
        with snowmelt.connect(node.url) as client:
            assert client.ping(b"hey") == b"hey"
            (idle,) = client._client._idle
            assert max(line.socket.fileno() for line in idle._lines.values()) > 1024
    finally:
        for one in more:
            os.close(one)


def test_a_handler_of_signals_may_call_while_its_thread_does() -> None:
    with fake(greeted) as where, snowmelt.connect(f"snowmelt://{where}") as client:
        called = []

        def handle(*_: object) -> None:
            with pytest.raises(OutcomeUnknown):
                client.ping(timeout=0.1)
            called.append(True)

        before = signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            with pytest.raises(OutcomeUnknown):
                client.ping(timeout=0.5)
        finally:
            signal.signal(signal.SIGALRM, before)
        assert called == [True]


def test_a_node_that_hangs_up_without_a_word_may_want_tls() -> None:
    with (
        fake(lambda one: one.shutdown(socket.SHUT_RDWR)) as where,
        snowmelt.connect(f"snowmelt://{where}") as client,
        pytest.raises(snowmelt.Unreachable, match=r"closed the connection; if it uses TLS, add \?"),
    ):
        client.ping(timeout=0.5)


def test_a_dial_that_the_end_of_the_call_cuts_hides_no_failure_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dials: list[float] = []

    def dial(*_: object) -> None:
        dials.append(time.monotonic())
        if len(dials) == 1:
            raise ConnectionResetError("it hung up")
        time.sleep(0.6)  # as long as the call may take, and more
        raise TimeoutError("timed out")

    monkeypatch.setattr(blocking, "NodeConnection", dial)
    with (
        snowmelt.connect("snowmelt://127.0.0.1:1") as client,
        pytest.raises(snowmelt.Unreachable, match="it hung up"),
    ):
        client.ping(timeout=0.5)
    assert len(dials) == 2
