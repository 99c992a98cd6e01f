"""Writes what later versions must be able to read of this one, into `tests/releases/VERSION`.

    python scripts/release_fixture.py [FOLDER]

It is run once at a release, and never again for that version (`docs/releasing.md`):

    folder.tar.xz   a folder as `snowmelt.open` makes it
    node.tar.xz     the disk of a node that was founded, and stopped in order
    items.json      what is in the two, as this version saw it
    wire.json       a message of each type, with its bytes, and a whole greeting

Both have an item of each standing in queues of each kind. `tests/releases/test_releases.py` opens
them, and accounts for every item.
"""

import json
import sys
import tarfile
import tempfile
from base64 import b64encode
from pathlib import Path
from typing import Any, Final

import msgspec

import snowmelt
from snowmelt.cli.local import LocalCluster
from snowmelt.client.cluster import Cluster
from snowmelt.client.embedded.face import EmbeddedCluster
from snowmelt.core.names import NodeId
from snowmelt.core.users import Accounts
from snowmelt.wire import codec
from snowmelt.wire.framing import HEADER_BYTES, Kind
from snowmelt.wire.greeting import Gate, KnownCluster, Role, Speaker, made_of
from snowmelt.wire.sides import Dialling, Listening
from snowmelt_world.attack.forge import each_valid

HERE: Final = Path(__file__).resolve().parents[1] / "tests" / "releases"
DELAY: Final = 300_000_000.0
"""Nine years: longer than a version is read."""
SECRET: Final = "the secret of a fixture"  # noqa: S105 - it opens nothing
CHANNEL: Final = b"what both know of the connection"
SPOKEN: Final[dict[str, Any]] = {
    "calls": codec.Request,
    "answers": codec.Response,
    "nodes": codec.NODE_WORDS,
    "peers": codec.pool_messages.Message,
}
"""What is said to nodes, to clients, between nodes, and between processes of a pool."""


def fill(cluster: Cluster | EmbeddedCluster) -> None:
    """Queues of each kind, with an item of each standing."""
    orders = cluster.fifo("orders", max_deliveries=1, producer="shop")
    for number in range(1, 8):
        orders.put(b"order %d" % number, sequence=number, headers={"from": "shop"})
    orders.put(b"later", delay=DELAY, sequence=8)
    orders.get().ack()
    orders.get().nack(reason="it is bad")
    held = cluster.fifo("held")
    held.put_many([b"leased", b"ready"])
    held.get()  # it stays leased: that ends before a later version looks
    cluster.fifo("unique").put(b"once", unique="a key")
    keys = cluster.fifo("keys", in_order_by_key=True)
    keys.put_many([b"a1", b"b1", b"a2"], key=["a", "b", "a"])
    cluster.fifo("large", inline_max=100).put_many([b"%d" % at * 1_000 for at in range(3)])
    parts = cluster.fifo("parts", partitions=2)
    parts.put_many([b"part %d" % at for at in range(20)])
    ranks = cluster.priority("ranks", priorities=3)
    for at in (2, 0, 1):
        ranks.put(b"rank %d" % at, priority=at)
    scores = cluster.priority("scores", priorities=float)
    for score in (0.5, -3.0, 8.25):
        scores.put(b"score %g" % score, priority=score)
    group = cluster.fifo("read")
    group.put_many([b"read %d" % at for at in range(5)])
    group.group("billing").advance(items_max=2)
    cluster.fifo("timed").schedule("sweep", b"all", every="1d")
    with cluster.baton("lock") as held:
        held.save(b"what was saved")
    cluster.counter("numbers").next(10)


def seen(cluster: Cluster | EmbeddedCluster) -> dict[str, Any]:
    """All that is in it, for `items.json`."""
    names = [name for name in cluster.queues() if name != "timed"]  # its moments go on
    rows = {name: [msgspec.to_builtins(row) for row in cluster.export(name)] for name in names}
    stats = {name: cluster.fifo(name).stats() for name in names if name not in ("ranks", "scores")}
    return {
        "items": rows,
        "counts": {name: {"put": one.put, "done": one.done} for name, one in stats.items()},
        "schedules": [one.name for one in cluster.fifo("timed").schedules()],
    }


def messages() -> dict[str, list[dict[str, Any]]]:
    """One of each type, with all its fields."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, union in SPOKEN.items():
        some = [msgspec.convert(plain, union) for plain in each_valid(union)]
        found[name] = [
            {"is": msgspec.to_builtins(one), "bytes": b64encode(codec.encode(one)).decode()}
            for one in some
        ]
    return found


def greeting() -> dict[str, str]:
    """What a client and a node say to each other until they are known."""
    key = bytes(range(16))
    client = Speaker(
        cluster="snowmelt",
        name=NodeId(made_of(key)),
        role=Role.CLIENT,
        secret=SECRET,
        key=key,
        known=KnownCluster("this client", "connect anew", learns=True),
    )
    gate = Gate("snowmelt", Accounts.of_token(SECRET), KnownCluster(identity="2ee882666f7f7f48"))
    dialling = Dialling(client, channel=lambda: CHANNEL)
    listening = Listening(gate, NodeId("n1"), Role.NODE, 1 << 26, channel=lambda: CHANNEL)
    hello = dialling.first
    welcome, _ = listening.hear(Kind.HELLO, hello[HEADER_BYTES:])
    proof, _ = dialling.hear(Kind.WELCOME, welcome[HEADER_BYTES:])
    _, opened = listening.hear(Kind.PROVE, proof[HEADER_BYTES:])
    assert opened is not None
    said = {"hello": hello, "welcome": welcome, "proof": proof}
    return {name: b64encode(frame).decode() for name, frame in said.items()}


def pack(source: Path, target: Path) -> None:
    """Without what says who made it, and when."""

    def plain(one: tarfile.TarInfo) -> tarfile.TarInfo:
        one.uid = one.gid = one.mtime = 0
        one.uname = one.gname = ""
        return one

    with tarfile.open(target, "w:xz") as archive:
        archive.add(source, arcname=source.name, filter=plain)


def main() -> None:
    """Writes all four."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / snowmelt.__version__
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as room:
        with snowmelt.open(Path(room) / "folder") as alone:
            fill(alone)
            found = {"folder": seen(alone)}
        pack(Path(room) / "folder", folder / "folder.tar.xz")
        with LocalCluster(1, Path(room) / "nodes") as nodes:
            nodes.start()
            with snowmelt.connect(nodes.url) as cluster:
                fill(cluster)
                found["node"] = seen(cluster)
        pack(Path(room) / "nodes" / "n1", folder / "node.tar.xz")
    (folder / "items.json").write_text(json.dumps(found, indent=1) + "\n")
    wire = {"messages": messages(), "greeting": greeting()}
    (folder / "wire.json").write_text(json.dumps(wire, indent=1) + "\n")


if __name__ == "__main__":
    main()
