"""Taskiq's own tests over its door.

    python doors/suites/taskiq.py [a part of a test's name]

It fetches the sources of the Taskiq that is installed, puts a broker on a real node in the place of
its broker in memory, with a receiver beside it, and prints a score. A failure whose reason is known
stands below; any other one ends it with 1.
"""

import os
import shutil
import sys
from pathlib import Path

from running import Suite, extras, paths, score, source_of

BUILD = Path("build/suites/taskiq")
EXTRA = ("freezegun==1.5.5", "python-dateutil==2.9.0.post0", "six==1.17.0")
"""What its tests import, and nothing else here does."""

FILES = (
    "brokers/test_inmemory.py",
    "depends/test_progress_tracker.py",
    "formatters/test_proxy_formatter.py",
    "middlewares/test_task_retry.py",
    "scheduler/test_label_based_sched.py",
    "scheduler/test_scheduler.py",
    "test_exceptions_flow.py",
    "test_kicker.py",
    "test_requeue.py",
    "test_retry_task.py",
)
"""Those that use a broker; the rest is about receivers, command lines and serializers alone."""

CONFTEST = """

import os
import uuid
import taskiq
import taskiq.brokers.inmemory_broker
from taskiq.api import run_receiver_task
from snowmelt_doors.taskiq import SnowmeltBroker, SnowmeltResultBackend

URL = os.environ["SNOWMELT_URL"]


class Broker(SnowmeltBroker):
    # The broker in memory runs what is kicked by itself; so does this.

    def __init__(self, *_, **__):
        name = uuid.uuid4().hex
        super().__init__(URL, namespace=name)
        self.result_backend = SnowmeltResultBackend(URL, namespace="r" + name)
        self.receiving = None

    async def kick(self, message):
        await super().kick(message)
        if self.receiving is None:
            self.receiving = asyncio.create_task(run_receiver_task(self, run_startup=False))

    async def shutdown(self):
        if self.receiving is not None:
            self.receiving.cancel()
            await asyncio.gather(self.receiving, return_exceptions=True)
        await super().shutdown()


taskiq.InMemoryBroker = taskiq.brokers.inmemory_broker.InMemoryBroker = Broker
"""

_IN_MEMORY = "it calls what only the broker in memory has, or looks into its memory"
_AT_ONCE = "the broker in memory runs a task within `kiq`, and raises there what goes wrong"
_DELAY = "its middleware retries after five seconds, which the broker in memory does not wait for"

REASONS = {
    "test_cannot_listen": _IN_MEMORY,
    "no attribute 'wait_all'": _IN_MEMORY,
    "no attribute 'results'": _IN_MEMORY,
    "test_inmemory_success": _IN_MEMORY,
    "test_inline_awaits": _AT_ONCE,
    "test_inmemory_broker_raises_unknown_task_error": _AT_ONCE,
    "no attribute 'from_worker'": "the broker in memory is worker and client in one",
    "test_per_task_exc_types_matching[SmartRetryMiddleware]": _DELAY,
    "test_per_task_exc_types_override_global[SmartRetryMiddleware]": _DELAY,
    "test_retry_of_custom_exc_types_of_smart_middleware": _DELAY,
    "test_progress_tracker_validation_error": (
        "results are kept as JSON, in which Taskiq has pydantic's error as an `Exception`"
    ),
}
"""Why a test fails, by a part of its name or of what was wrong."""


def main() -> int:
    source, run = source_of("taskiq", BUILD), BUILD / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(source / "tests", run / "tests")
    with (run / "tests" / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(CONFTEST)
    asked = ["-k", sys.argv[1]] if len(sys.argv) > 1 else []
    options = [
        "-c",
        os.devnull,
        "--timeout",
        "30",
        "--tb",
        "short",
        "-o",
        "anyio_mode=auto",
        *asked,
    ]
    environment = {"SNOWMELT_URL": "{url}", "PYTHONPATH": paths(run, extras(BUILD, EXTRA))}
    suite = Suite(run.resolve(), options, environment, silent=90)
    found = suite.run([f"tests/{one}" for one in FILES], REASONS)
    return 0 if score("taskiq", found, REASONS) else 1


if __name__ == "__main__":
    sys.exit(main())
