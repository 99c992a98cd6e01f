"""What only the blocking client has: threads that share it, and no thread of its own."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

import snowmelt
from client.fakes import fake, greeted
from snowmelt.cli.local import LocalNode
from snowmelt.client.connection.blocking import BlockingClient
from snowmelt.client.connection.url import read
from snowmelt.core.errors import OutcomeUnknown, Unreachable
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


def test_waiting_for_a_turn_counts_to_the_call_s_time_and_is_definite() -> None:
    with (
        fake(greeted) as where,
        closing(BlockingClient(read(f"snowmelt://{where}"))) as client,
        ThreadPoolExecutor(2) as pool,
    ):
        long = pool.submit(client.call, Echo(b""), 1.0)
        while not client._calling:
            assert not long.done()
        begin = time.monotonic()
        with pytest.raises(Unreachable, match=r"other threads used this client for all of 0\.2 s"):
            client.call(Echo(b""), 0.2)
        with pytest.raises(OutcomeUnknown):
            client.call(Echo(b""), 1.2)  # most of it goes by until the other is done
        assert time.monotonic() - begin < 2.0
        with pytest.raises(OutcomeUnknown):
            long.result(5)


def test_a_client_closed_while_another_thread_waits_its_turn_opens_nothing_more() -> None:
    with fake(greeted) as where, ThreadPoolExecutor(2) as pool:
        client = BlockingClient(read(f"snowmelt://{where}"))
        calls = [pool.submit(client.call, Echo(b""), 0.5) for _ in range(2)]
        while not client._calling:
            assert not calls[0].done()
        client.close()
        errors = [type(call.exception(5)) for call in calls]
        assert OutcomeUnknown in errors
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
