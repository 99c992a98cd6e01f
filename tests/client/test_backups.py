"""A queue is copied into a file while it is used, and a queue is made of the file."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.client.backup.file import looked_at
from snowmelt.core.errors import (
    BadOption,
    DiskFull,
    QueueExists,
    StoreDamaged,
    StoreError,
    StoreVersion,
    Unavailable,
)
from snowmelt.core.interval import Interval
from timing import in_vain


def bodies(queue: Any, most: int = 10_000) -> list[bytes]:
    return [bytes(item.body) for item in queue.get_many(most, timeout=2)]


def test_all_that_is_in_it_is_in_the_copy(queues: Any, name: str, tmp_path: Path) -> None:
    orders = queues.fifo(name, max_deliveries=2, lease=20, max_items=5000)
    orders.put_many([b"%d" % one for one in range(1000)], headers={"of": "many"})
    for one in range(30):
        orders.put(b"s%d" % one, headers={"at": str(one)})
    late = orders.put(b"late", delay=3600)
    for _ in range(2):  # the first is dead
        orders.get().nack(reason="broken")
    orders.get().nack(reason="not yet")  # the second failed once
    held = orders.get()  # and is leased
    assert (held.body, held.failures) == (b"1", 1)
    for item in orders.get_many(5):  # some are done
        item.ack(wait=True)
    told = queues.backup(name, tmp_path / "one.backup")
    assert (told.queue, told.items, told.lost) == (name, 1026, 0)
    orders.put(b"later")
    again = queues.restore(tmp_path / "one.backup", name=name[:80] + "-again")
    assert again.items == 1026
    copy = queues.fifo(again.queue)
    before, after = orders.stats(), copy.stats()
    assert (after.ready, after.delayed, after.dead, after.leased) == (1024, 1, 1, 0)
    assert (after.done, after.bytes) == (before.done, before.bytes - 5)
    assert after.settings == before.settings
    [dead] = copy.peek(1, dead=True)
    assert (dead.body, dead.failures, dead.reason) == (b"0", 2, "broken")
    first = copy.get()
    assert (first.position, first.body, first.failures, first.reason) == (1, b"1", 1, "not yet")
    assert first.headers == {"of": "many"}
    assert first.put_at is not None
    assert abs(first.put_at.timestamp() - told.made) < 60
    rest = [(item.position, bytes(item.body)) for item in copy.get_many(2000)]
    assert rest[0] == (7, b"7")
    assert rest[-1] == (1029, b"s29")
    assert copy.put(b"new") == late + 1, "positions go on where the copy ends"


def test_priorities_keys_and_partitions_keep_their_order(
    queues: Any, name: str, tmp_path: Path
) -> None:
    few = queues.priority(name[:70] + "-few", priorities=4)
    some = queues.priority(name[:70] + "-any")
    for one in (few, some):
        one.put_many([(at * 7 % 4, b"%d" % at) for at in range(50)])
    parted = queues.fifo(name[:70] + "-parted", partitions=4)
    parted.put_many([b"%d" % one for one in range(20)])
    for one in range(20, 60):
        parted.put(b"%d" % one)
    for one in (few, some, parted):
        queues.backup(one.name, tmp_path / f"{one.name}.backup")
        copied = queues.restore(tmp_path / f"{one.name}.backup", name=one.name + "2")
        copy = queues.queue(copied.queue)
        assert copy.stats().settings == one.stats().settings
        copy.put(b"last", **({} if one is parted else {"priority": 3}))
        told = bodies(copy)
        assert told == [*bodies(one), b"last"]


def test_a_group_goes_on_at_its_mark_and_a_producer_at_its_number(
    queues: Any, name: str, tmp_path: Path
) -> None:
    orders = queues.fifo(name, producer="loader")
    orders.put_many([b"%d" % one for one in range(10)], sequence=7)
    group = orders.group("readers")
    group.advance(group.advance(items_max=4).end, items_max=2)
    orders.stage([b"staged"])
    queues.backup(name, tmp_path / "b")
    copied = queues.restore(tmp_path / "b", name=name[:80] + "-again")
    copy = queues.fifo(copied.queue, producer="loader")
    [told] = copy.put_many([b"other"], sequence=7)
    assert told == Interval(0, 10), "that number was used"
    [known], [group] = orders.groups(), copy.groups()
    assert (group.name, group.done, group.given) == (known.name, known.done, known.given)
    assert copy.stats().staged == 0


def test_one_that_is_there_is_left_as_it_is(queues: Any, name: str, tmp_path: Path) -> None:
    orders = queues.fifo(name)
    orders.put(b"one")
    queues.backup(name, tmp_path / "b")
    with pytest.raises(QueueExists, match="--as"):
        queues.restore(tmp_path / "b")
    with pytest.raises(BadOption, match="not there yet"):
        queues.backup(name, tmp_path / "b")
    with pytest.raises(snowmelt.NoSuchQueue):
        queues.backup("nothing-of-that-name", tmp_path / "c")
    assert not (tmp_path / "c").exists()
    queues.restore(tmp_path / "b", name=name[:80] + "2")
    with pytest.raises(QueueExists, match="made of this very backup"):
        queues.restore(tmp_path / "b", name=name[:80] + "2")
    queues.delete(name)
    queues.restore(tmp_path / "b")
    orders = queues.fifo(name)
    assert bodies(orders) == [b"one"]


def test_a_file_is_refused_wherever_it_is_cut_or_flipped(tmp_path: Path) -> None:
    path, bad = tmp_path / "good", tmp_path / "bad"
    with snowmelt.open(tmp_path / "queues") as cluster:
        orders = cluster.fifo("orders")
        for one in range(40):
            orders.put(b"%d" % one * 20)
        cluster.backup("orders", path)
        whole = path.read_bytes()
        for size in range(max(0, len(whole) - 1024), len(whole)):
            bad.write_bytes(whole[:size])
            with pytest.raises(StoreDamaged, match="at byte"):
                looked_at(bad)
        for at in range(len(whole)):
            bad.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
            with pytest.raises((StoreDamaged, StoreVersion), match="byte"):
                looked_at(bad)
        bad.write_bytes(whole + b"x")
        with pytest.raises(StoreDamaged, match="behind its end"):
            cluster.restore(bad, name="other")
        assert cluster.queues() == ["orders"], "nothing is made of it"


def test_a_backup_is_its_owners_alone_and_follows_no_link(tmp_path: Path) -> None:
    there, victim = tmp_path / "one.backup", tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "one.backup.part").symlink_to(victim)
    with snowmelt.open(tmp_path / "queues") as queues:
        queues.fifo("orders").put(b"secret")
        queues.backup("orders", there)
    assert (victim.read_text(), there.stat().st_mode & 0o077) == ("precious", 0)


def test_a_full_disk_leaves_no_half_of_a_backup(own_node: LocalNode, tmp_path: Path) -> None:
    code = """
