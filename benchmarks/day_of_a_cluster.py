"""A day of a cluster in minutes: what an operator does to it while programs use it.

    python benchmarks/day_of_a_cluster.py [--pace 200] [--folder DIR] [--quiet]

Nodes are processes on this machine, with a file of users. Two programs put numbered orders all the
while, at a pace, and two take them; everything else is done by commands, as `docs/how-to` has them,
and each is shown. A queue is altered from one copy to three, a node is drained and replaced, all
nodes are upgraded one by one, a secret is changed, queues are backed up, one is deleted and made
again, and exported. At the end there is an account of every item: it ends with 1 if one is lost, or
came twice, or if a call of somebody failed whom nothing was done to.
"""

import argparse
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

import snowmelt
from snowmelt.cli.local import LocalNode, end_on_sigterm, free_ports
from snowmelt.core.errors import AccessDenied, Empty, SnowmeltError

ORDERS: Final = "orders"
LEDGER: Final = "ledger"
"""A queue that nobody works on: it is deleted, and made again of a backup."""
LEDGER_ITEMS: Final = 1_000
RIGHTS: Final = {
    "shop": "put:orders,ledger",
    "billing": "get:orders",
    "ops": "admin",
    "nodes": "node",
}
WITHIN: Final = 60.0
"""So long anything may take."""


class Failure(Exception):
    """A command did not end as it should."""


