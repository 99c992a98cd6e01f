"""A cluster that a disk decided for goes to etcd, whatever ends the program that moves it."""

import shutil
from pathlib import Path

import msgspec
import pytest

import snowmelt
from cli.program import snowmelt as ran
from snowmelt.cli.local import LocalCluster
from snowmelt.cli.local_etcd import LocalEtcd
from snowmelt.core.errors import StateError, StoreVersion, Unavailable
from snowmelt.core.instant import Instant
from snowmelt.core.names import Address, NodeId
from snowmelt.core.node import Started
from snowmelt.core.record import Record, Write
from snowmelt.protocols.baton.messages import Version
from snowmelt.protocols.baton.values import SavedValue
from snowmelt.protocols.etcd import EtcdFailed, PutKey, Transact, Trouble
from snowmelt.protocols.membership.disk import LEDGER, SELF, Self, twice
from snowmelt.protocols.membership.records import BATONS, CLUSTER, HOMES, LEADER, Founded
from snowmelt.protocols.membership.records import LEDGER as LEDGER_RECORD
from snowmelt.protocols.membership.view import IdBinding, Ledger, Member, View
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.controller.homes import FIRST_IN_ETCD
from snowmelt.protocols.queue.controller.rescuing import FIRST_TERM
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.runtime.etcd import EtcdPlace
from snowmelt.runtime.migrate import TERMS_UNHEARD, Migration, of_batons
from snowmelt.store import Store
from snowmelt_world.etcd import Model

NEEDS_ETCD = pytest.mark.skipif(shutil.which("etcd") is None, reason="no etcd is installed")
PLACE = EtcdPlace.read("etcd://127.0.0.1:2379/orders")
QUEUES = 250


def _coordinators(folder: Path) -> Path:
    """The disk of one that decided."""
    member = Member(NodeId("n1"), Address("127.0.0.1", 4410), birth=7, start=3)
    ledger = Ledger(View(99, 5, NodeId("n1"), (member,)), (IdBinding(NodeId("n1"), 7, 3, 1),))
    own = [*twice(SELF, msgspec.msgpack.encode(Self("n1", 7, 3))), *twice(LEDGER, ledger.written())]
    changes = [Write(b"membership/" + one.key, one.value) for one in own]
    for at in range(QUEUES):
        home = Assignment(f"q{at}", 4, "n1/7", (), QueueSettings(), active=True)
        value = msgspec.msgpack.encode(home)
        changes += [Write(f"fifo/{mark}q{at}".encode(), value) for mark in "hi"]
    changes += [Write(b"fifo/" + key, msgspec.msgpack.encode(77)) for key in FIRST_TERM]
    changes += [Write(b"baton//fences", msgspec.msgpack.encode(1234))]
    with Store.open(folder) as store:
        assert store.commit([changes]) == [None]
    return folder


class Cut:
    """An etcd that is not reached any more after so many requests; the last may be done."""

    def __init__(self, model, after, *, done):
        self.asked = 0
        self._model, self._after, self._done = model, after, done

    def __call__(self, request):
        self.asked += 1
        if self.asked > self._after + self._done:
            return EtcdFailed(request.number, Trouble.UNKNOWN, "cut off")
        answer = self._model.answer(request, Instant(0))
        if self.asked > self._after:
            return EtcdFailed(request.number, Trouble.UNKNOWN, "cut off")
        return answer


def _moved(folder, carry):
    with Migration(folder, PLACE, "snowmelt", carry) as migration:
        migration.carry_out(migration.plan())


def _is_whole(model):
    keys = {key: held.value for key, held in model.state.keys.items() if key != LEADER}
    ledger = Ledger.read(keys.pop(LEDGER_RECORD))
    founded = msgspec.msgpack.decode(keys.pop(CLUSTER), type=Founded)
    assert (founded.cluster, founded.name) == (99, "snowmelt")
    assert (ledger.view.epoch, [one.id for one in ledger.known]) == (6, ["n1"])
    assert msgspec.msgpack.decode(keys.pop(HOMES + FIRST_IN_ETCD)) == 77
    assert msgspec.msgpack.decode(keys.pop(BATONS + "/fences")) == 1234 + TERMS_UNHEARD
    assert sorted(keys) == sorted(HOMES + f"q{at}" for at in range(QUEUES))
    return True


@pytest.mark.parametrize("done", [False, True])
def test_cut_off_at_any_request_it_is_run_again_and_goes_on(tmp_path, done):
    folder = _coordinators(tmp_path / "n1")
    for after in range(1, 20):
        again = tmp_path / f"again-{after}"
        shutil.copytree(folder, again)
        model = Model()
        cut = Cut(model, after, done=done)
        ended = True
        try:
            _moved(again, cut)
        except Unavailable:
            ended = False
            assert CLUSTER not in model.state.keys or _is_whole(model)
        if after > 1:
            with Store.open(again) as store:
                assert store.load([b"membership/moved"])[0].value == b"etcd://127.0.0.1:2379/orders"
        if not ended:
            _moved(again, Cut(model, 1000, done=False))
        with pytest.raises(StateError, match="decides for this cluster already: start its nodes"):
            _moved(again, Cut(model, 1000, done=False))
        assert _is_whole(model)
        assert ended or LEADER not in model.state.keys  # n1 takes away what was left, or its lease
        if cut.asked <= after:
            return
    raise AssertionError("it has no end")