import resource, signal, sys, snowmelt
from snowmelt.core.errors import MachineError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with snowmelt.connect(sys.argv[1]) as cluster:
    cluster.fifo("orders").put_many([bytes(1000)] * 2000)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
    try:
        cluster.backup("orders", sys.argv[2])
    except MachineError as error:
        print(error)
"""
    told = subprocess.run(
        [sys.executable, "-c", code, own_node.url, str(tmp_path / "b.backup")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "can't be written" in told.stdout
    assert not list(tmp_path.glob("b.backup*"))


def test_no_room_is_said_as_such(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("only where there is /dev/full")
    from snowmelt.client.backup.file import End, _Failing, write  # noqa: PLC0415

    with (
        pytest.raises(DiskFull, match="give it another place"),
        _Failing(tmp_path),
        Path("/dev/full").open("wb", buffering=0) as file,
    ):
        write(file, End(0, 0, 0, 0))


def test_a_file_that_cannot_be_begun_leaves_nothing_begun(
    queues: Any, name: str, tmp_path: Path
) -> None:
    queues.fifo(name).put(b"one")
    for _ in range(5):  # one more than are read at once
        with pytest.raises(StoreError, match="No such file"):
            queues.backup(name, tmp_path / "none" / "one.backup", timeout=5)
    for path in ("", "\0", "\ud800"):
        with pytest.raises(BadOption):
            queues.backup(name, path)
        with pytest.raises(BadOption):
            queues.restore(path)
    with pytest.raises(StoreError, match="too long"):
        queues.backup(name, "x" * 5000)
    assert queues.backup(name, tmp_path / "one.backup").items == 1


def test_it_is_read_while_others_put_and_get(own_node: LocalNode, tmp_path: Path) -> None:
    """Each copy is of one moment: the done ones are a beginning of the order, all others there."""
    with snowmelt.connect(own_node.url) as cluster, snowmelt.connect(own_node.url) as other:
        orders = cluster.fifo("orders")
        orders.put_many([b"%06d" % one + bytes(400) for one in range(20_000)])
        over = threading.Event()

        def works() -> None:
            mine = other.fifo("orders")
            while not over.is_set():
                for item in mine.get_many(50, timeout=5):
                    item.ack(wait=True)

        thread = threading.Thread(target=works)
        thread.start()
        try:
            for one in range(3):
                cluster.backup("orders", tmp_path / f"{one}")
        finally:
            over.set()
            thread.join()
        for one in range(3):
            copied = cluster.restore(tmp_path / f"{one}", name=f"copy{one}")
            assert not copied.lost
            told = [int(body[:6]) for body in bodies(cluster.fifo(copied.queue), 30_000)]
            assert told == list(range(20_000 - len(told), 20_000))
        done = 20_000 - cluster.fifo("orders").stats().ready
        assert done > 0


def test_thousands_of_single_puts_come_back(queues: Any, name: str, tmp_path: Path) -> None:
    """Each is a lot of its own, and a piece has thousands of them."""
    orders = queues.fifo(name, flush=5.0)
    for one in range(3000):
        orders.put(b"%d" % one)
    for item in list(orders.get_many(3000))[::3]:
        item.ack()
    queues.backup(name, tmp_path / "b")
    queues.restore(tmp_path / "b", name=name[:80] + "2")
    left = [int(body) for body in bodies(queues.fifo(name[:80] + "2"))]
    assert left == [one for one in range(3000) if one % 3]


def test_a_body_larger_than_a_piece_comes_back(queues: Any, name: str, tmp_path: Path) -> None:
    orders = queues.fifo(name)
    orders.put_many([b"small"] * 5)
    orders.put(bytes(10 << 20), timeout=60)
    queues.backup(name, tmp_path / "b", timeout=60)
    queues.restore(tmp_path / "b", name=name[:80] + "2", timeout=60)
    copy = queues.fifo(name[:80] + "2")
    assert [len(item.body) for item in copy.get_many(5)] == [5] * 5
    assert len(copy.get(timeout=60).body) == 10 << 20


def test_who_asks_for_a_queue_that_comes_in_waits(queues: Any, name: str, tmp_path: Path) -> None:
    orders = queues.fifo(name)
    orders.put_many([bytes(1000)] * 5000)
    queues.backup(name, tmp_path / "b")
    other = name[:80] + "2"
    told: list[str] = []

    def looks(done: int, total: int) -> None:
        if not told:
            told_so = in_vain(Unavailable, lambda: queues.fifo(other).put(b"x", timeout=0.3))
            assert "is being restored" in str(told_so)
            told.append(f"{done} of {total}")

    queues.restore(tmp_path / "b", name=other, progress=looks)
    assert told
    assert queues.fifo(other).stats().ready == 5000


def test_a_restore_that_broke_off_goes_on(queues: Any, name: str, tmp_path: Path) -> None:
    orders = queues.fifo(name)
    orders.put_many([bytes(2000)] * 3000)
    queues.backup(name, tmp_path / "b")

    class BreaksOff(Exception):
        pass

    def breaks(done: int, _: int) -> None:
        if done:
            raise BreaksOff

    for _ in range(2):
        with pytest.raises(BreaksOff):
            queues.restore(tmp_path / "b", name=name[:80] + "2", progress=breaks)
    queues.restore(tmp_path / "b", name=name[:80] + "2")
    assert queues.fifo(name[:80] + "2").stats().ready == 3000


def test_with_await(tmp_path: Path) -> None:
    async def main() -> None:
        async with snowmelt.aio.open(tmp_path / "queues") as cluster:
            await cluster.fifo("orders").put_many([b"one", b"two"])
            await cluster.backup("orders", tmp_path / "b")
            told = await cluster.restore(tmp_path / "b", name="again", replicas=1)
            assert (told.queue, told.items) == ("again", 2)

    asyncio.run(main())


def test_bodies_on_data_nodes_are_in_it(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path / "nodes", 0.5) as nodes:
        nodes.start()
        with snowmelt.connect(nodes.url) as cluster:
            large = cluster.fifo("large", replicas=1, inline_max=0)
            for one in range(20):
                large.put(b"%d" % one + bytes(100_000))
            large.get().ack(wait=True)
            cluster.backup("large", tmp_path / "b")
            told = cluster.restore(tmp_path / "b", name="again", replicas=3)
            assert (told.items, told.lost) == (19, 0)
            copy = cluster.fifo("again")
            assert [int(body.rstrip(b"\0")) for body in bodies(copy)] == list(range(1, 20))


def test_the_leader_is_killed_during_backup_and_restore(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path / "nodes", 0.5) as nodes:
        nodes.start()
        with snowmelt.connect(nodes.url) as cluster:
            orders = cluster.fifo("orders", replicas=3)
            for one in range(10):
                some = range(one * 300, one * 300 + 300)
                orders.put_many([b"%d" % at + bytes(2000) for at in some])
            killed: list[str] = []

            def kills(done: int, _: int) -> None:
                """Whoever leads; one in each call."""
                if done < 1000 or killed:
                    return
                killed.append(orders.stats(timeout=60).leader)
                [node] = [one for one in nodes.nodes if one.name == killed[-1]]
                node.kill()
                node.start()

            told = cluster.backup("orders", tmp_path / "b", timeout=60, progress=kills)
            assert (told.items, told.lost, len(killed)) == (3000, 0, 1)
            killed.clear()
            nodes.wait_for([one.name for one in nodes.nodes], 60)
            cluster.restore(tmp_path / "b", name="again", timeout=60, progress=kills)
            assert len(killed) == 1
            numbers = [int(body.rstrip(b"\0")) for body in bodies(cluster.fifo("again"))]
            assert numbers == list(range(3000))
