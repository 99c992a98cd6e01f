"""A day of a cluster in minutes: what an operator does to it while programs use it.

    python benchmarks/day_of_a_cluster.py [--from WHEEL] [--pace 200] [--folder DIR] [--quiet]

Nodes are processes on this machine, with a file of users. Two programs put numbered orders all the
while, at a pace, and take them; everything else is done by commands, as `docs/how-to` has them, and
each is shown. A queue is altered from one copy to three, a node is drained and replaced, all nodes
are upgraded one by one from the version of a wheel to this one, then commands and programs are, a
secret is changed, queues are backed up, one is deleted and made again, and exported. At the end
there is an account of every item: it ends with 1 if one is lost, or came twice, or if a call of
somebody failed whom nothing was done to.

The wheel is that of the last release. Without one it is built from this tree with another number,
which shows the way of an upgrade, but not that two releases understand each other.
"""

import argparse
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

import snowmelt
from snowmelt.cli.local import LocalNode, end_on_sigterm, free_ports
from snowmelt.core.errors import AccessDenied

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.day_of_a_cluster_parts import other_version, shop
from benchmarks.day_of_a_cluster_parts.shop import ORDERS, Tally

NAMES: Final = ("shop-1", "shop-2")
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
        self.given_file = file.with_suffix(".given")
        self._write()

    def add(self, user: str) -> None:
        self._of[user].append(secrets.token_urlsafe(18))
        self._write()

    def give(self, user: str) -> None:
        """Its programs have the newest from now on."""
        self.given[user] = self._of[user][-1]
        self._write()

    def drop_old(self, user: str) -> str:
        """Only the newest is good from now on; returns one that is not."""
        old, self._of[user] = self._of[user][0], self._of[user][-1:]
        self._write()
        return old

    def _write(self) -> None:
        lines = [f"{user} {one} {RIGHTS[user]}\n" for user, own in self._of.items() for one in own]
        _renew(self.file, "".join(lines))
        _renew(self.given_file, json.dumps(self.given))


def _renew(file: Path, text: str) -> None:
    """Beside it, and renamed: nobody reads half of it."""
    beside = file.with_suffix(".new")
    beside.touch(mode=0o600)
    beside.write_text(text)
    beside.rename(file)


