"""Carrying requests to an etcd that is there, or is not, or answers what no etcd would."""

import asyncio
import json
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from snowmelt.core.errors import BadOption
from snowmelt.core.names import Address
from snowmelt.protocols.etcd import (
    EtcdFailed,
    LeaseGrant,
    LeaseGranted,
    Read,
    Refresh,
    Refreshed,
    Row,
    Transact,
    Transacted,
    Trouble,
)
from snowmelt.runtime.etcd import EtcdClient, EtcdPlace
from snowmelt.runtime.etcd.client import EtcdConnection

ASK = Transact(1, (), (Read("a"),))
TOLD = {
    "header": {"cluster_id": "1", "revision": "7"},
    "succeeded": True,
    "responses": [{"response_range": {"kvs": [{"key": "L3gvYQ==", "mod_revision": "5"}]}}],
}


class Scripted(BaseHTTPRequestHandler):
    """Answers what the test says, one after another, and keeps what was asked."""

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        body = json.loads(self.rfile.read(length))
        self.server.asked.append((self.path, body, self.headers.get("Authorization")))
        status, answer = self.server.answers.pop(0)
        told = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_):
        pass


@pytest.fixture
def gateway():
    with ThreadingHTTPServer(("127.0.0.1", 0), Scripted) as server:
        server.daemon_threads = True
        server.asked, server.answers = [], []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def dial(gateway):
    lines = []

    def dialled(*more, **fields):
        own = Address("127.0.0.1", gateway.server_address[1])
        lines.append(EtcdConnection(EtcdPlace(endpoints=(*more, own), prefix="/x/", **fields)))
        return lines[-1]

    yield dialled
    for line in lines:
        line.close()


def test_an_answer_is_read_with_what_etcd_leaves_out(gateway, dial):
    gateway.answers = [(200, TOLD), (200, {"header": {"revision": "8"}}), (200, {"result": {}})]
    line = dial()
    assert line.carry(ASK) == Transacted(1, 7, True, ((Row("a", b"", 5),),))
    assert line.carry(ASK) == Transacted(1, 8, False, ())
    assert line.carry(Refresh(2, 9)) == Refreshed(2, 0)


def test_whole_numbers_may_be_strings(gateway, dial):
    gateway.answers = [(200, {"ID": "7587881", "TTL": "5"})]
    assert dial().carry(LeaseGrant(3, 5)) == LeaseGranted(3, 7587881, 5)


@pytest.mark.parametrize(
    ("status", "answer", "trouble"),
    [
        (404, {"error": "etcdserver: requested lease not found", "code": 5}, Trouble.NO_LEASE),
        (429, {"message": "etcdserver: mvcc: database space exceeded", "code": 8}, Trouble.FULL),
        (403, {"error": "etcdserver: permission denied", "code": 7}, Trouble.REFUSED),
        (503, {"error": "etcdserver: request timed out", "code": 14}, Trouble.UNKNOWN),
        (504, {"error": "context deadline exceeded", "code": 4}, Trouble.UNKNOWN),
        (502, b"<html>a proxy", Trouble.UNKNOWN),
    ],
)
def test_what_is_refused_is_told_from_what_may_have_happened(
    gateway, dial, status, answer, trouble
):
    gateway.answers = [(status, answer)]
    told = dial().carry(ASK)
    assert isinstance(told, EtcdFailed)
    assert (told.number, told.trouble) == (1, trouble)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[1]",
        b'{"header": {"revision": -1}}',
        b'{"header": {"revision": "9223372036854775808"}}',
        json.dumps({**TOLD, "responses": [{}] * 129}).encode(),
        b'{"header": {}, "responses": [{"response_range": {"kvs": [{"key": "%"}]}}]}',
        b'{"x": ' + b"[" * 200_000,
        b" " * (9 << 20),
    ],
)
def test_what_no_etcd_would_answer_is_as_good_as_no_answer(gateway, dial, answer):
    gateway.answers = [(200, answer), (200, TOLD)]
    line = dial()
    told = line.carry(ASK)
    assert isinstance(told, EtcdFailed)
    assert told.trouble is Trouble.UNKNOWN
    assert isinstance(line.carry(ASK), Transacted)


