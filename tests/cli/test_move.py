"""`snowmelt move`: from queue to queue, in order, each item once, also when it is killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import snowmelt
from cli.program import piped
from snowmelt.cli.local import LocalCluster
from timing import in_vain, until

COUNT = 3_000


def numbers(queue: snowmelt.Fifo | snowmelt.PriorityQueue) -> list[int]:
    """All that is in it, in its order."""
    found: list[int] = []
    while len(found) < queue.stats().put:
        items = queue.get_many(1_000, timeout=10)
        found += [int(item.body) for item in items]
        items.ack()
    return found


def test_items_keep_their_order_their_keys_and_their_headers(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        old = cluster.priority("old", priorities=3)
        old.put(b"later", priority=2, key="a", headers={"from": "shop"})
        old.put(b"sooner", priority=1)
        cluster.priority("new", priorities=5).create()
        cluster.fifo("flat").create()
    ended = piped("move", "old", "new", "--idle", "0", "--data", str(tmp_path))
    assert (ended.returncode, ended.stdout) == (0, b"2 items of old moved to new\n"), ended.stderr
    with snowmelt.open(tmp_path) as cluster:
        new = cluster.priority("new")
        items = list(new.get_many(5))
        assert [(one.body, one.priority, one.key) for one in items] == [
            (b"sooner", 1, None),
            (b"later", 2, b"a"),
        ]
        assert items[1].headers == {"from": "shop"}
        assert cluster.priority("old").stats().done == 2
        for one in items:
            one.release()
    ended = piped("move", "new", "flat", "--idle", "0", "--data", str(tmp_path))
    assert ended.stdout == b"2 items of new moved to flat\n", ended.stderr
    with snowmelt.open(tmp_path) as cluster:
        assert [one.body for one in cluster.fifo("flat").get_many(5)] == [b"sooner", b"later"]


def test_what_is_killed_and_run_again_moves_each_item_once(cluster: LocalCluster) -> None:
    with snowmelt.connect(cluster.url) as client:
        old, new = client.fifo("kill-old", lease=600), client.fifo("kill-new")
        new.create()
        old.put_many([b"%d" % at for at in range(COUNT)])
        words = ["move", "kill-old", "kill-new", "--idle", "0", "--url", cluster.url]
        with holding(client, *words) as process:
            process.kill()
        ended = piped(*words)
        assert ended.returncode == 0, ended.stderr
        assert numbers(new) == list(range(COUNT))  # what was in its hand comes in its place
        assert old.stats().done == COUNT
        said = "of kill-old to come back, 10 s at most: an earlier move had them, process"
        assert f"{said} {process.pid} on " in ended.stderr.decode()


@contextmanager
def holding(client: snowmelt.Cluster, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A move that has items in hand just now, and waits until it may go on."""
    process = subprocess.Popen([sys.executable, "-m", "snowmelt", *words], stderr=subprocess.PIPE)
    old = client.fifo(words[1])
    while True:
        process.send_signal(signal.SIGSTOP)
        if (old.stats().leased or old.stats().done) and old.peek(1, state="leased"):
            break
        assert process.poll() is None, "it ended before it was held"
        process.send_signal(signal.SIGCONT)
        time.sleep(0.003)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_nothing_in_hand(
    cluster: LocalCluster, number: signal.Signals
) -> None:
    names = f"stop-old-{number.value}", f"stop-new-{number.value}"
    with snowmelt.connect(cluster.url) as client:
        old, new = (client.fifo(one) for one in names)
        new.create()
        old.put_many([b"%d" % at for at in range(COUNT)])
        words = ["move", *names, "--idle", "0", "--url", cluster.url]
        with holding(client, *words) as process:
            process.send_signal(number)
        assert process.returncode == 130
        assert old.stats().leased == 0
        assert old.stats().ready < COUNT
        ended = piped(*words)
        assert (ended.returncode, b"waits for" in ended.stderr) == (0, False)
        assert numbers(new) == list(range(COUNT))


def test_who_waits_for_items_ends_at_a_signal_too(cluster: LocalCluster) -> None:
    with snowmelt.connect(cluster.url) as client:
        old, new = client.fifo("idle-old"), client.fifo("idle-new")
        old.put(b"1")
        new.create()
        words = ["move", "idle-old", "idle-new", "--idle", "600", "--url", cluster.url]
        process = subprocess.Popen([sys.executable, "-m", "snowmelt", *words])
        while not new.stats().put:
            time.sleep(0.01)
        process.terminate()
        assert process.wait(timeout=30) == 130