class Programs:
    """Those of users: they put and take until they are ended."""

    def __init__(self, urls: str, known: Secrets, pace: float) -> None:
        self.tallies: list[Tally] = []
        """Of those that have ended."""
        self._options = ["--urls", urls, "--secrets", str(known.given_file)]
        self._options += ["--pace", str(pace / len(NAMES))]
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, python: str, names: Sequence[str] = NAMES, after: int = 0) -> None:
        for name in names:
            command = [python, shop.__file__, *self._options, "--name", name, "--after", str(after)]
            self._running[name] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )

    def upgrade(self, python: str) -> None:
        """One by one; each goes on with the number after its last."""
        for name in NAMES:
            self._no_more_puts(name)
            self.start(python, [name], self._end(name).last)

    def end_puts(self) -> None:
        for name in self._running:
            self._no_more_puts(name)

    def end(self) -> None:
        for name in list(self._running):
            self._end(name)

    def kill(self) -> None:
        """Those that still run, of a day that failed."""
        for process in self._running.values():
            process.kill()
            process.wait()

    def _no_more_puts(self, name: str) -> None:
        given = self._running[name].stdin
        assert given is not None
        given.write(b"no more puts\n")
        given.flush()

    def _end(self, name: str) -> Tally:
        process = self._running.pop(name)
        try:
            told, _ = process.communicate(timeout=WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Failure(f"{name} does not end") from None
        if process.returncode:
            raise Failure(f"{name} ended with {process.returncode}")
        self.tallies.append(msgspec.json.decode(told, type=Tally))
        return self.tallies[-1]


class Day:
    """The cluster, and who operates it."""

    def __init__(self, folder: Path, wheel: Path | None, *, quiet: bool) -> None:
        self.folder = folder
        (folder / "wheel").mkdir()
        wheel = wheel or other_version.built(folder / "wheel")
        self.python, self.version = other_version.installed(wheel, folder / "before")
        """What commands run with, and its version: the one before, until the upgrade."""
        self.known = Secrets(folder / "users")
        self._quiet = quiet
        ports = free_ports(4)
        self.nodes = {f"n{at}": self._node(f"n{at}", ports, at) for at in (1, 2, 3, 4)}
        self.urls = "snowmelt://" + ",".join(one.address for one in self.nodes.values())

    def _node(self, name: str, ports: list[int], at: int) -> LocalNode:
        options = ["--users", str(self.known.file), "--misses", "4"]
        if at > 1:
            options += ["--join", f"127.0.0.1:{ports[0]}"]
        node = LocalNode(name, ports[at - 1], self.folder / name, options)
        node.python = self.python
        return node

    def say(self, text: str) -> None:
        print(text, flush=True)

    def command(self, *words: str, user: str = "ops", secret: str = "", good: int = 0) -> str:
        """Does one, shows it, and returns what it printed."""
        if not self._quiet:
            self.say(f"  $ snowmelt {' '.join(words)}".replace(str(self.folder), "."))
        token = {"SNOWMELT_USER": user, "SNOWMELT_TOKEN": secret or self.known.given[user]}
        done = subprocess.run(
            [self.python, "-m", "snowmelt", *words],
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

    def upgrade(self, programs: Programs) -> None:
        new = sys.executable
        with self.hour(f"From {self.version} to {snowmelt.__version__}, node by node"):
            for done, name in enumerate(("n3", "n4"), start=1):
                self._upgrade_node(name, new)
                self.versions({self.version: 3 - done, snowmelt.__version__: done})
            self.command("drain", "n1")
            self._upgrade_node("n1", new)
            self.python = new
            programs.upgrade(new)
            self.versions({snowmelt.__version__: 3})

    def _upgrade_node(self, name: str, python: str) -> None:
        node = self.nodes[name]
        node.stop()
        node.python = python
        node.start()
        self.whole(3)

    def versions(self, wanted: dict[str, int]) -> None:
        """So many nodes run each version, as `status` shows them."""
        members = json.loads(self.command("status", "--json"))["view"]["members"]
        found = Counter(one.get("version") for one in members)
        if found != Counter(wanted):
            raise Failure(f"nodes by version are {dict(found)}, not {wanted}")

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


def account(tallies: list[Tally], left: int) -> list[str]:
    """What is wrong, of every item."""
    put = {order for tally in tallies for order in tally.put}
    taken = sum((Counter(tally.taken) for tally in tallies), Counter[str]())
    failed = [text for tally in tallies for text in tally.failed]
    by_version: Counter[str] = Counter()
    for tally in tallies:
        by_version[tally.version] += len(tally.put)
    print(f"orders put: {len(put)}, taken: {sum(taken.values())}, left: {left}")
    print("put by version: " + ", ".join(f"{one}: {count}" for one, count in by_version.items()))
    longest = max((tally.longest for tally in tallies), default=0.0)
    print(f"longest put: {longest:.2f} s; calls that failed: {len(failed)}")
    for text in sorted(set(failed)):
        print(f"  {text}")
    found = {
        "are lost": sorted(put - set(taken)),
        "came twice": [order for order, count in taken.items() if count > 1],
        "were never put": sorted(set(taken) - put),
        "are left": ["?"] * left,
        "calls failed": failed,
    }
    wrong = [f"{len(some)} {how}: {some[:5]}" for how, some in found.items() if some]
    return wrong if len(by_version) > 1 else [*wrong, "all programs ran one version"]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="day_of_a_cluster", description=__doc__.splitlines()[0])
    parser.add_argument("--from", type=Path, dest="wheel", help="the wheel of the version before")
    parser.add_argument("--pace", type=float, default=200.0, help="orders a second")
    parser.add_argument("--folder", help="where the nodes' disks are to be")
    parser.add_argument("--quiet", action="store_true", help="without each command")
    options = parser.parse_args(argv)
    if not 1 <= options.pace <= 10_000:
        parser.error("--pace: 1 to 10000")
    end_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="day-", dir=options.folder) as folder:
        try:
            day = Day(Path(folder), options.wheel, quiet=options.quiet)
        except other_version.NotBuilt as error:
            print(f"WRONG: there is no other version: {error}")
            return 1
        programs = Programs(day.urls, day.known, options.pace)
        try:
            day.begin()
            programs.start(day.python)
            day.grow()
            day.replace()
            day.upgrade(programs)
            day.change_secret()
            day.lose_and_restore()
            programs.end_puts()
            time.sleep(3)
            programs.end()
            left = json.loads(day.command("stats", ORDERS, "--json"))
            wrong = account(programs.tallies, left["ready"] + left["leased"] + left["dead"])
        except Failure as failure:
            wrong = [str(failure)]
        finally:
            programs.kill()
            day.end()
    print("\n".join(f"WRONG: {one}" for one in wrong) or "Every item is accounted for.")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
