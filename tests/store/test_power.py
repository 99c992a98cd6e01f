"""A disk that loses power while it is written to: a file system of its own, which is shut down."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from damaged import damaged_in

from snowmelt.core.record import Record
from snowmelt.store import Store
from snowmelt_world.storms.disks import ImageDisk, possible

WRITER = """
import sys, random
from pathlib import Path
from snowmelt.core.record import Erase, Write
from snowmelt.store import Store, shrinking

shrinking.SPARE_MIN, shrinking.LOOK_SECONDS, shrinking._SHARE = 1 << 18, 0.0, 1
shrinking._SLICE_BYTES = 50_000
shrinks = sys.argv[3] == "True"
store, number = Store.open(Path(sys.argv[1])), int(sys.argv[2])
rng = random.Random(number)
print("open", flush=True)
while True:
    value = b"%d" % number + b"v" * rng.choice([10, 10, 10, 300, 5_000, 30_000, 90_000])
    changes = [Write(at + b"%09d" % number, value) for at in (b"a/", b"~b/")]
    changes += [Write(b"last", b"%d" % number), Erase(b"a/", b"a/%09d" % (number - 40))]
    (failure,) = store.commit([[*changes, Erase(b"~b/", b"~b/%09d" % (number - 40))]])
    if failure is not None:
        raise failure
    print(number, flush=True)
    number += 1
    if shrinks:
        store.shrink()
"""


def lived(folder: Path, first: int, commits: int, end: str, disk: ImageDisk, shrinks: bool) -> int:
    """Lets a writer live for so many commits and end so; the last it acknowledged, or 0."""
    command = [sys.executable, "-c", WRITER, str(folder), str(first), str(shrinks)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(1 + commits)]
        if end == "power":
            disk.fail()
        child.send_signal(signal.SIGKILL)
        said += child.stdout  # what it still said counts too
    assert said[0] == "open\n"
    return int(said[-1]) if len(said) > 1 else 0


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.skipif(not possible(), reason="needs mkfs.ext4 and the right to mount")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shrinks", [False, True])
def test_what_was_acknowledged_survives_the_loss_of_power(
    tmp_path: Path, seed: int, shrinks: bool
) -> None:
    rng = random.Random(seed)
    safe = 0
    with ImageDisk(tmp_path / "disk") as disk:
        folder = tmp_path / "disk" / "n1"
        for _ in range(20):
            # One more than was acknowledged may be there; so the next life begins after that.
            safe = max(
                safe, lived(folder, safe + 2, rng.choice([1, 5, 50, 150]), "kill", disk, shrinks)
            )
            # Who comes now may find what only the system's memory has, and must not build on it.
            safe = max(
                safe, lived(folder, safe + 2, rng.choice([0, 1, 20]), "power", disk, shrinks)
            )
            disk.repair()
            with Store.open(folder) as store:
                assert damaged_in(store) == ()
                (found,) = store.load([b"last"])
                small, bulk = store.scan(b"a/", b"a0"), store.scan(b"~b/", b"~b0")
            assert isinstance(found, Record)
            assert int(found.value) in (safe, safe + 1, safe + 2)
            assert [record.key[2:] for record in small] == [record.key[3:] for record in bulk]
            assert int(small[-1].key[2:]) == int(found.value)
            safe = int(found.value)
