"""Dramatiq's own tests over its door.

    python doors/suites/dramatiq.py [a part of a test's name]

It fetches the sources of the Dramatiq that is installed, puts a broker on a real node in the place
of its brokers for RabbitMQ, Redis and tests, and prints a score. A failure whose reason is known
stands below; any other one ends it with 1.
"""

import os
import shutil
import sys
from pathlib import Path

from running import Suite, extras, paths, score, source_of

BUILD = Path("build/suites/dramatiq")
EXTRA = ("pika==1.4.4", "redis==8.1.0")
"""What its tests import, though none of it is used here."""

FILES = (
    "test_actors.py",
    "test_callbacks.py",
    "test_composition.py",
    "test_generic_actors.py",
    "test_rabbitmq.py",
    "test_redis.py",
    "test_results.py",
    "test_worker.py",
)
"""Those that use a broker; the rest is about rate limits, command lines and encoders."""

COMMON = """
import contextlib
import pytest
from dramatiq import Worker

@contextlib.contextmanager
def worker(*args, **kwargs):
    one = Worker(*args, **kwargs)
    one.start()
    try:
        yield one
    finally:
        one.stop()

def _as_it_is(test):
    return test

skip_in_ci = skip_on_windows = skip_on_pypy = skip_with_gevent = skip_unless_rabbit_mq = _as_it_is
skip_without_gevent = pytest.mark.skip(reason="there is no gevent")
RABBITMQ_USERNAME = RABBITMQ_PASSWORD = "guest"
RABBITMQ_CREDENTIALS = None
"""

CONFTEST = """
import os
import random
import uuid
import dramatiq
import pytest
from dramatiq import Worker
from dramatiq.rate_limits.backends import StubBackend
from snowmelt_doors.dramatiq import SnowmeltBroker, SnowmeltResults

random.seed(1337)
URL = os.environ["SNOWMELT_URL"]

class Broker(SnowmeltBroker):
    # The brokers that it stands for take options of their own.
    def join(self, queue_name, *_, timeout=None, **__):
        super().join(queue_name, timeout=timeout)

    @property
    def dead_letters(self):
        queues = map(self.queue_of, self.queues)
        return [dramatiq.Message.decode(one.body) for q in queues for one in q.peek(dead=True)]

@pytest.fixture
def broker():
    one = Broker(URL, namespace=uuid.uuid4().hex, max_priority=10)
    one.emit_after("process_boot")
    dramatiq.set_broker(one)
    yield one
    one.close()

@pytest.fixture
def worker(broker):
    one = Worker(broker, worker_timeout=100, worker_threads=32)
    one.start()
    yield one
    one.stop()

@pytest.fixture
def result_backend():
    one = SnowmeltResults(URL, namespace="results-" + uuid.uuid4().hex)
    yield one
    one.close()

@pytest.fixture(name="stub_broker")
def stub_broker_of(broker):
    return broker

@pytest.fixture(name="rabbitmq_broker")
def rabbitmq_broker_of(broker):
    return broker

@pytest.fixture(name="redis_broker")
def redis_broker_of(broker):
    return broker

@pytest.fixture(name="stub_worker")
def stub_worker_of(worker):
    return worker

@pytest.fixture(name="rabbitmq_worker")
def rabbitmq_worker_of(worker):
    return worker

@pytest.fixture(name="redis_worker")
def redis_worker_of(worker):
    return worker

@pytest.fixture(name="stub_result_backend")
def stub_result_backend_of(result_backend):
    return result_backend

@pytest.fixture(name="redis_result_backend")
def redis_result_backend_of(result_backend):
    return result_backend

@pytest.fixture
def result_backends(result_backend):
    return {"snowmelt": result_backend}

@pytest.fixture
def rate_limiter_backend():
    return StubBackend()

@pytest.fixture
def info_logging():
    yield
"""

_RABBIT = "it is about a connection of RabbitMQ's"
_REDIS = "it calls Redis by commands of its own"
_IN_MEMORY = "it looks into the queues of Dramatiq's broker for tests, which are in its memory"
_RAISES = "Dramatiq's broker for tests raises in `join` what an actor raised in the same process"
_AHEAD = "it looks a moment later whether a worker has all messages in its hands already"

REASONS = {
    "'set' object is not subscriptable": _IN_MEMORY,
    "DID NOT RAISE TimeLimitExceeded": _RAISES,
    "DID NOT RAISE SkipMessage": _RAISES,
    "DID NOT RAISE ActorNotFound": _RAISES,
    "DID NOT RAISE RateLimitExceeded": _RAISES,
    "pika.exceptions.AMQPConnectionError": _RABBIT,
    "credentials must be an object of type": _RABBIT,
    "_declare_queue": _RABBIT,
    "no attribute 'connection'": _RABBIT,
    "no attribute 'channel'": _RABBIT,
    "no attribute 'do_": _REDIS,
    "no attribute 'client'": _REDIS,
    "redis.exceptions.ConnectionError": _REDIS,
    "test_actors_can_prioritize_work": _AHEAD,
    "test_workers_process_messages_in_order": _AHEAD,
    "test_rabbitmq_consumers_ignore_unknown": "it consumes a queue that was never declared",
    "test_redis_consumer_nack_does_not_raise": "it rejects a message that no consumer gave it",
}
"""Why a test fails, by a part of its name or of what was wrong."""

LEFT_OUT = ("test_redis_dead_lettered_messages_are_cleaned_up", "test_redis_join_race_condition")
"""They wait for a minute and then call Redis by commands of its own."""


def fetched() -> Path:
    """The tests of the version that is installed, with our fixtures."""
    source, run = source_of("dramatiq", BUILD), BUILD / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(source / "tests", run / "tests")
    (run / "tests" / "__init__.py").touch()
    (run / "tests" / "common.py").write_text(COMMON, encoding="utf-8")
    (run / "tests" / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    return run.resolve()


def main() -> int:
    run = fetched()
    asked = ["-k", sys.argv[1]] if len(sys.argv) > 1 else []
    left_out = [f"--deselect=tests/test_redis.py::{one}" for one in LEFT_OUT]
    options = ["-c", os.devnull, "--timeout", "60", "--tb", "line", *left_out, *asked]
    environment = {"SNOWMELT_URL": "{url}", "PYTHONPATH": paths(run, extras(BUILD, EXTRA))}
    suite = Suite(run, options, environment, silent=120)
    found = suite.run([f"tests/{one}" for one in FILES], REASONS)
    return 0 if score("dramatiq", found, REASONS) else 1


if __name__ == "__main__":
    sys.exit(main())