def test_a_node_that_stands_still_for_a_moment_ends_no_move(tmp_path: Path) -> None:
    with LocalCluster(1, tmp_path, 0.5) as own:
        own.start()
        with snowmelt.connect(own.url) as client:
            old, new = client.fifo("still-old"), client.fifo("still-new")
            old.put(b"1")
            new.create()
            words = ["move", "still-old", "still-new", "--idle", "2", "--url", own.url]
            process = subprocess.Popen([sys.executable, "-m", "snowmelt", *words])
            until(lambda: new.stats().put)
            for _ in range(3):
                os.kill(own.nodes[0].pid, signal.SIGSTOP)
                time.sleep(0.5)
                os.kill(own.nodes[0].pid, signal.SIGCONT)
                time.sleep(0.2)
            assert process.wait(timeout=30) == 0


def test_bad_words_are_refused(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        cluster.fifo("idle").create()
        cluster.fifo("idle").pause()
        cluster.fifo("one").put(b"x")
    for old, new, code, text in (
        ("one", "one", 2, b"new is 'one'; allowed: another queue than one"),
        ("one", "none", 9, b"none"),
        ("idle", "one", 2, b"one that is not paused: snowmelt resume idle"),
    ):
        ended = piped("move", old, new, "--idle", "0", "--data", str(tmp_path))
        assert ended.returncode == code, ended.stderr
        assert text in ended.stderr
    with snowmelt.open(tmp_path) as cluster:
        assert cluster.fifo("one").stats().ready == 1


class Putting(threading.Thread):
    """A program that puts numbers into one queue, and goes over to another as it is told to."""

    def __init__(self, url: str, old: str, new: str, begin: int) -> None:
        super().__init__()
        self._url, self._names, self._begin = url, (old, new), begin
        self.count = 0
        self.stop = threading.Event()
        self.heard: list[str] = []

    def run(self) -> None:
        old, new = self._names
        with snowmelt.connect(self._url) as client:
            queue = client.fifo(old)
            while not self.stop.is_set():
                try:
                    queue.put(b"%d" % (self._begin + self.count), timeout=60)
                except snowmelt.QueueMoved as error:
                    self.heard.append(str(error))
                    queue = client.fifo(new)  # it names that queue
                else:
                    self.count += 1


@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 1)])
def test_a_queue_goes_over_to_other_partitions_under_load(
    cluster: LocalCluster, before: int, after: int
) -> None:
    names = old_name, new_name = f"parts-{before}-{after}", f"parts-{after}-of-{before}"
    with snowmelt.connect(cluster.url) as client:
        old = client.fifo(old_name, partitions=before)
        new = client.fifo(new_name, partitions=after)
        old.put_many([b"%d" % at for at in range(COUNT)])
        new.create()
        programs = [Putting(cluster.url, *names, COUNT + 1_000_000 * at) for at in range(2)]
        for one in programs:
            one.start()
        try:
            while not all(one.count for one in programs):
                time.sleep(0.001)
            ended = piped("move", *names, "--delete", "--url", cluster.url, "--timeout", "60")
            assert ended.returncode == 0, ended.stderr
            assert ended.stdout.endswith(
                b"is deleted: who uses that name hears that %s is in its place\n"
                % new_name.encode()
            )
            so_far = [one.count for one in programs]
            while any(one.count < some + 5 for one, some in zip(programs, so_far, strict=True)):
                time.sleep(0.001)
        finally:
            for one in programs:
                one.stop.set()
            for one in programs:
                one.join()
        for one in programs:  # each heard it once, and where to go
            (said,) = one.heard
            assert f"queue '{old_name}' was moved" in said
        found = numbers(new)
        for at, one in enumerate(programs):
            begin = COUNT + 1_000_000 * at
            own = [number for number in found if begin <= number < begin + 1_000_000]
            assert own == list(range(begin, begin + one.count))  # each once, in order
        assert [number for number in found if number < COUNT] == list(range(COUNT))
        assert sum(bool(one.stats().put) for one in new.parts()) > (after > 1)  # not all in one
        assert len(found) == COUNT + sum(one.count for one in programs)


@pytest.mark.parametrize("partitions", [1, 3])
def test_who_waits_at_a_moved_queue_or_comes_later_is_told_where_it_is(
    cluster: LocalCluster, partitions: int
) -> None:
    names = old_name, new_name = f"told-old-{partitions}", f"told-new-{partitions}"
    heard: list[BaseException] = []

    def wait() -> None:
        with snowmelt.connect(cluster.url) as own:
            try:
                own.fifo(old_name).get(timeout=60)
            except snowmelt.SnowmeltError as error:
                heard.append(error)

    with snowmelt.connect(cluster.url) as client:
        old, new = client.fifo(old_name, partitions=partitions), client.fifo(new_name)
        old.create()
        new.create()
        waiting = threading.Thread(target=wait)
        waiting.start()
        while not old.stats().waiting_gets:
            time.sleep(0.001)
        ended = piped("move", *names, "--delete", "--url", cluster.url, "--timeout", "60")
        assert ended.returncode == 0, ended.stderr
        waiting.join()
        for use in (
            lambda: old.put(b"x"),
            lambda: old.get(timeout=20),
            lambda: client.fifo(old_name).put(b"x"),
            lambda: client.fifo(old_name, lease=5).put(b"x"),
            lambda: client.fifo(old_name, partitions=2).create(),
            lambda: client.fifo(old_name).get(timeout=60),
            lambda: client.priority(old_name).put(b"x"),
            lambda: client.fifo(old_name).stats(),
        ):
            with pytest.raises(snowmelt.QueueMoved) as caught:
                use()
            heard.append(caught.value)
        for error in heard:
            assert type(error) is snowmelt.QueueMoved, error
            assert f"was in it is in {new_name!r} now, so take that one" in str(error)
            assert f"free it: snowmelt delete {old_name} --if-empty" in str(error)
        assert old_name not in client.queues()
        ended = piped("delete", old_name, "--if-empty", "--url", cluster.url)
        assert ended.returncode == 0, ended.stderr
        client.fifo(old_name).put(b"anew")
        assert client.fifo(old_name).get().body == b"anew"


