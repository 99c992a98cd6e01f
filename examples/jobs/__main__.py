"""`python -m jobs`: urgent and patient jobs, workers that fail and die, and an account of each."""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

import snowmelt
from jobs.worker import PASSING
from snowmelt.cli.local import LocalCluster, end_on_sigterm
from snowmelt.core.errors import SnowmeltError

KINDS = ("alert", "report", "sweep")
"""By urgency: the number of each is its priority."""
WORKERS = ("loop", "single", "tasks")
"""Kinds of workers, in turn (`worker.py`)."""
LEASE = 2.0
TRIES = 4
HOPELESS = 99
"""So often such a job fails: it ends as a dead one."""

Process = subprocess.Popen[str]
Job = dict[str, Any]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m jobs", description=__doc__)
    parser.add_argument("--jobs", type=int, default=600)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--work", type=float, default=0.01, help="seconds that a job takes")
    parser.add_argument("--kill", type=int, default=1, help="so many workers are killed meanwhile")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds for all of it")
    parser.add_argument("--url", help="a cluster with no jobs yet; if none, three nodes of its own")
    options = parser.parse_args()
    if options.jobs < 10 or options.work < 0 or options.patience <= 0:
        parser.error("--jobs is 10 or more, --work 0 or more, --patience above 0")
    if not 0 <= options.kill < options.workers:
        parser.error("--kill is less than --workers: somebody must do the work")
    return options


def _main() -> int:
    options = _options()
    end_on_sigterm()
    with ExitStack() as stack:
        url = options.url or _own_nodes(stack)
        cluster = stack.enter_context(snowmelt.connect(url))
        jobs = cluster.priority(
            "jobs", priorities=len(KINDS), replicas=2, lease=LEASE, max_deliveries=TRIES
        )
        orders = _orders(options.jobs, options.work)
        patient = [one for one in orders if one["kind"] != "alert"]
        _put(jobs, patient)
        workers = stack.enter_context(_started(options.workers, url))
        print(f"{options.workers} workers are at it, {len(patient)} jobs are there", flush=True)
        _put(jobs, [one for one in orders if one["kind"] == "alert"])  # while they work
        done = _results(cluster, workers, orders, options)
        dead = jobs.peek(len(orders), dead=True)
        return _account(orders, done, dead, jobs.stats())


def _orders(count: int, seconds: float) -> list[Job]:
    """One in six is an alert; one in ten fails at first; the last of each kind always does."""
    chance = random.Random(9)
    orders = [
        {
            "number": number,
            "kind": "alert" if number % 6 == 0 else chance.choice(KINDS[1:]),
            "fails": chance.randrange(1, TRIES) if chance.random() < 0.1 else 0,
            "seconds": seconds,
        }
        for number in range(count)
    ]
    for kind in KINDS:
        [one for one in orders if one["kind"] == kind][-1]["fails"] = HOPELESS
    return orders


def _put(jobs: snowmelt.PriorityQueue, orders: list[Job]) -> None:
    made = time.time()
    for one in orders:
        one["made"] = made
    jobs.put_many([(KINDS.index(one["kind"]), json.dumps(one).encode()) for one in orders])


def _own_nodes(stack: ExitStack) -> str:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="jobs-")))
    cluster = stack.enter_context(LocalCluster(3, folder, 0.5))
    print(f"{cluster.start()} is up", flush=True)
    return cluster.url


@contextmanager
def _started(count: int, url: str) -> Iterator[list[Process]]:
    """So many workers, ready; they end with this."""
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    workers: list[Process] = []
    try:
        for number in range(count):
            command = [sys.executable, "-m", "jobs.worker", url, f"w{number + 1}"]
            command.append(WORKERS[number % len(WORKERS)])
            pipe = subprocess.PIPE
            workers.append(
                subprocess.Popen(  # noqa: S603  this very example's
                    command, stdin=pipe, stdout=pipe, text=True, env=environment
                )
            )
        for one in workers:
            assert one.stdout is not None
            if not one.stdout.readline():
                raise SystemExit("a worker ended by itself; its last words are above")
        yield workers
        for one in workers:
            assert one.stdin is not None
            one.stdin.close()
        for one in workers:
            one.wait(30)
    finally:
        for one in workers:
            one.kill()
            with one:
                pass


def _results(
    cluster: snowmelt.Cluster,
    workers: list[Process],
    orders: list[Job],
    options: argparse.Namespace,
) -> list[Job]:
    """What the workers told, until each job is done or dead; some are killed on the way."""
    jobs, results = cluster.priority("jobs"), cluster.fifo("done")
    end = time.monotonic() + options.patience
    done: list[Job] = []
    numbers: set[int] = set()
    kills = options.kill
    while time.monotonic() < end:
        with suppress(*PASSING):  # a node that had no time to answer is asked again
            for item in results.consume(timeout=0.2):
                done.append(json.loads(item.body))
                numbers.add(done[-1]["number"])
                item.ack()
                if kills and len(numbers) > len(orders) // 3:
                    kills -= 1
                    workers[kills].kill()
                    print("a worker was killed", flush=True)
            if len(numbers) + jobs.stats().dead >= len(orders):
                break
    return done


def _account(orders: list[Job], done: list[Job], dead: list[snowmelt.Seen], stats: Any) -> int:
    """Prints what became of every job; 1 when something is not as it must be."""
    times = Counter(one["number"] for one in done)
    given_up = {json.loads(one.body)["number"] for one in dead}
    lost = [one for one in orders if one["number"] not in times | dict.fromkeys(given_up)]
    print(f"{len(orders):8,}  jobs")
    print(f"{len(times):8,}  done by {len({one['worker'] for one in done})} workers")
    print(f"{len(given_up):8,}  given up after {TRIES} tries")
    print(f"{len(lost):8,}  lost")
    print(f"{len(done) - len(times):8,}  done twice (a worker was killed before it could say so)")
    print(f"{sum(one['failures'] for one in done):8,}  tries in vain of those that were done")
    kind_of = {one["number"]: one["kind"] for one in orders}
    waits = {
        kind: median([one["waited"] for one in done if kind_of[one["number"]] == kind])
        for kind in KINDS
    }
    for kind, wait in waits.items():
        print(f"{wait:8.2f}  s a job of kind {kind} waited, the median")
    urgent_first = waits["alert"] <= waits["report"] <= waits["sweep"]
    hopeless = {one["number"] for one in orders if one["fails"] == HOPELESS}
    good = not lost and given_up >= hopeless and not stats.ready and urgent_first
    return 0 if good else 1


if __name__ == "__main__":
    try:
        raise SystemExit(_main())
    except SnowmeltError as error:
        raise SystemExit(f"jobs: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
