"""What a release wrote and said is read by all that come after it.

`scripts/release_fixture.py` makes a folder here at each release, with that release's program. A
commit that can't read one any more raises a number (`docs/explanation/versions.md`), or mends it.
"""

import json
import tarfile
from base64 import b64decode
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

import snowmelt
from snowmelt.cli.local import LocalCluster
from snowmelt.client.cluster import Cluster
from snowmelt.client.embedded.face import EmbeddedCluster
from snowmelt.core.users import Accounts
from snowmelt.wire import codec
from snowmelt.wire.framing import HEADER_BYTES
from snowmelt.wire.greeting import LISTENS, Answerer, Gate, Greeting, Hello, Proof, Welcome, heard

HERE: Final = Path(__file__).parent
RELEASES: Final = sorted(one.name for one in HERE.iterdir() if (one / "wire.json").exists())
SPOKEN: Final[dict[str, Any]] = {
    "calls": codec.Request,
    "answers": codec.Response,
    "nodes": codec.NODE_WORDS,
    "peers": codec.pool_messages.Message,
}
SECRET: Final = "the secret of a fixture"
CHANNEL: Final = b"what both know of the connection"
of_each_release = pytest.mark.parametrize("release", RELEASES)


def read(release: str, name: str) -> Any:
    return json.loads((HERE / release / name).read_text())


def unpacked(release: str, name: str, target: Path) -> Path:
    with tarfile.open(HERE / release / name) as archive:
        archive.extractall(target, filter="data")
    (folder,) = target.iterdir()
    return folder


def says(old: Any, new: Any) -> bool:
    """Whether the new one says all that the old one said; it may say more.

    >>> says({"a": [1, "x"]}, {"a": [1, "x", 0], "b": 2}), says({"a": [1]}, {"a": [2]})
    (True, False)
    """
    if isinstance(old, dict) and isinstance(new, dict):
        return all(name in new and says(one, new[name]) for name, one in old.items())
    if isinstance(old, list) and isinstance(new, list | tuple):
        return len(old) <= len(new) and all(map(says, old, new))
    return bool(old == new)


def exported(cluster: Cluster | EmbeddedCluster, name: str) -> Any:
    return msgspec.to_builtins(list(cluster.export(name)))


def check_account(cluster: Cluster | EmbeddedCluster, wanted: Any) -> None:
    """All items are there, stand as they stood, and are given out once, in their order.

    What was leased failed, for its lease has ended since.
    """
    for name, rows in wanted["items"].items():
        wholly = rows if name != "held" else [{"body": row["body"]} for row in rows]
        assert says(wholly, exported(cluster, name)), name
    for name, counts in wanted["counts"].items():
        stats = cluster.fifo(name).stats()
        assert (stats.put, stats.done) == (counts["put"], counts["done"]), name
        held = stats.ready + stats.leased + stats.delayed + stats.dead
        grouped = 2 if name == "read" else 0
        assert held + grouped == len(wanted["items"][name]), name
    assert [one.name for one in cluster.fifo("timed").schedules()] == wanted["schedules"]
    large = [bytes(item.body) for item in cluster.fifo("large").get_many(9, timeout=5)]
    assert large == [b"%d" % at * 1_000 for at in range(3)]
    bodies = [item.body for item in cluster.priority("ranks").get_many(9, timeout=5)]
    assert bodies == [b"rank 0", b"rank 1", b"rank 2"]
    bodies = [item.body for item in cluster.priority("scores").get_many(9, timeout=5)]
    assert bodies == [b"score -3", b"score 0.5", b"score 8.25"]
    parts = cluster.fifo("parts").get_many(30, timeout=5)
    assert sorted(item.body for item in parts) == sorted(b"part %d" % at for at in range(20))


def check_memory(cluster: Cluster | EmbeddedCluster) -> None:
    """What was promised to programs that put and read before the upgrade still holds."""
    shop = cluster.fifo("orders", producer="shop")
    assert shop.put(b"order 7", sequence=7) == 6
    assert shop.put(b"order 9", sequence=9) == 8
    assert cluster.fifo("unique").put(b"again", unique="a key") == 0
    groups = cluster.fifo("read").groups()
    assert (groups[0].name, groups[0].given - groups[0].done) == ("billing", 2)
    with cluster.baton("lock") as held:
        assert held.value == b"what was saved"
    assert cluster.counter("numbers").next(1).start >= 10


@of_each_release
def test_a_folder_of_a_release_is_opened_and_every_item_accounted_for(
    release: str, tmp_path: Path
) -> None:
    with snowmelt.open(unpacked(release, "folder.tar.xz", tmp_path)) as alone:
        check_account(alone, read(release, "items.json")["folder"])
        check_memory(alone)


@of_each_release
def test_a_node_goes_on_from_the_disk_of_a_release(release: str, tmp_path: Path) -> None:
    unpacked(release, "node.tar.xz", tmp_path)
    with LocalCluster(1, tmp_path) as nodes:
        nodes.start()
        with snowmelt.connect(nodes.url) as cluster:
            check_account(cluster, read(release, "items.json")["node"])
            check_memory(cluster)


@of_each_release
@pytest.mark.parametrize("name", SPOKEN)
def test_what_a_release_says_is_understood(release: str, name: str) -> None:
    for one in read(release, "wire.json")["messages"][name]:
        message = msgspec.msgpack.decode(b64decode(one["bytes"]), type=SPOKEN[name])
        assert says(one["is"], msgspec.to_builtins(message)), one


@of_each_release
def test_who_comes_with_the_words_of_a_release_is_let_in(release: str) -> None:
    frames = read(release, "wire.json")["greeting"]
    said = {name: b64decode(frame)[HEADER_BYTES:] for name, frame in frames.items()}
    hello, welcome = heard(said["hello"], Hello), heard(said["welcome"], Welcome)
    greeting = Greeting(said["hello"], welcome.answerer, CHANNEL)
    assert heard(welcome.answerer, Answerer).name == "n1"
    assert greeting.digest(LISTENS, SECRET) in welcome.proofs
    gate = Gate("snowmelt", Accounts.of_token(SECRET))
    _, secret = gate.proved(hello, greeting, heard(said["proof"], Proof))
    assert secret == SECRET