class Secrets:
    """The file of users that all nodes read; a user may have several secrets for a while."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._of = {user: [secrets.token_urlsafe(18)] for user in RIGHTS}
        self.given = {user: own[0] for user, own in self._of.items()}
        """What programs say."""
        self._write()

    def add(self, user: str) -> None:
        self._of[user].append(secrets.token_urlsafe(18))
        self._write()

    def give(self, user: str) -> None:
        """Its programs have the newest from now on."""
        self.given[user] = self._of[user][-1]

    def drop_old(self, user: str) -> str:
        """Only the newest is good from now on; returns one that is not."""
        old, self._of[user] = self._of[user][0], self._of[user][-1:]
        self._write()
        return old

    def _write(self) -> None:
        """Beside it, and renamed: no node reads half of it."""
        lines = [f"{user} {one} {RIGHTS[user]}\n" for user, own in self._of.items() for one in own]
        beside = self.file.with_suffix(".new")
        beside.touch(mode=0o600)
        beside.write_text("".join(lines))
        beside.rename(self.file)


class Tally(msgspec.Struct):
    """What became of orders, by number; each program adds to it under the lock."""

    put: set[bytes] = msgspec.field(default_factory=set)
    taken: Counter[bytes] = msgspec.field(default_factory=Counter)
    failed: list[str] = msgspec.field(default_factory=list)
    """Calls that ended with an error; the same was asked again."""
    longest: float = 0.0
    """Seconds that one put took, with what was asked again."""


class Programs:
    """Those of users: they put and take until they are ended."""

    def __init__(self, urls: str, known: Secrets, pace: float) -> None:
        self.tally = Tally()
        self._urls, self._known, self._pace = urls, known, pace
        self._lock = threading.Lock()
        self._no_more_puts = threading.Event()
        self._done = threading.Event()
        names = "shop-1", "shop-2"
        self._putting = [threading.Thread(target=self._put, args=(name,)) for name in names]
        self._taking = [threading.Thread(target=self._take) for _ in range(2)]

    def start(self) -> None:
        for one in (*self._putting, *self._taking):
            one.start()

    def end_puts(self) -> None:
        self._no_more_puts.set()
        _joined(self._putting)

    def end(self) -> None:
        self.end_puts()
        self._done.set()
        _joined(self._taking)

    def _put(self, name: str) -> None:
        """Each number once: a named producer asks again under the same number."""
        number = 0
        while not self._no_more_puts.is_set():
            secret = self._known.given["shop"]
            with snowmelt.connect(self._urls, user="shop", token=secret) as cluster:
                queue = cluster.fifo(ORDERS, producer=name)
                while not self._no_more_puts.is_set() and secret == self._known.given["shop"]:
                    number += 1
                    self._put_one(queue, b"%s %d" % (name.encode(), number), number)
                    self._no_more_puts.wait(2 / self._pace)

    def _put_one(self, queue: snowmelt.Fifo, body: bytes, number: int) -> None:
        began = time.monotonic()
        for _ in range(10):
            try:
                queue.put(body, sequence=number, timeout=10)
                break
            except SnowmeltError as error:
                with self._lock:
                    self.tally.failed.append(f"put: {error!r}")
        with self._lock:
            self.tally.put.add(body)
            self.tally.longest = max(self.tally.longest, time.monotonic() - began)

    def _take(self) -> None:
        secret = self._known.given["billing"]
        with snowmelt.connect(self._urls, user="billing", token=secret) as cluster:
            queue = cluster.fifo(ORDERS)
            while not self._done.is_set():
                try:
                    item = queue.get(timeout=1)
                    item.ack()
                except Empty:
                    continue
                except SnowmeltError as error:
                    with self._lock:
                        self.tally.failed.append(f"take: {error!r}")
                    continue
                with self._lock:
                    self.tally.taken[item.body] += 1


def _joined(threads: list[threading.Thread]) -> None:
    for one in threads:
        if one.ident is not None:  # it was started
            one.join(WITHIN)


class Day:
    """The cluster, and who operates it."""

    def __init__(self, folder: Path, *, quiet: bool) -> None:
        self.folder = folder
        self.known = Secrets(folder / "users")
        self._quiet = quiet
        ports = free_ports(4)
        self.nodes = {f"n{at}": self._node(f"n{at}", ports, at) for at in (1, 2, 3, 4)}
        self.urls = "snowmelt://" + ",".join(one.address for one in self.nodes.values())

    def _node(self, name: str, ports: list[int], at: int) -> LocalNode:
        options = ["--users", str(self.known.file), "--misses", "4"]
        if at > 1:
            options += ["--join", f"127.0.0.1:{ports[0]}"]
        return LocalNode(name, ports[at - 1], self.folder / name, options)

    def say(self, text: str) -> None:
        print(text, flush=True)

    def command(self, *words: str, user: str = "ops", secret: str = "", good: int = 0) -> str:
        """Does one, shows it, and returns what it printed."""
        if not self._quiet:
            self.say(f"  $ snowmelt {' '.join(words)}".replace(str(self.folder), "."))
        token = {"SNOWMELT_USER": user, "SNOWMELT_TOKEN": secret or self.known.given[user]}
        done = subprocess.run(
            [sys.executable, "-m", "snowmelt", *words],
            env=os.environ | {"SNOWMELT_URL": self.urls} | token,
            capture_output=True,
            text=True,
            timeout=2 * WITHIN,
            check=False,
        )
        if done.returncode != good:
            raise Failure(f"snowmelt {' '.join(words)} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def whole(self, nodes: int) -> None:
        """As the page on upgrades asks: so many nodes are there, and no copy is missing."""
        end = time.monotonic() + WITHIN
        while time.monotonic() < end:
            members = self._tried("status").count(" member") + 1
            if members == nodes and not any(
                word in self._tried("queues") for word in ("short of copies", "away")
            ):
                return
            time.sleep(0.3)
        raise Failure(f"the cluster is not whole:\n{self._tried('status')}{self._tried('queues')}")

    def _tried(self, *words: str) -> str:
        quiet, self._quiet = self._quiet, True
        try:
            return self.command(*words)
        except Failure as failure:
            return f"away: {failure}"
        finally:
            self._quiet = quiet

    @contextmanager
    def hour(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        self.say(what)
        yield
        self.say(f"  done in {time.monotonic() - began:.1f} s")

    # --- the day ----------------------------------------------------------------------------------

    def begin(self) -> None:
        with self.hour("A cluster of one node, and two queues"):
            first = self.nodes["n1"]
            first.found()
            first.start()
            self.whole(1)
            self.command("create", ORDERS, "--replicas", "1", "--lease", "10")
            self.command("create", LEDGER)
            lines = [f"line {at}" for at in range(LEDGER_ITEMS)]
            (self.folder / "lines").write_text("\n".join(lines))
            self.command(
                "put", LEDGER, "--lines", "--file", str(self.folder / "lines"), user="shop"
            )

    def grow(self) -> None:
        with self.hour("Two more nodes; from one copy to three"):
            for name in ("n2", "n3"):
                self.nodes[name].start()
            self.whole(3)
            self.command("alter", ORDERS, "--replicas", "3")
            self.whole(3)

    def replace(self) -> None:
        with self.hour("A fourth node takes the place of n2"):
            self.nodes["n4"].start()
            self.whole(4)
            self.command("drain", "n2")
            self.nodes["n2"].stop()
            shutil.rmtree(self.nodes["n2"].folder)
            self.command("forget", "n2")
            self.whole(3)

    def upgrade(self) -> None:
        with self.hour("All nodes are stopped and started anew, one by one"):
            for name in ("n3", "n4"):
                self.nodes[name].stop()
                self.nodes[name].start()
                self.whole(3)
            self.command("drain", "n1")
            self.nodes["n1"].stop()
            self.nodes["n1"].start()
            self.whole(3)

    def change_secret(self) -> None:
        with self.hour("The shop's secret is changed"):
            self.known.add("shop")
            reachable = "snowmelt://" + ",".join(
                self.nodes[name].address for name in ("n1", "n3", "n4")
            )
            self.command("reload", "--url", reachable)
            self.known.give("shop")
            time.sleep(2)  # its programs connect anew
            old = self.known.drop_old("shop")
            self.command("reload", "--url", reachable)
            try:
                with snowmelt.connect(self.urls, user="shop", token=old) as cluster:
                    cluster.fifo(ORDERS).put(b"by the old secret")
                raise Failure("the old secret is still good")
            except AccessDenied:
                pass

    def lose_and_restore(self) -> None:
        with self.hour("All is backed up; one queue is deleted, made again, and exported"):
            copies = self.folder / "monday"
            self.command("backup", str(copies))
            self.command("delete", LEDGER, "--yes")
            self.command("restore", str(copies / f"{LEDGER}.backup"))
            rows = self.command("export", LEDGER).splitlines()
            found = sorted(json.loads(row)["body"] for row in rows)
            if found != sorted(f"line {at}" for at in range(LEDGER_ITEMS)):
                raise Failure(f"{len(found)} lines came back, and not each of {LEDGER_ITEMS} once")

    def end(self) -> None:
        for node in reversed(self.nodes.values()):
            if node.running:
                node.stop()


def account(tally: Tally, left: int) -> list[str]:
    """What is wrong, of every item."""
    lost = tally.put - set(tally.taken)
    twice = [body for body, count in tally.taken.items() if count > 1]
    strange = set(tally.taken) - tally.put
    print(f"orders put: {len(tally.put)}, taken: {sum(tally.taken.values())}, left: {left}")
    print(f"longest put: {tally.longest:.2f} s; calls that failed: {len(tally.failed)}")
    for text in sorted(set(tally.failed)):
        print(f"  {text}")
    found = {
        "are lost": sorted(lost),
        "came twice": twice,
        "were never put": sorted(strange),
        "are left": [b"?"] * left,
        "calls failed": [one.encode() for one in tally.failed],
    }
    return [f"{len(some)} {how}: {some[:5]}" for how, some in found.items() if some]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="day_of_a_cluster", description=__doc__.splitlines()[0])
    parser.add_argument("--pace", type=float, default=200.0, help="orders a second")
    parser.add_argument("--folder", help="where the nodes' disks are to be")
    parser.add_argument("--quiet", action="store_true", help="without each command")
    options = parser.parse_args(argv)
    if not 1 <= options.pace <= 10_000:
        parser.error("--pace: 1 to 10000")
    end_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="day-", dir=options.folder) as folder:
        day = Day(Path(folder), quiet=options.quiet)
        programs = Programs(day.urls, day.known, options.pace)
        try:
            day.begin()
            programs.start()
            for work in (day.grow, day.replace, day.upgrade, day.change_secret):
                work()
            day.lose_and_restore()
            programs.end_puts()
            time.sleep(3)
            programs.end()
            left = json.loads(day.command("stats", ORDERS, "--json"))
            wrong = account(programs.tally, left["ready"] + left["leased"] + left["dead"])
        except Failure as failure:
            wrong = [str(failure)]
        finally:
            programs.end()
            day.end()
    print("\n".join(f"WRONG: {one}" for one in wrong) or "Every item is accounted for.")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
