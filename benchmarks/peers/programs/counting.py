"""What a job does, which is nothing; and how it is seen that it did.

Each job writes one byte at the end of a file, so that its size says how many were done. That is one
call of the system, and the same for all.
"""

import json
import os
import sys
import time
from collections.abc import Callable

BROKER = os.environ["JOBS_BROKER"]
"""Where the servers are."""
_FILE = os.open(os.environ["JOBS_DONE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def done() -> None:
    """One more."""
    os.write(_FILE, b".")


def asked() -> int:
    """How many jobs are to be enqueued."""
    return int(sys.argv[1])


def enqueue(call: Callable[[], object]) -> None:
    """One by one, each when the call before has returned."""
    count = asked()
    begin, worked = time.perf_counter(), time.process_time()
    for _ in range(count):
        call()
    say(time.perf_counter() - begin, time.process_time() - worked)


def say(seconds: float, worked: float) -> None:
    """How long it took, and how much of the processor."""
    print(json.dumps([seconds, worked]), flush=True)
