"""Runs others' tests so that one which hangs ends alone, and says what came of each.

A file of tests is one pytest and one node. pytest writes down each test as it begins and ends; when
it says nothing for too long, it is killed, the test that it was at has failed, and another one
goes on behind it. What failed without a known reason is run once more, alone, at the end: the score
names what passed only then.
"""

import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

import msgspec

from snowmelt.cli.local import LocalCluster

PLUGIN = "suite_report"
PLUGIN_TEXT = """
import json
import os


def say(**what):
    with open(os.environ["SUITE_REPORT"], "a", encoding="utf-8") as file:
        file.write(json.dumps(what) + "\\n")


def pytest_runtest_logstart(nodeid, location):
    say(test=nodeid, outcome="began")


def pytest_runtest_logreport(report):
    crash = getattr(report.longrepr, "reprcrash", None)
    what = str(report.longrepr or "") if crash is None else crash.message
    say(test=report.nodeid, outcome=report.outcome, what=what.strip()[:2000])


def pytest_runtest_logfinish(nodeid, location):
    say(test=nodeid, outcome="ended")
"""
ROUNDS = 20
"""So often at most a file is gone on with after a test that hung."""


class Outcome(msgspec.Struct):
    """What came of one test."""

    name: str
    failed: bool = False
    skipped: bool = False
    ended: bool = False
    again: bool = False
    """It passed when it was run once more."""
    what: str = ""

    def hear(self, outcome: str, what: str) -> None:
        """One more thing that pytest said of it."""
        if outcome in {"began", "rerun"}:
            self.failed = self.skipped = False
        self.ended |= outcome == "ended"
        self.skipped |= outcome == "skipped"
        if outcome == "failed" and not self.failed:
            self.failed = True
            self.what = what.splitlines()[0] if what else "?"


class Suite(msgspec.Struct):
    """Where tests stand, and how they are run."""

    folder: Path
    options: Sequence[str]
    environment: Mapping[str, str]
    """`{url}` in a value is where the node is."""
    silent: float = 240.0
    """So long pytest may say nothing; a test has a shorter limit of its own."""

    def run(self, files: Sequence[str], reasons: Mapping[str, str]) -> list[Outcome]:
        """Runs some files of tests, and what failed of them without a reason once more."""
        began = time.monotonic()
        found: list[Outcome] = []
        for file in files:
            found += self._one_file(file)
        for one in found:
            if one.failed and reason_of(one, reasons) is None:
                again = self._one_file(one.name)
                one.again = any(other.name == one.name and not other.failed for other in again)
        print(f"\n{len(found)} tests in {time.monotonic() - began:.0f} s")
        return found

    def _one_file(self, file: str) -> list[Outcome]:
        found: dict[str, Outcome] = {}
        with node() as url:
            for _ in range(ROUNDS):
                left_out = [f"--deselect={name}" for name in found]
                whole = self._pytest([file, *left_out], url, found)
                if whole:
                    break
        return list(found.values())

    def _pytest(self, asked: Sequence[str], url: str, found: dict[str, Outcome]) -> bool:
        """Runs pytest once; whether it came to its end."""
        report = self.folder / "report.jsonl"
        report.unlink(missing_ok=True)
        (self.folder / f"{PLUGIN}.py").write_text(PLUGIN_TEXT, encoding="utf-8")
        plain = ["-q", "-p", "no:cacheprovider", "-p", PLUGIN, "--rootdir", str(self.folder)]
        own = {name: value.replace("{url}", url) for name, value in self.environment.items()}
        started = subprocess.Popen(
            [sys.executable, "-m", "pytest", *plain, *self.options, *asked],
            cwd=self.folder,
            env={**os.environ, **own, "SUITE_REPORT": str(report)},
            start_new_session=True,
        )
        said = hung = 0.0
        while started.poll() is None:
            time.sleep(0.2)
            size = report.stat().st_size if report.exists() else 0
            if size != said or not hung:
                said, hung = size, time.monotonic() + self.silent
            elif time.monotonic() > hung:
                break
        with_all_its_programs(started)
        for line in report.read_text().splitlines() if report.exists() else ():
            told = json.loads(line)
            one = found.setdefault(told["test"], Outcome(told["test"]))
            one.hear(told["outcome"], told.get("what", ""))
        left = [one for one in found.values() if not one.ended]
        for one in left:
            one.hear("failed", f"it hung, or ended pytest ({started.returncode})")
            one.ended = True
        return not left


def with_all_its_programs(started: "subprocess.Popen[bytes]") -> None:
    """Ends what is left of a pytest and of what it started."""
    with suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait(30)


@contextmanager
def node() -> Iterator[str]:
    """The URL of a new node."""
    with tempfile.TemporaryDirectory() as folder, LocalCluster(1, Path(folder), 0.5) as cluster:
        cluster.start()
        yield cluster.nodes[0].url


def source_of(package: str, build: Path) -> Path:
    """The unpacked sources of the version that is installed."""
    wanted = version(package)
    folder = build / f"{package}-{wanted}"
    if not folder.is_dir():
        build.mkdir(parents=True, exist_ok=True)
        get = ["download", "-q", "--no-deps", "--no-binary", ":all:", "-d", str(build)]
        subprocess.run([sys.executable, "-m", "pip", *get, f"{package}=={wanted}"], check=True)
        with tarfile.open(build / f"{package}-{wanted}.tar.gz") as packed:
            packed.extractall(build, filter="data")
    return folder


def extras(build: Path, packages: Sequence[str]) -> Path:
    """A folder with what only these tests need."""
    folder = build / "extra"
    if not folder.is_dir():
        get = ["install", "--quiet", "--no-deps", "--target", str(folder), *packages]
        subprocess.run([sys.executable, "-m", "pip", *get], check=True)
    return folder


def paths(*some: Path) -> str:
    """What a test's Python is to look through, before what it does."""
    asked = [str(one.resolve()) for one in some]
    return os.pathsep.join([*asked, *filter(None, [os.environ.get("PYTHONPATH")])])


def reason_of(one: Outcome, reasons: Mapping[str, str]) -> str | None:
    """Why it fails, where that is known by a part of its name, or of what was wrong."""
    told = f"{one.name} {one.what}"
    return next((why for some, why in reasons.items() if some in told), None)


def score(suite: str, found: Sequence[Outcome], reasons: Mapping[str, str]) -> bool:
    """Prints it; whether each failure has a reason."""
    run = [one for one in found if not one.skipped or one.failed]
    bad = [one for one in run if one.failed and not one.again]
    good = len(run) - len(bad)
    print(f"\n{suite} {version(suite)}: {good} of {len(run)} passed, ", end="")
    print(f"{100 * good / max(1, len(run)):.1f} %; {len(found) - len(run)} left out by themselves")
    for one in run:
        if one.again:
            print(f"  {one.name}\n      passed when it was run again; before: {one.what}")
    for one in bad:
        print(f"  {one.name}\n      {reason_of(one, reasons) or 'NOT KNOWN: ' + one.what}")
    return bool(run) and all(reason_of(one, reasons) for one in bad)
