"""How many tasks Celery does over Snowmelt, beside Redis, in one run.

    python doors/benchmarks/celery_beside_redis.py [--tasks 500] [--rounds 3]

A program puts tasks that do nothing one by one, a worker of two processes works them off, and the
program gets each result. Each server is both broker and result backend. Redis flushes before it
answers, or every second; Snowmelt flushes before it answers. The servers take turns. Printed are
tasks a second, the median of the rounds, and the processor time of the server a task.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import snowmelt_doors.celery  # noqa: F401  # it makes the scheme known
from celery import Celery
from snowmelt.cli.local import LocalCluster, free_port

HERE = Path(__file__).parent
BUILD = Path("build/suites/celery")
TICKS = os.sysconf("SC_CLK_TCK")
KINDS = ("Snowmelt", "Redis, always", "Redis, every second")
WORDS = ("put", "worked off, and results got")

app = Celery("celery_beside_redis", broker=os.environ.get("SPEED_URL"))
app.conf.update(
    result_backend=os.environ.get("SPEED_URL"),
    broker_connection_retry_on_startup=True,
    task_acks_late=os.environ.get("SPEED_LATE") == "yes",
)


@app.task
def nothing(number: int) -> int:
    """What is measured is all around it."""
    return number


class Spent(NamedTuple):
    """What some work took."""

    rate: float
    """Tasks a second."""
    cost: float
    """Microseconds of the server's processor a task."""


@contextmanager
def served(kind: str, folder: Path) -> Iterator[tuple[str, int]]:
    """A URL for broker and results, and the server's process."""
    if kind == "Snowmelt":
        with LocalCluster(1, folder, 0.5) as cluster:
            cluster.start()
            yield cluster.url, cluster.nodes[0].pid
        return
    port, flush = free_port(), "everysec" if kind.endswith("second") else "always"
    quiet = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    command = ["redis-server", *quiet, "--appendonly", "yes", "--appendfsync", flush]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield f"redis://127.0.0.1:{port}/0", server.pid
    finally:
        server.terminate()
        server.wait(20)


def seconds(pid: int) -> float:
    """Of processor that a process had."""
    row = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(row[11]) + int(row[12])) / TICKS


@contextmanager
def worker(url: str, folder: Path) -> Iterator[None]:
    """A worker with two processes."""
    command = [sys.executable, "-m", "celery", "-A", "celery_beside_redis", "worker"]
    with (folder / "log").open("ab") as log:
        started = subprocess.Popen(
            [*command, "--concurrency", "2", "--loglevel", "WARNING"],
            cwd=HERE, env=os.environ | {"SPEED_URL": url}, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield
    finally:
        os.killpg(started.pid, signal.SIGTERM)
        started.wait(30)


def measured(url: str, pid: int, tasks: int, folder: Path) -> list[Spent]:
    """Puts, and then the rest; the worker is warm."""
    app.conf.update(broker_url=url, result_backend=url)
    app.set_current()

    def timed(work: Any) -> Spent:
        before, began = seconds(pid), time.monotonic()
        work()
        took = time.monotonic() - began
        return Spent(tasks / took, (seconds(pid) - before) / tasks * 1e6)

    asked: list[Any] = []
    with worker(url, folder):
        assert [nothing.delay(at).get(timeout=60) for at in range(20)] == list(range(20))
    puts = timed(lambda: asked.extend(nothing.delay(at) for at in range(tasks)))
    with worker(url, folder):
        asked[0].get(timeout=60)  # it works by now
        work = timed(lambda: [one.get(timeout=60) for one in asked])
    app.close()
    return [puts, work]


def alone(kind: str, tasks: int) -> None:
    """In a process of its own, since an app of Celery keeps its backend."""
    with tempfile.TemporaryDirectory() as folder, served(kind, Path(folder)) as (url, pid):
        for word, one in zip(WORDS, measured(url, pid, tasks, Path(folder)), strict=True):
            print(word, one.rate, one.cost, sep="\t", flush=True)


def main() -> None:
    """Prints a row for each server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=KINDS, help="one server, once")
    options = parser.parse_args()
    if options.only:
        alone(options.only, options.tasks)
        return
    sys.path.insert(0, str(HERE.parent / "suites"))
    from running import extras, paths  # noqa: PLC0415

    own = os.environ | {"PYTHONPATH": paths(extras(BUILD / "speed", ["redis==8.1.0"]))}
    found: dict[tuple[str, str], list[Spent]] = {}
    for number in range(options.rounds):
        for kind in KINDS[number % 3 :] + KINDS[: number % 3]:
            command = [sys.executable, __file__, "--only", kind, "--tasks", str(options.tasks)]
            told = subprocess.run(command, check=True, capture_output=True, text=True, env=own)
            for line in told.stdout.splitlines():
                word, *figures = line.split("\t")
                found.setdefault((kind, word), []).append(Spent(*map(float, figures)))
                print(f"{kind}: {line}", flush=True)
    print("\n| | " + " | ".join(WORDS) + " |\n|---|" + "---|" * len(WORDS))
    for kind in KINDS:
        cells = [
            f"{median(one.rate for one in some):.0f} ({median(one.cost for one in some):.0f} us)"
            for some in (found[kind, word] for word in WORDS)
        ]
        print(f"| {kind} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
