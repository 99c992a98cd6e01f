"""Others' suites over the Celery door: kombu's own integration classes, and Celery's.

    python doors/suites/celery.py [kombu] [celery]

It fetches the sources of the kombu and the Celery that are installed, runs what they have for any
broker against a real node, and prints a score. A failure whose reason is known stands below; any
other one, and a known one that passes, ends it with 1.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from snowmelt.cli.local import LocalCluster, free_port

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
"""Why a test fails, by the end of its name."""


class Outcome(NamedTuple):
    """What came of one test."""

    name: str
    passed: bool
    skipped: bool
    what: str


def source_of(package: str) -> Path:
    """The unpacked sources of the version that is installed."""
    wanted = version(package)
    folder = BUILD / f"{package}-{wanted}"
    if not folder.is_dir():
        BUILD.mkdir(parents=True, exist_ok=True)
        get = ["download", "--no-deps", "--no-binary", ":all:", "-d", str(BUILD)]
        subprocess.run([sys.executable, "-m", "pip", *get, f"{package}=={wanted}"], check=True)
        with tarfile.open(BUILD / f"{package}-{wanted}.tar.gz") as packed:
            packed.extractall(BUILD, filter="data")
    return folder


def outcomes(report: Path) -> Iterator[Outcome]:
    """What a report of pytest says of each test."""
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314
        name = f"{case.get('classname', '').rsplit('.', 1)[-1]}::{case.get('name')}"
        bad = [*case.iter("failure"), *case.iter("error")]
        skipped = next(case.iter("skipped"), None) is not None
        what = bad[0].get("message", "").splitlines()[0] if bad else ""
        yield Outcome(name, not bad and not skipped, skipped, what)


def run_pytest(source: Path, url: str, *asked: str, **environment: str) -> list[Outcome]:
    """Runs tests there; the last run of a test counts."""
    report = source / "report.xml"
    report.unlink(missing_ok=True)
    plain = ["-q", "-p", "no:cacheprovider", "--rootdir", str(source), f"--junit-xml={report}"]
    paths = os.pathsep.join([str(source.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])])
    subprocess.run(
        [sys.executable, "-m", "pytest", *plain, *asked],
        cwd=source,
        env={**os.environ, "SNOWMELT_URL": url, "PYTHONPATH": paths, **environment},
        check=False,
    )
    return list({one.name: one for one in outcomes(report)}.values())


def kombu(url: str) -> list[Outcome]:
    source = source_of("kombu").resolve()
    (source / "test_snowmelt.py").write_text(KOMBU, encoding="utf-8")
    return run_pytest(source, url, "-c", os.devnull, "test_snowmelt.py")


def extras() -> Path:
    """A folder with what only these tests need."""
    folder = BUILD / "extra"
    if not folder.is_dir():
        get = ["install", "--quiet", "--no-deps", "--target", str(folder), *EXTRA]
        subprocess.run([sys.executable, "-m", "pip", *get], check=True)
    return folder


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


def celery(url: str) -> list[Outcome]:
    source = source_of("celery")
    run = BUILD / "celery-tests"  # without Celery itself: the one that is installed is tried
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(source / "t", run / "t")
    (run / "sitecustomize.py").write_text(SITE, encoding="utf-8")
    run = run.resolve()
    paths = [str(run), str(extras().resolve()), os.environ.get("PYTHONPATH", "")]
    plugins = ["-p", "snowmelt_doors.celery", "-p", "celery.contrib.pytest"]
    asked = ["-c", os.devnull, *plugins, "-o", "python_classes=test_* Test*", "--timeout", "90"]
    left_out = [f"--ignore=t/integration/{one}" for one in OF_OTHERS]
    with redis() as counting:
        programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        places = {"TEST_BROKER": url, "TEST_BACKEND": url, "PYTHONPATH": os.pathsep.join(paths)}
        places |= {"PATH": programs, "WORKER_LOGLEVEL": "INFO"}
        return run_pytest(run, url, *asked, *left_out, "t/integration", **places, **counting)


def score(suite: str, found: list[Outcome]) -> bool:
    """Prints it; whether each failure has a reason, and each reason a failure."""
    good = [one for one in found if one.passed]
    run = [one for one in found if not one.skipped]
    print(f"\n{suite} {version(suite)}: {len(good)} of {len(run)} passed, ", end="")
    print(f"{100 * len(good) / max(1, len(run)):.1f} %; {len(found) - len(run)} left out")
    unknown = not run
    for one in run:
        reason = next((why for end, why in REASONS.items() if one.name.endswith(end)), None)
        if one.passed:
            continue
        print(f"  {one.name}\n      {reason or 'NOT KNOWN: ' + one.what}")
        unknown |= reason is None
    return not unknown


SUITES = {"kombu": kombu, "celery": celery}


def main() -> int:
    asked = [one for one in sys.argv[1:] if one in SUITES] or list(SUITES)
    known = True
    with tempfile.TemporaryDirectory() as folder, LocalCluster(1, Path(folder), 0.5) as cluster:
        cluster.start()
        for suite in asked:
            known &= score(suite, SUITES[suite](cluster.nodes[0].url))
    return 0 if known else 1


if __name__ == "__main__":
    sys.exit(main())
