"""etcd: its lock service, spoken to by gRPC as its own client does, with a lease for each waiter.

One member. The messages are few and flat, so they are written here as bytes, and no generated code
is needed. The lock is granted when all who asked before have gone; the server waits for just the
one before, so nobody is woken in vain. `etcd` flushes each grant and each release to the disk, as
it comes; `etcd-memory` has its disk in memory.

The lease lasts longer than a turn, so nothing renews it.
"""

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import grpc
from benchmarks.peers.baton.clients import Hold, LockPeer, Messages
from benchmarks.peers.baton.folders import WRITES, Data, Place
from benchmarks.peers.comparison import WAIT_SECONDS, Peer
from benchmarks.peers.processes import Server, program, said_by

from snowmelt.cli.local import free_ports

LEASE_SECONDS: Final = 600
COUNTED: Final = ("grpc_server_msg_received_total{", "grpc_server_msg_sent_total{")


def lock(name: str, place: Place) -> Peer:
    return LockPeer(
        name=name,
        promise=f"who asked first; ends with its lease; {WRITES[place]}",
        service=Etcd(place),
        above=place == "disk",
        connect=lambda service: partial(EtcdClient, port=service.port),
        messages=Etcd.messages,
    )


class Etcd:
    """A cluster of one member."""

    def __init__(self, place: Place) -> None:
        self.version = ""
        self.port, self._peers_port = free_ports(2)
        self._data = Data(place)
        self._server: Server | None = None

    @property
    def pids(self) -> list[int]:
        return [] if self._server is None else self._server.pids

    def start(self, folder: Path) -> None:
        etcd = program("etcd", "etcd-server")
        self.version = "etcd " + said_by(etcd, "--version").split()[2]
        here, peers = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self._peers_port}"
        command = [etcd, "--name", "one", "--data-dir", str(self._data.make(folder))]
        command += ["--listen-client-urls", here, "--advertise-client-urls", here]
        command += ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]
        command += ["--initial-cluster", f"one={peers}", "--logger", "zap", "--log-level", "error"]
        self._server = Server(command, folder, self.port)
        self._server.start()
        EtcdClient(0, self.port).close()  # it answers once it leads itself

    def messages(self) -> Messages:
        where = f"http://127.0.0.1:{self.port}/metrics"
        with urllib.request.urlopen(where, timeout=WAIT_SECONDS) as page:
            lines = page.read().decode().splitlines()
        return Messages(sum(int(float(line.split()[-1])) for line in lines if counts(line)))

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
        self._data.remove()


class EtcdClient:
    """One channel for all threads of a process."""

    def __init__(self, number: int, port: int) -> None:
        del number
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.grant = self.channel.unary_unary("/etcdserverpb.Lease/LeaseGrant")
        self.revoke = self.channel.unary_unary("/etcdserverpb.Lease/LeaseRevoke")
        self.lock = self.channel.unary_unary("/v3lockpb.Lock/Lock")
        self.unlock = self.channel.unary_unary("/v3lockpb.Lock/Unlock")
        self.leases = [self.new_lease()]

    def new_lease(self) -> int:
        asked = number_field(1, LEASE_SECONDS)
        said = fields(self.grant(asked, timeout=WAIT_SECONDS, wait_for_ready=True))
        lease = said[2]
        assert isinstance(lease, int)
        return lease

    def waiter(self, lock: str) -> Hold:
        self.leases.append(self.new_lease())
        asked = bytes_field(1, lock.encode()) + number_field(2, self.leases[-1])
        return partial(self.hold, asked)

    @contextmanager
    def hold(self, asked: bytes) -> Iterator[None]:
        key = fields(self.lock(asked, timeout=WAIT_SECONDS))[2]
        assert isinstance(key, bytes)
        yield
        self.unlock(bytes_field(1, key), timeout=WAIT_SECONDS)

    def close(self) -> None:
        for lease in self.leases:
            self.revoke(number_field(1, lease), timeout=WAIT_SECONDS)
        self.channel.close()


def counts(line: str) -> bool:
    """Whether the line of the metrics counts messages of the lock service, and not this asking."""
    return line.startswith(COUNTED) and "v3lockpb.Lock" in line


def number_field(number: int, value: int) -> bytes:
    """A field of a protobuf message.

    >>> number_field(1, 600).hex()
    '08d804'
    """
    return varint(number << 3) + varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    """Such a field.

    >>> bytes_field(1, b"ab").hex()
    '0a026162'
    """
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def fields(message: bytes) -> dict[int, int | bytes]:
    """The numbers and the bytes of a message, by their fields' numbers.

    >>> fields(bytes_field(1, b"ab") + number_field(2, 600))
    {1: b'ab', 2: 600}
    """
    found: dict[int, int | bytes] = {}
    at = 0
    while at < len(message):
        tag, at = read_varint(message, at)
        value, at = read_varint(message, at)
        if tag & 7 == 2:
            found[tag >> 3] = message[at : at + value]
            at += value
        else:
            found[tag >> 3] = value
    return found


def read_varint(message: bytes, at: int) -> tuple[int, int]:
    """The number that begins there, and where the next thing begins."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
