"""The simulated etcd and a real one, asked the same: no machine can tell them apart.

The real half needs an etcd on this machine (Debian: `apt-get install etcd-server`), and is left out
with a word where there is none.
"""

import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from itertools import count

import msgspec
import pytest
import trustme

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import Address
from snowmelt.protocols.etcd import (
    CompareValue,
    DeleteKey,
    EtcdFailed,
    LeaseGrant,
    LeaseGranted,
    PutKey,
    Read,
    Refresh,
    Refreshed,
    Revoke,
    Revoked,
    Row,
    Transact,
    Transacted,
    Trouble,
    Unchanged,
)
from snowmelt.protocols.membership.records import BATONS, CLUSTER, LEADER, Records
from snowmelt.runtime.etcd import EtcdPlace
from snowmelt.runtime.etcd.client import EtcdConnection
from snowmelt_world.etcd import Model

START_SECONDS = 20.0
READ = Transact(1, (), (Read("x"),))


class Simulated:
    """The model, and a clock that leaps."""

    def __init__(self):
        self.model, self.now = Model(), Instant(0)

    def ask(self, request):
        self.model.expire(self.now)
        return self.model.answer(request, self.now)

    def wait_for_end(self, length):
        self.now = later(self.now, seconds(length))


class Real:
    """A prefix of its own in a real one."""

    def __init__(self, address, prefix):
        place = EtcdPlace(endpoints=(address,), prefix=prefix)
        self._line = EtcdConnection(place)

    def ask(self, request):
        return self._line.carry(request)

    def close(self):
        self._line.close()

    def wait_for_end(self, length):
        time.sleep(length + 1.5)  # it looks every half a second


