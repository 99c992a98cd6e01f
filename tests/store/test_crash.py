"""A process that is killed while it commits: everything acknowledged is there, in whole groups."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from damaged import damaged_in

from snowmelt.core.record import Record
from snowmelt.store import Store

WRITER = """
import sys, threading
from pathlib import Path
from snowmelt.core.record import Erase, Write
from snowmelt.store import GroupCommit, Store

PLACES = (b"a/", b"~b/")
window = threading.Semaphore(64)

def completed(completions):
    sys.stdout.write("".join(f"{c.ticket}\\n" for c in completions))
    sys.stdout.flush()
    window.release(len(completions))

store = Store.open(Path(sys.argv[1]))
commit = GroupCommit(store, completed)
ticket = int(sys.argv[2])
while True:
    window.acquire()
    value = b"%d" % ticket * 300
    changes = [Write(b"a/%09d" % ticket, value), Write(b"~b/%09d" % ticket, value)]
    if ticket % 3 == 0:  # the one before goes again
        changes += [Erase(at + b"%09d" % (ticket - 1), at + b"%09d" % ticket) for at in PLACES]
    commit.submit(ticket, changes)
    ticket += 1
"""


def killed(folder: Path, first: int, acknowledgements: int) -> int:
    """Lets a writer live for so many acknowledgements, kills it; the last one it gave."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, folder, str(first)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        for _ in range(acknowledgements):
            child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read().split("\n")  # what it still said counts too
    whole = [line for line in rest[:-1] if line]
    return int(whole[-1]) if whole else first + acknowledgements - 1


@pytest.mark.parametrize("lives", [6])
def test_what_was_acknowledged_survives_kill(tmp_path: Path, lives: int) -> None:
    first = 1
    for life in range(lives):
        last = killed(tmp_path, first, 1 + 37 * life)
        with Store.open(tmp_path) as store:
            assert damaged_in(store) == ()
            small = store.scan(b"a/", b"a0", 1_000_000)
            bulk = store.scan(b"~b/", b"~b0", 1_000_000)
        assert [record.key[1:] for record in small] == [record.key[2:] for record in bulk]
        numbers = [int(record.key[2:]) for record in small]
        highest = numbers[-1]
        assert highest >= last
        assert set(numbers) == {n for n in range(1, highest + 1) if n % 3 != 2 or n == highest}
        for record in small:
            assert isinstance(record, Record)
            assert record.value == b"%d" % int(record.key[2:]) * 300
        first = highest + 1
