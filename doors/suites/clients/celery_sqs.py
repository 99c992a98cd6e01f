"""A Celery program over SQS: its worker runs what is sent, is killed, and runs it again.

`python celery_sqs.py http://localhost:9324`; `doors/suites/sqs.py` runs it. Kombu asks for messages
by pycurl, without waiting. A task writes a line to a file; that is what is looked at.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from celery import Celery

TASKS = 40
VISIBILITY = 5

at = urlsplit(os.environ.get("SQS", "http://localhost:9324"))
app = Celery("celery_sqs", broker=f"sqs://key:secret@{at.hostname}:{at.port}//")
app.conf.update(
    broker_transport_options={
        "is_secure": False,
        "region": "us-east-1",
        "visibility_timeout": VISIBILITY,
        "wait_time_seconds": 2,
        "queue_name_prefix": os.environ.get("PREFIX", "celery-"),
    },
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
)


@app.task
def note(word: str, seconds: float = 0.0) -> None:
    """Writes a word, and takes so long."""
    with Path(os.environ["LINES"]).open("a") as file:
        file.write(f"{time.time()} {word}\n")
    time.sleep(seconds)


def lines() -> list[tuple[float, str]]:
    """When each word was written."""
    path = Path(os.environ["LINES"])
    rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [(float(moment), word) for moment, word in rows]


def wait_for(words: set[str], seconds: float = 60) -> None:
    """Until all of these were written."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if words <= {word for _, word in lines()}:
            return
        time.sleep(0.1)
    raise SystemExit(f"never run: {sorted(words - {word for _, word in lines()})}")


@contextmanager
def worker(pool: str) -> Any:
    """One that runs tasks."""
    command = [sys.executable, "-m", "celery", "-A", "celery_sqs", "worker", "-P", pool, "-c", "2"]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR"]
    started = subprocess.Popen([*command, *quiet], start_new_session=True)
    try:
        yield started
    finally:
        if started.poll() is None:
            started.terminate()
            started.wait(30)


def main() -> None:
    """Prints what was seen; ends with an error for what may not be."""
    for pool in ("solo", "prefork"):
        with worker(pool):
            words = {f"{pool}-{at}" for at in range(TASKS)}
            for word in sorted(words):
                note.delay(word)
            began = time.time()
            note.apply_async((f"{pool}-later",), countdown=3)
            wait_for(words | {f"{pool}-later"})
            [later] = [moment for moment, word in lines() if word == f"{pool}-later"]
            assert later - began >= 2.9, f"{later - began:.1f} s after it was sent"
    twice = [word for word, count in Counter(word for _, word in lines()).items() if count > 1]
    assert not twice, f"run twice: {twice}"
    print(f"Celery over SQS: {2 * TASKS} tasks were run once each, and two with a countdown of 3 s "
          "not before")  # fmt: skip
    with worker("prefork") as one:
        words = {f"killed-{at}" for at in range(8)}
        for word in sorted(words):
            note.delay(word, 1.0)
        while not any(word in words for _, word in lines()):
            time.sleep(0.05)
        time.sleep(0.3)
        os.killpg(one.pid, signal.SIGKILL)
        one.wait()
    before = {word for _, word in lines() if word in words}
    with worker("prefork"):
        wait_for(words)
        time.sleep(VISIBILITY + 4)
    runs = Counter(word for _, word in lines() if word in words)
    assert max(runs.values()) <= 2, runs
    again = sum(count == 2 for count in runs.values())
    print(f"Celery over SQS: a worker was killed with {len(before)} of 8 tasks begun; the next one "
          f"ran all that was open, {again} of them again")  # fmt: skip


if __name__ == "__main__":
    if "LINES" in os.environ:
        main()
    else:  # the program and its workers read the same environment
        with tempfile.TemporaryDirectory() as folder:
            given = {"SQS": sys.argv[1], "LINES": f"{folder}/lines", "PREFIX": f"c{os.getpid()}-"}
            here = Path(__file__)
            command = [sys.executable, here.name]
            ended = subprocess.run(command, cwd=here.parent, env=os.environ | given, check=False)
        sys.exit(ended.returncode)