def test_what_others_have_in_hand_keeps_the_old_queue(cluster: LocalCluster) -> None:
    with snowmelt.connect(cluster.url) as client:
        old, new = client.fifo("hand-old", lease=60), client.fifo("hand-new")
        old.put_many([b"0", b"1"])
        new.create()
        held = old.get()
        words = ["move", "hand-old", "hand-new", "--delete", "--url", cluster.url]
        ended = piped(*words, "--timeout", "3")
        assert (ended.returncode, b"'hand-old' has 1 leased" in ended.stderr) == (13, True)
        told = in_vain(snowmelt.Full, lambda: old.put(b"2", timeout=0.1))
        assert "'hand-old' is moved to 'hand-new' just now" in str(told)
        old.put(b"3", timeout=60)  # once that is given up
        held.ack()
        old.schedule("hourly", b"x", every="0 * * * *")
        words += ["--timeout", "60"]
        ended = piped(*words)
        assert (ended.returncode, b"has schedules (hourly)" in ended.stderr) == (13, True)
        old.unschedule("hourly")
        assert piped(*words).returncode == 0
        assert numbers(new) == [1, 3]


def test_a_fifo_goes_over_to_priorities_in_its_order_under_load(cluster: LocalCluster) -> None:
    with snowmelt.connect(cluster.url) as client:
        old = client.fifo("flat-old")
        urgent = client.priority("urgent-new", priorities=int)
        urgent.create()
        old.put_many([b"%d" % at for at in range(COUNT)])
        words = ["move", "flat-old", "urgent-new", "--idle", "4", "--url", cluster.url]
        process = subprocess.Popen([sys.executable, "-m", "snowmelt", *words])
        for at in range(COUNT, COUNT + 50):
            old.put(b"%d" % at)
        assert process.wait(timeout=60) == 0
        assert numbers(urgent) == list(range(COUNT + 50))
        assert old.stats().done == COUNT + 50


def test_who_uses_the_old_queue_is_named_before_it_is_moved(cluster: LocalCluster) -> None:
    with snowmelt.connect(cluster.url) as client:
        old = client.fifo("used-old")
        client.fifo("used-new").create()
        old.put_many([b"%d" % at for at in range(9)])
        held = old.get()
        old.group("billing").advance(items_max=3)
        words = ["move", "used-old", "used-new", "--idle", "0", "--url", cluster.url]
        ended = piped(*words)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout == b"5 items of used-old moved to used-new\n"
        said = ended.stderr.decode()
        assert f"(process {os.getpid()} on " in said
        assert "has 1 of used-old: they stay its own" in said
        assert "group billing holds 3 of used-old, which stay there" in said
        held.ack()
        assert numbers(client.fifo("used-new")) == [4, 5, 6, 7, 8]


def test_it_takes_the_rights_that_its_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, ops, mover = tmp_path / "users", "ops-0123456789abcdef", "mover-0123456789abcdef"
    lines = [f"ops {ops} admin node", f"mover {mover} get:old manage:old put:new"]
    file.write_text("\n".join(lines))
    file.chmod(0o600)
    for name, value in (("USERS", str(file)), ("USER", "ops"), ("TOKEN", ops)):
        monkeypatch.setenv(f"SNOWMELT_{name}", value)
    with LocalCluster(1, tmp_path / "cluster", 0.5) as cluster:
        cluster.start()
        with snowmelt.connect(f"{cluster.url}?user=ops", token=ops) as client:
            client.fifo("old").put_many([b"1", b"2"])
            new = client.fifo("new")
            new.create()
            client.fifo("old").get(lease=3)  # nobody acknowledges it: it comes back
            words = ["move", "old", "new", "--delete", "--url", cluster.url, "--user", "mover"]
            ended = piped(*words, SNOWMELT_TOKEN=mover)
            assert ended.returncode == 0, ended.stderr
            said = "waits for 1 item of old to come back, 10 s at most: others have them, perhaps"
            assert said in ended.stderr.decode()
            assert b"who uses old is told to an admin alone" in ended.stderr
            assert numbers(new) == [1, 2]
