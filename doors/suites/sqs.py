"""Others' tests of SQS, run against a door over a real node: `python doors/suites/sqs.py`.

    python doors/suites/sqs.py [moto] [kombu] [aiobotocore] [celery]

Moto's tests are of the protocol. Kombu's are of a client, by boto3 and, with pycurl, without
waiting; kombu's other tests of SQS talk to mocks in place of a server. They are fetched into
build/, and run in environments of their own. Each test that does not pass has its reason here; one
without, and one whose reason is out of date, ends this with 1. The last two are programs of ours
with these clients (`clients/`).
"""

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "doors"
BOTO = "boto3==1.44.8"
PYTEST = "pytest==9.2.0"
PORT = 5000
"""Two of moto's tests know it."""

LATE = "an expired receipt deletes nothing and changes nothing here"
INSIDE = "it looks into moto's own memory"
REGIONS = "all regions have the same queues here"
SNS = "it wants topics of SNS at the same endpoint"
GOAWS = "it wants another server's 404 for a second delete, which succeeds in SQS and here"

CONFTEST = '''
import boto3
import pytest
from moto.core.models import ServerModeMockAWS

def reset(self):
    """No queue of a test before."""
    client = boto3.client("sqs", region_name="us-east-1",
                          endpoint_url=self._test_server_mode_endpoint)
    for url in client.list_queues().get("QueueUrls", []):
        client.delete_queue(QueueUrl=url)

ServerModeMockAWS.reset = reset

@pytest.fixture
def account_id():
    return "123456789012"
'''


class Suite(NamedTuple):
    """Tests of a package, as its source distribution has them."""

    package: str
    version: str
    needed: tuple[str, ...]
    """What else is installed with it."""
    wanted: str
    """Which files of the distribution are unpacked: an expression of their paths."""
    files: tuple[str, ...]
    known: dict[str, str]
    """Tests that fail, and why."""
    not_portable: dict[str, str]
    """Tests that ask nothing of a server; they are not counted, nor those that skip themselves."""
    bar: float
    settings: dict[str, str]
    """Of the environment."""
    conftest: str = ""
    options: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return BUILD / self.package

    @property
    def sources(self) -> Path:
        return self.folder / f"{self.package}-{self.version}"


MOTO = Suite(
    package="moto",
    version="5.2.5",
    needed=(BOTO, "freezegun==1.5.5", PYTEST),
    wanted=r"tests/(__init__\.py|test_sqs/.*\.py)",
    files=("tests/test_sqs/test_sqs.py", "tests/test_sqs/test_sqs_message_attributes.py"),
    known={
        "test_delete_message_after_visibility_timeout": LATE,
        "test_delete_message_using_old_receipt_handle": LATE,
        "test_change_message_visibility_on_old_message": LATE,
        "test_batch_change_message_visibility_on_old_message": LATE,
        "test_create_queues_in_multiple_region": REGIONS,
    },
    not_portable={
        "test_is_empty_redrive_policy_returns_true_for_empty_and_falsy_values": INSIDE,
        "test_is_empty_redrive_policy_returns_false_for_valid_policy_format": INSIDE,
    },
    bar=0.95,
    settings={"TEST_SERVER_MODE": "true", "TEST_SERVER_MODE_ENDPOINT": f"http://localhost:{PORT}"},
    conftest=CONFTEST,
)
"""Its others are of its own inside, of CloudFormation, Lambda and IAM, and of many accounts."""
KOMBU = Suite(
    package="kombu",
    version="5.7.0",
    needed=(BOTO, "pycurl==7.45.7", "urllib3", PYTEST, "pytest-rerunfailures==16.7"),
    wanted=r"t/(__init__\.py|integration/.*\.py)",
    files=("t/integration/test_sqs.py",),
    known={},
    not_portable={"test_fanout": SNS, "test_ack_invalid_receipt_with_backoff": GOAWS},
    bar=1.0,
    settings={"SQS_HOST": "localhost", "SQS_PORT": str(PORT)},
    options=("-o", "python_classes=test_*", "-p", "no:rerunfailures"),
)
SUITES = {one.package: one for one in (MOTO, KOMBU)}


class Client(NamedTuple):
    """A program of ours with somebody else's client."""

    program: str
    needed: tuple[str, ...]


CLIENTS = {
    "aiobotocore": Client("aiobotocore_client.py", ("aiobotocore==3.10.0",)),
    "celery": Client("celery_sqs.py", ("celery==5.7.0", "kombu==5.7.0", *KOMBU.needed)),
}


