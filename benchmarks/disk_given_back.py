"""What a node's disk holds while gigabytes go in and out, and what a put costs meanwhile.

    python benchmarks/disk_given_back.py [--gigabytes 1] [--kept 0] [--bytes 100000]
        [--seconds 60] [--in-turn] [--folder DIR] [--json FILE]

One node in another process. So many gigabytes are put into a queue and taken out again, but for
those that are kept. All the while a second client puts items of 100 bytes into another queue, one
after another. Each second the bytes on the disk are noted, those of a file that has lost its name
too, and what a put took in the mean and at most. `copying` is from the first byte of the new file
until the old one is gone; `quiet` is after that. Linux only.

Disks are slower in one minute than in the next. With `--in-turn` the node copies and frees for five
seconds and rests for five, so that the two are compared on the same disk.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

import msgspec

import snowmelt
from snowmelt.cli.local import LocalCluster, LocalNode, end_on_sigterm
from snowmelt.cli.main import run as run_command
from snowmelt.store.room import Room
from snowmelt.store.shrinking import Shrinking

SMALL: Final = os.urandom(100)
BATCH_BYTES: Final = 4 << 20
QUIET_SECONDS: Final = 20
TURN_SECONDS: Final = 5.0
AS_NODE: Final = "--as-node"


class Second(msgspec.Struct, frozen=True):
    """One second of the run."""

    at: float
    phase: str
    rests: bool
    """The node rests, if it takes turns."""
    disk_bytes: int
    puts: int
    mean_ms: float
    most_ms: float


class NodeInTurn(subprocess.Popen[bytes]):
    """A node whose store copies and frees in turn; this file is its program."""

    def __init__(self, command: list[str], **options: Any) -> None:
        super().__init__([command[0], __file__, AS_NODE, *command[3:]], **options)


def resting_for(moment: float) -> float:
    """Seconds until a node that takes turns works again; all processes have the same clock."""
    return max(0.0, TURN_SECONDS - moment % (2 * TURN_SECONDS))


def work_in_turn() -> None:
    """Makes a node of this process."""
    rest = Shrinking.rest

    def in_turn(self: Shrinking, room: Room) -> float | None:
        least = rest(self, room)
        return None if least is None else max(least, resting_for(time.monotonic()))

    Shrinking.rest = in_turn  # type: ignore[method-assign]
    sys.argv.remove(AS_NODE)
    run_command()


class Puts:
    """One client that puts small items, one after another, in a thread of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._took: list[float] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def taken(self) -> list[float]:
        """Milliseconds of each since the last time."""
        with self._lock:
            took, self._took = self._took, []
        return took

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        with snowmelt.connect(self._url) as cluster:
            queue = cluster.fifo("small")
            while not self._ended.is_set():
                began = time.perf_counter()
                queue.put(SMALL)
                took = (time.perf_counter() - began) * 1e3
                with self._lock:
                    self._took.append(took)


