"""Puts jobs one by one with no worker there, and then starts the workers, until all are done."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

from benchmarks.peers import cores
from benchmarks.peers.comparison import Figures, Limits, TurnFailed
from benchmarks.peers.jobs.libraries import JobsPeer
from benchmarks.peers.processes import last_words, worked
from benchmarks.peers.servers.python import ROOT

LOOK_SECONDS: Final = 0.002
STOP_SECONDS: Final = 20.0
PUT_SECONDS: Final = 600.0
STILL_SECONDS: Final = 60.0
"""So long without any job, and the workers have failed."""


def put_and_work_off(peer: JobsPeer, queue: str, limits: Limits) -> Figures:
    """One peer's turn."""
    folder = peer.folder / queue
    folder.mkdir()
    done = folder / "done"
    environment = os.environ | {
        "JOBS_BROKER": peer.broker(peer.service),
        "JOBS_DONE": str(done),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *peer.environment.paths()]),
    }
    before = worked(peer.service.pids)
    if peer.before:
        ran(peer, peer.before, environment, folder)
    code = f"from {peer.module} import main; main()"  # by its name, as the workers know it
    put = ["python", "-c", code, str(limits.count), *peer.values]
    seconds, spent = json.loads(ran(peer, put, environment, folder).splitlines()[-1])
    started = time.monotonic()
    log = folder / "workers.log"
    with log.open("ab") as output:
        workers = subprocess.Popen(
            command_of(peer, peer.worker),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=folder,
            start_new_session=True,  # its processes are ended together
        )
    try:
        first, last = watched(done, limits.count, workers, log)
        time.sleep(0.2)  # what is not acknowledged yet
        used = worked([workers.pid])
    finally:
        stop(workers)
    servers = worked(peer.service.pids) - before
    off = max(last - first, LOOK_SECONDS)
    return {
        "all_s": seconds + off,
        "put_s": seconds,
        "put_per_second": limits.count / seconds,
        "start_s": first - started,
        "work_s": off,
        "jobs_per_second": limits.count / off,
        "client_us": 1e6 * spent / limits.count,
        "worker_us": 1e6 * used / limits.count,
        "servers_us": 1e6 * servers / limits.count,
    }


def command_of(peer: JobsPeer, words: list[str] | tuple[str, ...]) -> list[str]:
    """A program of the peer's environment."""
    program, *rest = words
    broker = peer.broker(peer.service)
    found = str(peer.environment.folder / program)
    return [found, *(word.replace("{broker}", broker) for word in rest)]


def ran(
    peer: JobsPeer, words: list[str] | tuple[str, ...], environment: dict[str, str], folder: Path
) -> str:
    """What it printed; on the clients' core."""
    with cores.on(cores.CLIENT):
        done = subprocess.run(
            command_of(peer, words),
            capture_output=True,
            text=True,
            env=environment,
            cwd=folder,
            timeout=PUT_SECONDS,
            check=False,
        )
    if done.returncode:
        raise TurnFailed(f"{words[0]} failed: {done.stderr.strip()[-300:]}")
    return done.stdout


def watched(
    done: Path, count: int, workers: "subprocess.Popen[bytes]", log: Path
) -> tuple[float, float]:
    """When the first was done, and the last."""
    first, seen, moved = 0.0, 0, time.monotonic()
    while seen < count:
        time.sleep(LOOK_SECONDS)
        now, size = time.monotonic(), done.stat().st_size
        if size > seen:
            first, seen, moved = first or now, size, now
        elif now - moved > STILL_SECONDS or workers.poll() is not None:
            raise TurnFailed(f"{seen} of {count} jobs were done: {last_words(log)}")
    return first, moved


def stop(workers: "subprocess.Popen[bytes]") -> None:
    """In order when they obey, all of them by force when they don't."""
    workers.terminate()
    try:
        workers.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(workers.pid, signal.SIGKILL)
        workers.wait(STOP_SECONDS)