def main() -> int:
    """Runs them, and prints the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [*SUITES, *CLIENTS]
    parser.add_argument("names", nargs="*", choices=[*names, []], help="without, all")
    parser.add_argument("-k", dest="tests", default="", help="only these, as pytest has it")
    options = parser.parse_args()
    asked = options.names or names
    suites = [SUITES[one] for one in asked if one in SUITES]
    clients = {name: one for name, one in CLIENTS.items() if name in asked}
    for one in suites:
        prepare(one)
    pythons = {name: environment(name, *one.needed) for name, one in clients.items()}
    worst = 0
    with tempfile.TemporaryDirectory() as folder, door(Path(folder)):
        for one in suites:
            report = Path(folder) / f"{one.package}.xml"
            run(one, report, options.tests)
            worst = max(worst, score(one, report))
        for name, client in clients.items():
            program = Path(__file__).parent / "clients" / client.program
            command = [pythons[name], program, f"http://localhost:{PORT}"]
            if subprocess.run(command, check=False).returncode:
                print(f"{name}: FAILED")
                worst = 1
    return worst


def environment(name: str, *needed: str) -> Path:
    """An environment with these packages; its interpreter."""
    python = BUILD / name / "env" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", BUILD / name / "env"], check=True)
        pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, *needed], check=True)
    return python


def prepare(suite: Suite) -> None:
    """Its environment, and its tests as they are in the source distribution."""
    environment(suite.package, f"{suite.package}=={suite.version}", *suite.needed)
    if not suite.sources.exists():
        fetch = ["download", "-q", "--no-deps", "--no-binary", ":all:"]
        named = f"{suite.package}=={suite.version}"
        pip = [sys.executable, "-m", "pip", *fetch, named, "-d", suite.folder]
        subprocess.run(pip, check=True)
        with tarfile.open(suite.folder / f"{suite.sources.name}.tar.gz") as archive:
            wanted = re.compile(f"{re.escape(suite.sources.name)}/{suite.wanted}")
            some = [one for one in archive.getmembers() if wanted.fullmatch(one.name)]
            archive.extractall(suite.folder, some, filter="data")
    if suite.conftest:
        (suite.sources / "tests" / "conftest.py").write_text(suite.conftest)


@contextmanager
def door(folder: Path) -> Iterator[None]:
    """A node, and a door of it."""
    node, listen = free(), PORT
    program = [sys.executable, "-m", "snowmelt"]
    at = ["--listen", f"127.0.0.1:{node}"]
    commands = [
        [*program, "node", "--data", str(folder / "node"), "--id", "n1", *at],
        [
            *program,
            "sqs",
            "--url",
            f"snowmelt://127.0.0.1:{node}",
            "--listen",
            f"127.0.0.1:{listen}",
        ],
    ]
    found = [*program, "found", "--data", str(folder / "node"), "--id", "n1"]
    subprocess.run(found, check=True)
    started = [subprocess.Popen(one) for one in commands]
    try:
        wait_for(listen)
        wait_for(node)
        yield
    finally:
        for one in reversed(started):
            one.send_signal(signal.SIGTERM)
        for one in started:
            one.wait(30)


def free() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def wait_for(port: int) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"nobody listens at port {port}")


def run(suite: Suite, report: Path, names: str) -> None:
    given = {
        **suite.settings,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    which = ["-k", names] if names else []
    plain = ["-q", "-c", os.devnull, "-p", "no:cacheprovider", "-W", "ignore", "--tb=short"]
    where = ["--rootdir", str(suite.sources), f"--junitxml={report}", *suite.options]
    python = suite.folder / "env" / "bin" / "python"
    command = [str(python), "-m", "pytest", *plain, *where, *which, *suite.files]
    subprocess.run(command, cwd=suite.sources, env=os.environ | given, check=False)


def score(suite: Suite, report: Path) -> int:
    """Prints it; 1 where something is not as it was."""
    outcomes: dict[str, Counter[str]] = {}
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - it is ours
        name = case.get("name", "").partition("[")[0]
        kinds = {one.tag for one in case}
        outcome = "failed" if kinds & {"failure", "error"} else "passed"
        outcome = "skipped" if "skipped" in kinds else outcome
        outcomes.setdefault(name, Counter())[outcome] += 1
    counted = {
        name: found
        for name, found in outcomes.items()
        if name not in suite.not_portable and found["skipped"] < found.total()
    }
    failed = sorted(name for name, found in counted.items() if found["failed"])
    for name in failed:
        print(f"{name}: {suite.known.get(name, 'NOT KNOWN')}")
    for name, why in suite.not_portable.items():
        print(f"{name}: not counted: {why}")
    passed = len(counted) - len(failed)
    share = passed / max(1, len(counted))
    print(
        f"{suite.package} {suite.version}: {passed} of {len(counted)} tests pass ({share:.1%}); "
        f"{len(outcomes) - len(counted)} more are not counted"
    )
    strange = [name for name in failed if name not in suite.known]
    mended = [name for name in suite.known if name in counted and name not in failed]
    if mended:
        print("pass by now:", ", ".join(mended))
    if share < suite.bar:
        print(f"below {suite.bar:.0%}")
    return 1 if strange or mended or share < suite.bar else 0


if __name__ == "__main__":
    sys.exit(main())
