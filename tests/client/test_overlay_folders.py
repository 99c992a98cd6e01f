"""Folders in which earlier versions made queues on the overlay: what is in them is not hidden."""

import msgspec
import pytest

import snowmelt
from cli.program import snowmelt as ran
from snowmelt.core.errors import StoreVersion
from snowmelt.core.record import Write
from snowmelt.store import Store

# What a node wrote down of such a queue, twice: name, priorities, largest first, replicas, lease,
# deliveries, bound, floats, since which view, and of which version it was.
FIFO = ["jobs", 1, False, 1, 30_000_000_000, 20, 0, False, 1, 1]
ANY = ["jobs", 0, False, 3, 30_000_000_000, 20, 0, True, 7, 0]
REFUSED = "has queues on the overlay, which this version of snowmelt does not have: ['jobs'];"


def _registers(folder, settings):
    value = msgspec.msgpack.encode(settings)
    with Store.open(folder) as store:
        store.commit([[Write(b"priority/%b/jobs" % key, value) for key in (b"s", b"t")]])


@pytest.mark.parametrize("settings", [FIFO, ANY, ANY[:9]], ids=str)
def test_they_are_refused_with_what_to_do(tmp_path, settings):
    _registers(tmp_path, settings)
    with pytest.raises(StoreVersion) as refused, snowmelt.open(tmp_path):
        pass
    assert str(refused.value).startswith(f"{tmp_path} {REFUSED} take out what is in them with the")
    with Store.open(tmp_path):
        pass  # it was left as it was, and nobody holds it


def test_a_node_does_not_start_on_them(tmp_path):
    _registers(tmp_path, FIFO)
    node = ran("node", "--id", "n1", "--listen", "127.0.0.1:0", "--data", str(tmp_path))
    assert node.returncode != 0
    assert f"{tmp_path} {REFUSED}" in node.stderr + node.stdout


def test_what_else_the_overlay_kept_is_ignored(tmp_path):
    with Store.open(tmp_path) as store:
        store.commit([[Write(b"priority/v", b"7")], [Write(b"embedded/epochs", bytes(8))]])
    with snowmelt.open(tmp_path) as cluster:
        cluster.fifo("jobs").put(b"new")
        assert cluster.queues() == ["jobs"]
