"""Moto's tests of SQS, run against a door over a real node: `python doors/suites/sqs.py`.

They are fetched into build/, and run in an environment of their own. Each test that does not pass
has its reason here; one without, and one whose reason is out of date, ends this with 1.
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
from xml.etree import ElementTree as ET

MOTO = "5.2.5"
NEEDED = (f"moto=={MOTO}", "boto3==1.44.8", "freezegun==1.5.5", "pytest==9.2.0")
ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "doors" / "moto"
FILES = ("test_sqs.py", "test_sqs_message_attributes.py")
"""The others are of moto's own inside, of CloudFormation, Lambda and IAM, and of many accounts."""
BAR = 0.95

LATE = "an expired receipt deletes nothing and changes nothing here"
INSIDE = "it looks into moto's own memory"
REGIONS = "all regions have the same queues here"
IN_FLIGHT = "a purge leaves what is in flight to its receiver here"
GROUPS = "one message of a group is received at a time"
KNOWN: dict[str, str] = {
    "test_delete_message_after_visibility_timeout": LATE,
    "test_delete_message_using_old_receipt_handle": LATE,
    "test_change_message_visibility_on_old_message": LATE,
    "test_batch_change_message_visibility_on_old_message": LATE,
    "test_create_queues_in_multiple_region": REGIONS,
    "test_purge_queue_before_delete_message": IN_FLIGHT,
    "test_receive_messages_with_message_group_id": GROUPS,
}
"""Tests that fail, and why."""
NOT_PORTABLE: dict[str, str] = {
    "test_is_empty_redrive_policy_returns_true_for_empty_and_falsy_values": INSIDE,
    "test_is_empty_redrive_policy_returns_false_for_valid_policy_format": INSIDE,
}
"""Tests that ask nothing of a server; they are not counted, nor are those that skip themselves."""

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


def main() -> int:
    """Runs them, and prints the score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", nargs="*", help="names of tests; without, all")
    options = parser.parse_args()
    python = environment()
    tests = fetched()
    with tempfile.TemporaryDirectory() as folder, door(Path(folder)) as endpoint:
        report = Path(folder) / "report.xml"
        run(python, tests, endpoint, report, options.tests)
        return score(report)


def environment() -> Path:
    """An environment with moto; its interpreter."""
    python = BUILD / "env" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", BUILD / "env"], check=True)
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *NEEDED]
    subprocess.run(pip, check=True)
    return python


def fetched() -> Path:
    """The tests, as they are in moto's source distribution."""
    sources = BUILD / f"moto-{MOTO}" / "tests"
    if not sources.exists():
        fetch = ["download", "-q", "--no-deps", "--no-binary", ":all:", f"moto=={MOTO}"]
        subprocess.run([sys.executable, "-m", "pip", *fetch, "-d", BUILD], check=True)
        with tarfile.open(BUILD / f"moto-{MOTO}.tar.gz") as archive:
            wanted = re.compile(rf"moto-{re.escape(MOTO)}/tests/(__init__\.py|test_sqs/.*\.py)")
            some = [one for one in archive.getmembers() if wanted.fullmatch(one.name)]
            archive.extractall(BUILD, some, filter="data")
    (sources / "conftest.py").write_text(CONFTEST)
    return sources


@contextmanager
def door(folder: Path) -> Iterator[str]:
    """A node, and a door of it; where it is."""
    node, listen = free(), 5000  # two tests know the port
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
        yield f"http://localhost:{listen}"
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


def run(python: Path, tests: Path, endpoint: str, report: Path, names: list[str]) -> None:
    given = {
        "TEST_SERVER_MODE": "true",
        "TEST_SERVER_MODE_ENDPOINT": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    which = ["-k", " or ".join(names)] if names else []
    files = [str(tests / "test_sqs" / one) for one in FILES]
    plain = ["-q", "-c", os.devnull, "-p", "no:cacheprovider", "-W", "ignore", "--tb=short"]
    where = ["--rootdir", str(tests.parent), f"--junitxml={report}"]
    command = [str(python), "-m", "pytest", *plain, *where, *which, *files]
    subprocess.run(command, cwd=tests.parent, env=os.environ | given, check=False)


def score(report: Path) -> int:
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
        if name not in NOT_PORTABLE and found["skipped"] < found.total()
    }
    failed = sorted(name for name, found in counted.items() if found["failed"])
    for name in failed:
        print(f"{name}: {KNOWN.get(name, 'NOT KNOWN')}")
    skipped = len(outcomes) - len(counted)
    passed = len(counted) - len(failed)
    share = passed / max(1, len(counted))
    print(
        f"moto {MOTO}: {passed} of {len(counted)} tests pass ({share:.1%}); {skipped} more ask "
        "nothing of a server"
    )
    strange = [name for name in failed if name not in KNOWN]
    mended = [name for name in KNOWN if name in counted and name not in failed]
    if mended:
        print("pass by now:", ", ".join(mended))
    if share < BAR:
        print(f"below {BAR:.0%}")
    return 1 if strange or mended else 0


if __name__ == "__main__":
    sys.exit(main())
