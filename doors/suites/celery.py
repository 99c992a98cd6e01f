"""Others' suites over the Celery door: kombu's own integration classes, and Celery's.

    python doors/suites/celery.py [kombu] [celery] [a file of Celery's tests…]

It fetches the sources of the kombu and the Celery that are installed, runs what they have for any
broker against a real node, and prints a score. A failure whose reason is known stands below; any
other one ends it with 1.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from running import Outcome, Suite, extras, paths, score, source_of

from snowmelt.cli.local import free_port

BUILD = Path("build/suites/celery")

KOMBU = """
import os
import kombu
import pytest
import snowmelt_doors.celery
from t.integration import common

URL = os.environ["SNOWMELT_URL"]

@pytest.fixture
def connection():
    return kombu.Connection(URL)

@pytest.fixture
def invalid_connection():
    return kombu.Connection("snowmelt://127.0.0.1:1", connect_timeout=0.2)

@pytest.fixture
def failover_connection():
    return kombu.Connection("snowmelt://127.0.0.1:1;" + URL, connect_timeout=2)

class TestBasicFunctionality(common.BasicFunctionality): pass
class TestExchangeTypes(common.BaseExchangeTypes): pass
class TestTimeToLive(common.BaseTimeToLive): pass
class TestPriority(common.BasePriority): pass
class TestMessage(common.BaseMessage): pass
class TestEventLoop(common.BaseEventLoop): pass
class TestFailover(common.BaseFailover): pass
"""

EXTRA = ("pytest-rerunfailures==16.7", "redis==8.1.0", "sqlalchemy==2.1.9")
"""What Celery's tests import, and nothing else here does."""

SITE = "import snowmelt_doors.celery\n"
"""A worker that the command line of Celery starts alone imports no program that would."""

_PORT = (
    "kombu reads no port out of a URL that its transport reads itself, since several hosts may "
    "stand in ours; the failover itself is in the tests beside it"
)
OF_OTHERS = (
    "test_backend.py",  # Azure's
    "test_cache_backend.py",
    "test_database_backend.py",
    "test_redis_backend.py",
)
"""Suites of other backends, which name theirs themselves."""

REASONS = {
    "TestFailover::test_failover_switches_to_alternate_url": _PORT,
    "test_Inspect::test_scheduled": (
        "it asks a worker for the tasks that it holds until their eta: here the queue holds them"
    ),
    "test_chord::test_error_propagates_from_chord": (
        "celery#6437: members of a group behind a failed task stay pending, with Redis as well"
    ),
    "test_mem_leak_unhandled_exceptions": (
        "it allows the tests' own process a hundredth of a megabyte more, without any worker"
    ),
}
"""Why a test fails, by a part of its name."""


def kombu(_: list[str]) -> list[Outcome]:
    source = source_of("kombu", BUILD).resolve()
    (source / "test_snowmelt.py").write_text(KOMBU, encoding="utf-8")
    environment = {"SNOWMELT_URL": "{url}", "PYTHONPATH": paths(source)}
    suite = Suite(source, ["-c", os.devnull, "--timeout", "60"], environment)
    return suite.run(["test_snowmelt.py"], REASONS)


@contextmanager
def redis() -> Iterator[dict[str, str]]:
    """Some tasks count in Redis how often they ran; without one their tests fail."""
    program = shutil.which("redis-server")
    if program is None:
        yield {}
        return
    port = str(free_port())
    with tempfile.TemporaryDirectory() as folder:
        quiet = ["--port", port, "--save", "", "--dir", folder, "--bind", "127.0.0.1"]
        server = subprocess.Popen([program, *quiet], stdout=subprocess.DEVNULL)
        try:
            yield {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": port}
        finally:
            server.terminate()
            server.wait(20)


def celery(files: list[str]) -> list[Outcome]:
    source = source_of("celery", BUILD)
    run = BUILD / "celery-tests"  # without Celery itself: the one that is installed is tried
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(source / "t", run / "t")
    (run / "sitecustomize.py").write_text(SITE, encoding="utf-8")
    there = sorted(one.name for one in (run / "t" / "integration").glob("test_*.py"))
    asked = files or [one for one in there if one not in OF_OTHERS]
    plugins = ["-p", "snowmelt_doors.celery", "-p", "celery.contrib.pytest"]
    options = ["-c", os.devnull, *plugins, "-o", "python_classes=test_* Test*", "--timeout", "120"]
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    with redis() as counting:
        environment = {
            "TEST_BROKER": "{url}",
            "TEST_BACKEND": "{url}",
            "WORKER_LOGLEVEL": "INFO",
            "PYTHONPATH": paths(run, extras(BUILD, EXTRA)),
            "PATH": programs,
            **counting,
        }
        suite = Suite(run.resolve(), options, environment)
        return suite.run([f"t/integration/{one}" for one in asked], REASONS)


SUITES = {"kombu": kombu, "celery": celery}


def main() -> int:
    asked = [one for one in sys.argv[1:] if one in SUITES] or list(SUITES)
    files = [one for one in sys.argv[1:] if one not in SUITES]
    known = [score(suite, SUITES[suite](files), REASONS) for suite in asked]
    return 0 if all(known) else 1


if __name__ == "__main__":
    sys.exit(main())