def test_a_folder_with_queues_on_the_overlay_is_refused(tmp_path):
    folder = _coordinators(tmp_path / "n1")
    settings = msgspec.msgpack.encode(["jobs", 4])  # as earlier versions wrote them down
    with Store.open(folder) as store:
        store.commit([[Write(b"priority/%c/jobs" % mark, settings) for mark in b"st"]])
    model = Model()
    with pytest.raises(StoreVersion, match=r"has queues on the overlay, .*: \['jobs'\]; take out"):
        _moved(folder, Cut(model, 1000, done=False))
    assert not model.state.keys


def test_a_prefix_of_another_cluster_is_refused_and_the_disk_decides_on(tmp_path):
    folder = _coordinators(tmp_path / "n1")
    model = Model()
    _moved(_coordinators(tmp_path / "other"), Cut(model, 1000, done=False))
    with pytest.raises(StateError, match="belongs to the cluster 'snowmelt' already"):
        _moved(folder, Cut(model, 1000, done=False))
    with Store.open(folder) as store:
        keys = [record.key for record in store.recover().records]
    assert b"membership/ledger" in keys
    assert b"membership/moved" not in keys


def test_a_prefix_with_what_another_cluster_left_there_is_refused_and_the_disk_decides_on(tmp_path):
    folder, model = _coordinators(tmp_path / "n1"), Model()
    model.answer(Transact(0, (), (PutKey(BATONS + "lost", b"of another"),)), Instant(0))
    with pytest.raises(StateError, match="is not empty: give an empty one"):
        _moved(folder, Cut(model, 1000, done=False))
    with Store.open(folder) as store:
        assert b"membership/moved" not in [one.key for one in store.recover().records]


def test_what_is_no_coordinators_folder_is_refused(tmp_path):
    with Store.open(tmp_path / "n2"):
        pass
    with pytest.raises(StateError, match="not the folder of a node that decides on its disk"):
        _moved(tmp_path / "n2", Cut(Model(), 1000, done=False))


def test_what_of_batons_is_hurt_on_the_disk_is_not_as_if_it_had_never_been():
    sound = msgspec.msgpack.encode(SavedValue(Version(7), b"value"))
    records = (Record(b"one", sound), Record(b"multicast.prices", sound))
    hurt = (b"one/copy", b"two", b"two/copy", b"/fences")
    batons, _ = of_batons(Started(records, hurt, 0))
    assert batons["one"] == sound
    assert batons["two"] == b""  # it can't be read by who leads, either
    assert msgspec.msgpack.decode(batons["/fences"]) > TERMS_UNHEARD
    assert sorted(batons) == ["/fences", "one", "two"]


@NEEDS_ETCD
def test_a_cluster_goes_to_a_real_etcd_with_all_that_it_had(tmp_path):
    with LocalCluster(3, tmp_path / "nodes", 0.3) as before:
        before.start()
        with snowmelt.connect(before.url) as door:
            door.fifo("orders", replicas=2).put_many([b"one", b"two"], timeout=30)
            door.priority("jobs", replicas=2).put(b"urgent", timeout=30)
            with door.baton("index").acquire(timeout=30) as held:
                held.save(b"segment-17")
            numbers = door.counter("ids").next(1, timeout=30)
    folder = str(before.nodes[0].folder)
    with LocalEtcd(tmp_path / "etcd") as etcd:
        words = ["migrate", "--data", folder, "--coordinator", etcd.url]
        told = ran(*words)
        assert "2 queues, 2 values of batons" in told.stdout, told.stderr
        assert "Nothing was done" in told.stdout
        done = ran(*words, "--yes")
        assert f"Start every node with --coordinator {etcd.url}" in done.stdout, done.stderr

        alone = before.nodes[0]
        alone.start()
        with pytest.raises(Unavailable, match="etcd decides for this cluster"):
            before.wait_for(["n1"], 20)

        options = ["--coordinator", etcd.url]
        with LocalCluster(3, tmp_path / "nodes", 0.3, options=options) as after:
            after.start()
            with (
                snowmelt.connect(after.url) as door,
                door.fifo("orders").get_many(10, timeout=30) as items,
            ):
                assert [item.body for item in items] == [b"one", b"two"]
                with door.priority("jobs").get(timeout=30) as urgent:
                    assert urgent.body == b"urgent"
                with door.baton("index").acquire(timeout=30) as again:
                    assert again.value == b"segment-17"
                    assert again.fence > held.fence
                assert door.counter("ids").next(1, timeout=30).start >= numbers.stop
