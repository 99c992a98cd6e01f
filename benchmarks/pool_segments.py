"""Large objects between two processes of one machine: the pool beside bare loops without any queue.

    python benchmarks/pool_segments.py [--size 1000000] [--count 3000] [--rounds 5]
        [--old REVISION] [--json]

A bare loop is two processes and one Unix socket: the producer hands over one body after another,
and waits for the word that it was read. Its body goes through the socket into memory that is made
anew; or it is copied into a segment and read in place; or it is written and read in place. The pool
has what all of them lack: promises. Objects a second, and microseconds of processor an object in
both processes together. All rows take turns in each round; told are medians. `--old` adds the pool
of another revision of this repository.
"""

import argparse
import contextlib
import json
import mmap
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.progress import track
from rich.table import Table

import snowmelt
from snowmelt.cli.local import LocalCluster

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.old_and_new import source

HERE: Final = Path(__file__).resolve().parents[1]
BARE: Final = ("bare: socket", "bare: segment, copied in", "bare: segment, written in place")
POOL: Final = ("pool: put", "pool: room")
AHEAD: Final = 5
"""So many bodies are under way at once, in the pool's buffers and in the bare loops."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--count", type=int, default=3_000, help="objects of each row and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--old", help="a revision whose pool is measured as well")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        rows = [(name, HERE / "src") for name in (*BARE, *POOL)]
        if given.old:
            rows.append(("old pool: put", source(given.old, Path(made))))
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name, _ in rows}
        for number in track(range(given.rounds), "rounds", console=Console(stderr=True)):
            for name, packages in rows if number % 2 else rows[::-1]:
                taken[name].append(side(name, packages, given.size, given.count))
    found = {
        name: (median(one for one, _ in each), median(one for _, one in each))
        for name, each in taken.items()
    }
    if given.json:
        print(json.dumps(found))
    else:
        told(found, given.size)
    return 0


def told(found: dict[str, tuple[float, float]], size: int) -> None:
    shown = Table(title=f"bodies of {size:,} bytes, one producer, one consumer")
    shown.add_column("")
    for head in ("objects a second", "processor, us an object", "of the copied segment"):
        shown.add_column(head, justify="right")
    bare = found[BARE[1]][0]
    for name, (rate, processor) in found.items():
        shown.add_row(name, f"{rate:,.0f}", f"{processor:,.0f}", f"{rate / bare:.2f}")
    Console(width=100).print(shown)


def side(name: str, packages: Path, size: int, count: int) -> tuple[float, float]:
    """One row, in a program of its own: objects a second, processor an object."""
    words = [sys.executable, __file__, "--side", name, str(size), str(count)]
    env = {**os.environ, "PYTHONPATH": f"{packages}{os.pathsep}{HERE}"}
    done = subprocess.run(words, env=env, check=True, stdout=subprocess.PIPE, timeout=300)
    seconds, processor = json.loads(done.stdout)
    return count / seconds, processor / count * 1e6


# --- one row --------------------------------------------------------------------------------------


def row(name: str, size: int, count: int) -> tuple[float, float]:
    if name in BARE:
        return bare(LOOPS[name], size, count)
    return pool(name, size, count)


def bare(loop: Callable[[socket.socket, bool, int, int], None], size: int, count: int) -> Any:
    """Both sides of a loop, the consumer in a process of its own."""
    here, there = socket.socketpair()
    child = os.fork()
    if not child:
        loop(there, False, size, count)
        os._exit(0)
    begin, used = time.perf_counter(), processor()
    loop(here, True, size, count)
    seconds = time.perf_counter() - begin
    os.waitpid(child, 0)
    return seconds, processor() - used


def through_the_socket(stream: socket.socket, gives: bool, size: int, count: int) -> None:
    body = os.urandom(size)
    for _ in range(count):
        if gives:
            stream.sendall(body)
            stream.recv(1)
            continue
        into = memoryview(bytearray(size))
        at = 0
        while at < size:
            at += stream.recv_into(into[at:])
        stream.send(b".")


def copied_in(stream: socket.socket, gives: bool, size: int, count: int) -> None:
    body = os.urandom(size)
    _in_segments(
        stream, gives, size, count, lambda view, at: view.__setitem__(slice(at, at + size), body)
    )


def in_place(stream: socket.socket, gives: bool, size: int, count: int) -> None:
    _in_segments(stream, gives, size, count, lambda view, at: view.__setitem__(at, 1))


def _in_segments(
    stream: socket.socket,
    gives: bool,
    size: int,
    count: int,
    write: Callable[[memoryview, int], None],
) -> None:
    """One file in memory with a few places, which go round."""
    if gives:
        file = os.memfd_create("bare")
        os.ftruncate(file, AHEAD * size)
        socket.send_fds(stream, [b"."], [file])
        with mmap.mmap(file, AHEAD * size) as shared, memoryview(shared) as view:
            for number in range(count):
                at = number % AHEAD * size
                write(view, at)
                stream.send(at.to_bytes(8))
                stream.recv(1)
        return
    _, (file, *_), _, _ = socket.recv_fds(stream, 1, 1)
    with (
        mmap.mmap(file, AHEAD * size, access=mmap.ACCESS_READ) as shared,
        memoryview(shared) as view,
    ):
        for _ in range(count):
            at = int.from_bytes(stream.recv(8))
            body = view[at : at + size]
            body[0], body[-1]
            stream.send(b".")
            del body


LOOPS: Final = dict(zip(BARE, (through_the_socket, copied_in, in_place), strict=True))


def pool(name: str, size: int, count: int) -> tuple[float, float]:
    """A cluster of one node, a producer in a process of its own, a loop here."""
    with tempfile.TemporaryDirectory() as folder, LocalCluster(1, Path(folder)) as cluster:
        cluster.start()
        words = [sys.executable, __file__, "--producer", name, str(size), str(count), cluster.url]
        with (
            subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as producer,
            snowmelt.connect(cluster.url) as connected,
        ):
            frames = connected.pool("frames")
            assert producer.stdout is not None
            producer.stdout.readline()  # it has joined
            looped = iter(frames.consume(timeout=20))
            next(looped)
            begin, used = time.perf_counter(), time.process_time()
            for _ in range(count):
                body = next(looped).body
                body[0], body[-1]
            seconds, here = time.perf_counter() - begin, time.process_time() - used
            looped.close()  # type: ignore[attr-defined]
            theirs, _ = producer.communicate()
        return seconds, here + float(theirs)


def produce(name: str, size: int, count: int, url: str) -> None:
    body = os.urandom(size)
    with snowmelt.connect(url) as connected:
        frames = connected.pool("frames", buffers=AHEAD)
        print("ready", flush=True)
        used = time.process_time()
        for _ in range(count + 2):
            if name.endswith("put"):
                frames.put(body, timeout=60)
            else:
                with frames.room(size, timeout=60) as room:
                    room[0] = room[-1] = 1
        print(time.process_time() - used, flush=True)
        with contextlib.suppress(snowmelt.DataLost):  # the last one went back
            frames.close(timeout=0.2)


def processor() -> float:
    """Seconds of this process and its children that have ended."""
    told = os.times()
    return told.user + told.system + told.children_user + told.children_system


if __name__ == "__main__":
    if "--side" in sys.argv:
        _, _, which, *numbers = sys.argv
        print(json.dumps(row(which, *map(int, numbers))))
    elif "--producer" in sys.argv:
        _, _, which, bytes_, objects, where = sys.argv
        produce(which, int(bytes_), int(objects), where)
    else:
        raise SystemExit(main())