def free_ports(wanted):
    sockets = [socket.socket() for _ in range(wanted)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@contextmanager
def running(folder, *options, **fields):
    """An etcd of one member; yields a place in it."""
    program = shutil.which("etcd")
    if program is None:
        pytest.skip("no etcd is installed: the simulated one was not compared with a real one")
    port, peer_port = free_ports(2)
    scheme = "https" if fields.get("authority") else "http"
    client, peer = f"{scheme}://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    process = subprocess.Popen(
        [
            *(program, "--name", "m1", "--data-dir", str(folder / "data")),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"m1={peer}", "--initial-cluster-state", "new"),
            *options,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    place = EtcdPlace(endpoints=(Address("127.0.0.1", port),), prefix="/up/", **fields)
    try:
        line, end = EtcdConnection(place), time.monotonic() + START_SECONDS
        while isinstance(line.carry(READ), EtcdFailed):
            assert time.monotonic() < end, "etcd does not start"
            assert process.poll() is None, "etcd has ended"
            time.sleep(0.05)
        line.close()
        yield place
    finally:
        process.kill()
        process.wait(10)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    with running(tmp_path_factory.mktemp("etcd")) as place:
        yield place.endpoints[0]


PREFIXES = count(1)


@pytest.fixture(params=["simulated", "real"])
def etcd(request):
    if request.param == "simulated":
        yield Simulated()
        return
    real = Real(request.getfixturevalue("real"), f"/prefix-{next(PREFIXES)}/")
    yield real
    real.close()


def put(key, value, revision=0, number=1):
    return Transact(number, (Unchanged(key, revision),), (PutKey(key, value),), (Read(key),))


def test_a_key_that_is_not_there_is_put_once(etcd):
    first = etcd.ask(put("a", b"one"))
    assert isinstance(first, Transacted)
    assert (first.number, first.succeeded, first.read) == (1, True, ())
    again = etcd.ask(put("a", b"two", number=2))
    assert (again.number, again.succeeded) == (2, False)
    assert again.read == ((Row("a", b"one", first.revision),),)


def test_a_change_compares_the_revision_that_was_read(etcd):
    first = etcd.ask(put("a", b"one"))
    second = etcd.ask(put("a", b"two", first.revision))
    assert second.succeeded
    assert second.revision == first.revision + 1
    assert not etcd.ask(put("a", b"three", first.revision)).succeeded


def test_a_change_compares_another_keys_value(etcd):
    etcd.ask(put("leader", b"n1"))
    when = CompareValue("leader", b"n1"), Unchanged("a", 0)
    assert not etcd.ask(
        Transact(1, (CompareValue("leader", b"n2"),), (PutKey("a", b""),))
    ).succeeded
    assert not etcd.ask(Transact(1, (CompareValue("nobody", b""),), (PutKey("a", b""),))).succeeded
    assert etcd.ask(Transact(1, when, (PutKey("a", b"x"),))).succeeded


def test_all_of_a_transaction_happens_at_one_revision_or_nothing_does(etcd):
    both = etcd.ask(Transact(1, (), (PutKey("a", b"1"), PutKey("b", bytes(range(256))))))
    read = Transact(2, (), (Read("a"), Read("b"), Read("c")))
    assert etcd.ask(read).read == (
        (Row("a", b"1", both.revision),),
        (Row("b", bytes(range(256)), both.revision),),
        (),
    )


def test_what_is_read_comes_in_order_and_in_pages(etcd):
    keys = [f"~home/q{number:03}" for number in range(40)]
    etcd.ask(Transact(1, (), tuple(PutKey(key, key.encode()) for key in reversed(keys))))
    etcd.ask(put("~home0", b"behind"))
    page = etcd.ask(Transact(1, (), (Read("~home/", "~home0", 25),))).read[0]
    assert [row.key for row in page] == keys[:25]
    rest = etcd.ask(Transact(1, (), (Read(page[-1].key + "\0", "~home0", 25),))).read[0]
    assert [row.key for row in rest] == keys[25:]


def test_what_is_deleted_is_as_if_it_had_never_been(etcd):
    first = etcd.ask(put("a", b"one"))
    gone = etcd.ask(Transact(1, (CompareValue("a", b"one"),), (DeleteKey("a"),)))
    assert gone.revision == first.revision + 1
    assert etcd.ask(Transact(1, (), (DeleteKey("a"),))).revision == gone.revision
    assert etcd.ask(Transact(1, (), (Read("a"),))).read == ((),)
    assert etcd.ask(put("a", b"anew")).succeeded


def test_a_key_under_a_lease_ends_with_it_and_not_before(etcd):
    lease = etcd.ask(LeaseGrant(7, 1))
    assert isinstance(lease, LeaseGranted)
    assert (lease.number, lease.seconds) == (7, 2)  # it is never shorter
    etcd.ask(Transact(1, (Unchanged("leader", 0),), (PutKey("leader", b"n1", lease.lease),)))
    assert not etcd.ask(put("leader", b"n2")).succeeded
    assert etcd.ask(Refresh(8, lease.lease)) == Refreshed(8, 2)
    etcd.wait_for_end(lease.seconds)
    assert etcd.ask(Refresh(9, lease.lease)) == Refreshed(9, 0)
    assert etcd.ask(put("leader", b"n2")).succeeded


def test_a_lease_that_somebody_ends_takes_its_key_along_and_its_holder_hears(etcd):
    lease = etcd.ask(LeaseGrant(7, 5))
    etcd.ask(Transact(1, (Unchanged("leader", 0),), (PutKey("leader", b"n1", lease.lease),)))
    assert etcd.ask(Revoke(8, lease.lease)) == Revoked(8)
    assert etcd.ask(Transact(1, (), (Read("leader"),))).read == ((),)
    assert etcd.ask(Refresh(9, lease.lease)) == Refreshed(9, 0)
    again = etcd.ask(Revoke(10, lease.lease))
    assert (again.number, again.trouble) == (10, Trouble.NO_LEASE)


def test_nothing_is_put_under_a_lease_that_is_not_there(etcd):
    answer = etcd.ask(Transact(3, (), (PutKey("a", b"", 12345),)))
    assert isinstance(answer, EtcdFailed)
    assert (answer.number, answer.trouble) == (3, Trouble.NO_LEASE)
    assert etcd.ask(Transact(1, (), (Read("a"),))).read == ((),)


def test_a_transaction_with_too_many_operations_is_refused(etcd):
    many = tuple(PutKey(f"k{number}", b"") for number in range(129))
    answer = etcd.ask(Transact(4, (), many))
    assert isinstance(answer, EtcdFailed)
    assert answer.trouble is Trouble.REFUSED
    assert etcd.ask(Transact(1, (), (Read("k0"),))).read == ((),)


def test_a_large_value_comes_back_whole(etcd):
    value = bytes(range(256)) * 2_000
    etcd.ask(put("ledger", value))
    (row,) = etcd.ask(Transact(1, (), (Read("ledger"),))).read[0]
    assert row.value == value


def test_a_leader_reads_more_than_an_answer_can_carry(etcd):
    """A real one of 3.4 declines to say more than 4 MiB at once."""
    keys = [f"{BATONS}b{number:02}" for number in range(80)]
    etcd.ask(Transact(1, (), (PutKey(LEADER, b"me"), PutKey(CLUSTER, b"c"))))
    for at in range(0, len(keys), 16):
        some = tuple(PutKey(key, bytes(64 << 10)) for key in keys[at : at + 16])
        assert isinstance(etcd.ask(Transact(1, (), some)), Transacted)
    records = Records(b"me", count(2))
    effects = records.read(Instant(0))
    while effects:
        (asked,) = effects
        _, effects = records.answered(etcd.ask(asked.message), Instant(0))
    assert records.complete
    assert [key for key in records.values if key.startswith(BATONS)] == keys


def carried(place):
    line = EtcdConnection(place)
    try:
        return line.carry(READ)
    finally:
        line.close()


def test_a_real_one_with_users_wants_a_password(tmp_path):
    with running(tmp_path) as place:
        line = EtcdConnection(place)
        for path, body in [
            ("user/add", {"name": "root", "password": "snow"}),
            ("role/add", {"name": "root"}),
            ("user/grant", {"user": "root", "role": "root"}),
            ("enable", {}),
        ]:
            status, answer = line._post(f"/v3/auth/{path}", msgspec.json.encode(body))
            assert status == 200, answer
        line.close()
        known = msgspec.structs.replace(place, user="root", password="snow")
        assert isinstance(carried(known), Transacted)
        told = carried(place)
        assert isinstance(told, EtcdFailed)
        assert told.trouble is Trouble.REFUSED
        wrong = carried(msgspec.structs.replace(known, password="rain"))
        assert isinstance(wrong, EtcdFailed)
        assert "does not let root in" in wrong.text


def test_a_real_one_with_tls_is_believed_by_its_authority_alone(tmp_path):
    authority, other = trustme.CA(), trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    for name, part in [
        ("key", certificate.private_key_pem),
        ("cert", certificate.cert_chain_pems[0]),
        ("ca", authority.cert_pem),
        ("other", other.cert_pem),
    ]:
        part.write_to_path(tmp_path / name)
    options = "--cert-file", str(tmp_path / "cert"), "--key-file", str(tmp_path / "key")
    with running(tmp_path, *options, authority=tmp_path / "ca") as place:
        assert isinstance(carried(place), Transacted)
        told = carried(msgspec.structs.replace(place, authority=tmp_path / "other"))
        assert isinstance(told, EtcdFailed)
        assert "CERTIFICATE_VERIFY_FAILED" in told.text