class Watch:
    """Notes each second what the disk holds and what puts took."""

    def __init__(self, node: LocalNode, folder: Path, puts: Puts) -> None:
        self.phase = "in"
        self.seconds: list[Second] = []
        self._node, self._folder, self._puts = node, folder, puts
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def moving(self) -> bool:
        """Whether there is a new file, or an old one without a name."""
        return self._copy().exists() or bool(self._unnamed())

    def length(self) -> int:
        return self._records().stat().st_size

    def _run(self) -> None:
        while not self._ended.wait(1):
            took = self._puts.taken() or [0.0]
            files = [path.stat() for path in self._folder.rglob("*") if path.is_file()]
            held = sum(one.st_blocks * 512 for one in files) + self._unnamed()
            at = round(time.monotonic() - self._began, 1)
            mean, most = round(fmean(took), 3), round(max(took), 1)
            rests = resting_for(time.monotonic() - 0.5) > 0  # in the middle of this second
            self.seconds.append(Second(at, self.phase, rests, held, len(took), mean, most))

    def _records(self) -> Path:
        return next(self._folder.rglob("records"))

    def _copy(self) -> Path:
        return self._records().with_suffix(".new")

    def _unnamed(self) -> int:
        held = 0
        for handle in Path(f"/proc/{self._node.pid}/fd").iterdir():
            try:
                if handle.readlink().name == "records (deleted)":
                    held = max(held, handle.stat().st_blocks * 512)
            except OSError:
                continue  # it was closed meanwhile
        return held


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="disk_given_back", description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--kept", type=float, default=0.0, help="of them, left in the queue")
    parser.add_argument("--bytes", type=int, default=100_000, help="of an item")
    parser.add_argument("--seconds", type=float, default=60.0, help="to wait for the disk")
    parser.add_argument("--in-turn", action="store_true", help="five seconds at rest, five not")
    parser.add_argument("--folder", help="where the node's disk is to be")
    parser.add_argument("--json", help="a file for each second's numbers")
    options = parser.parse_args(argv)
    if not 1 <= options.bytes <= BATCH_BYTES or not 0 <= options.kept < options.gigabytes:
        parser.error(f"--bytes: 1 to {BATCH_BYTES}; --kept: less than --gigabytes")
    end_on_sigterm()
    if options.in_turn:
        LocalNode.popen = NodeInTurn
    with (
        tempfile.TemporaryDirectory(prefix="disk-", dir=options.folder) as folder,
        LocalCluster(1, Path(folder)) as nodes,
    ):
        nodes.start()
        puts = Puts(nodes.url)
        watch = Watch(nodes.nodes[0], Path(folder), puts)
        try:
            run(nodes.url, watch, options)
        finally:
            watch.end()
            puts.end()
        told(watch.seconds)
        if options.in_turn:
            compared([one for one in watch.seconds if one.phase == "copying" and one.puts])
        if options.json:
            Path(options.json).write_text(json.dumps(msgspec.to_builtins(watch.seconds)))
    return 0


def run(url: str, watch: Watch, options: argparse.Namespace) -> None:
    """In, out, and until the disk has it back."""
    count = int(options.gigabytes * 1e9 / options.bytes)
    kept = int(options.kept * 1e9 / options.bytes)
    batch = max(1, BATCH_BYTES // options.bytes)
    with snowmelt.connect(url) as cluster:
        queue = cluster.fifo("large")
        for start in range(0, count, batch):
            items = min(batch, count - start)
            queue.put_many([os.urandom(options.bytes) for _ in range(items)])
        watch.phase, left = "out", count - kept
        while left:
            taken = queue.get_many(min(batch, left), timeout=30)
            left -= len(taken)
            taken.ack()
        watch.phase = "waiting"
        end = time.monotonic() + options.seconds
        while time.monotonic() < end and watch.phase != "quiet":
            time.sleep(0.02)
            if watch.moving():
                watch.phase = "copying"
            elif watch.phase == "copying":
                watch.phase = "quiet"
        time.sleep(QUIET_SECONDS)


def told(seconds: list[Second]) -> None:
    for one in seconds:
        print(
            f"{one.at:7.1f} s  {one.phase:8} disk {one.disk_bytes / 1e6:9.1f} MB  "
            f"{one.puts:5} puts, mean {one.mean_ms:7.3f} ms, most {one.most_ms:7.1f} ms"
        )
    for phase in ("in", "out", "waiting", "copying", "quiet"):
        part = [one for one in seconds if one.phase == phase]
        if part:
            print(
                f"{phase:8} {len(part):4} s, disk at the end {part[-1].disk_bytes / 1e6:.1f} MB; "
                f"puts a second {median(one.puts for one in part):.0f}, mean "
                f"{fmean(one.mean_ms for one in part):.3f} ms, most "
                f"{max(one.most_ms for one in part):.1f} ms"
            )


def compared(seconds: list[Second]) -> None:
    """The seconds in which it worked, beside those in which it rested."""
    means = []
    for rests, word in ((False, "at work"), (True, "at rest")):
        part = [one for one in seconds if one.rests == rests]
        means.append(sum(one.puts * one.mean_ms for one in part) / sum(one.puts for one in part))
        print(
            f"{word:8} {len(part):4} s, a put {means[-1]:.3f} ms in the mean, most "
            f"{max(one.most_ms for one in part):.1f} ms"
        )
    print(f"at work a put takes {means[0] / means[1]:.3f} times as long")


if __name__ == "__main__":
    if sys.argv[1:2] == [AS_NODE]:
        work_in_turn()
    raise SystemExit(main())