def test_an_endpoint_that_is_not_there_costs_nothing_when_another_is(gateway, dial):
    gateway.answers = [(200, TOLD)]
    nobody = Address("127.0.0.1", 1)
    assert isinstance(dial(nobody).carry(ASK), Transacted)


def test_when_nobody_is_there_the_answer_says_where_it_was_sought(gateway):
    del gateway
    line = EtcdConnection(EtcdPlace(endpoints=(Address("127.0.0.1", 1),), prefix="/x/"))
    told = line.carry(ASK)
    assert isinstance(told, EtcdFailed)
    assert told.trouble is Trouble.UNKNOWN
    assert "127.0.0.1:1: " in told.text


def test_a_token_is_fetched_once_and_again_when_it_is_not_taken_any_more(gateway, dial):
    ended = {"error": "etcdserver: invalid auth token", "code": 16}
    gateway.answers = [
        (200, {"token": "one"}),
        (200, TOLD),
        (401, ended),
        (200, {"token": "two"}),
        (200, TOLD),
    ]
    line = dial(user="u", password="p")
    assert isinstance(line.carry(ASK), Transacted)
    assert isinstance(line.carry(ASK), Transacted)
    assert [asked[2] for asked in gateway.asked] == [None, "one", "one", None, "two"]
    assert gateway.asked[0][:2] == ("/v3/auth/authenticate", {"name": "u", "password": "p"})


@pytest.mark.parametrize("token", ["a\r\nX: y", "\u2603"])
def test_a_token_that_no_head_can_have_is_as_good_as_no_answer(gateway, dial, token):
    gateway.answers = [(200, {"token": token}), (200, {"token": "one"}), (200, TOLD)]
    line = dial(user="u", password="p")
    told = line.carry(ASK)
    assert isinstance(told, EtcdFailed)
    assert told.trouble is Trouble.UNKNOWN
    assert isinstance(line.carry(ASK), Transacted)


def drips(listening):
    """An answer of which a byte comes now and then, and never all."""
    stream, _ = listening.accept()
    with stream, suppress(OSError):
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            stream.sendall(b" ")
            time.sleep(0.05)


async def test_an_answer_that_comes_by_drops_is_cut_off_in_time():
    told = asyncio.Queue()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        answering = threading.Thread(target=drips, args=(listening,))
        answering.start()
        place = EtcdPlace(endpoints=(Address(*listening.getsockname()),), prefix="/x/")
        client = EtcdClient(place, lambda _, answer: told.put_nowait(answer))
        client.ask(ASK)
        async with asyncio.timeout(20):
            answer = await told.get()
        assert isinstance(answer, EtcdFailed)
        assert answer.trouble is Trouble.UNKNOWN
        await client.close()
        await asyncio.to_thread(answering.join, 20)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("etcd://127.0.0.1:2379", "a prefix of its own"),
        ("etcd://127.0.0.1:2379/../x", "the prefix in etcd"),
        ("http://127.0.0.1:2379/x", "etcd://HOST:PORT"),
        ("etcd://u:p@127.0.0.1:2379/x", "etcd://HOST:PORT"),
        ("etcd://10.0.0.1:2379/x", "authority=FILE"),
        ("etcd://127.0.0.1:2379/x?cert=y", "authority, certificate, key"),
        ("etcd://127.0.0.1:2379/x?key=y", "authority=FILE as well"),
        ("etcd://127.0.0.1:2379/x?authority=/nowhere", "readable PEM files"),
        ("etcd://127.0.0.1/x", "host:port"),
    ],
)
def test_a_place_that_can_not_be_is_refused_with_what_is_allowed(url, says):
    with pytest.raises(BadOption, match=says.replace("?", r"\?")):
        EtcdPlace.read(url)


def test_a_user_needs_a_password():
    with pytest.raises(BadOption, match="both or none"):
        EtcdPlace.read("etcd://127.0.0.1:2379/x", user="u")
