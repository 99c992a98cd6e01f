"""Nothing a disk can hold crashes or hangs a reader, and nothing wrong is served."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from snowmelt.core.errors import StoreError
from snowmelt.store.seal import seal, unseal
from snowmelt.store.stamp import Stamp, decode, encode

IDENTITY = b"identity"


def bend(data: bytes, rng: random.Random) -> bytes:
    """The same bytes with one injury, which may undo itself."""
    bent = bytearray(data)
    match rng.randrange(5):
        case 0 if bent:
            bent[rng.randrange(len(bent))] ^= 1 << rng.randrange(8)
        case 1:
            del bent[rng.randrange(len(bent) + 1) :]
        case 2:
            bent += rng.randbytes(rng.randrange(9))
        case 3 if bent:
            at = rng.randrange(len(bent))
            bent[at : at + 8] = bytes(len(bent[at : at + 8]))
        case _:
            bent = bytearray(rng.randbytes(rng.randrange(40)))
    return bytes(bent)


def decode_bent(count: int) -> None:
    rng = random.Random(count)
    stamp = encode(Stamp(1, IDENTITY))
    for _ in range(count):
        key, value = rng.randbytes(rng.randrange(1, 12)), rng.randbytes(rng.randrange(60))
        sealed = seal(IDENTITY, key, value)
        bent_key, bent = (
            (bend(key, rng), sealed) if rng.random() < 0.3 else (key, bend(sealed, rng))
        )
        served = unseal(IDENTITY, bent_key, bent)
        assert served is None or (bent_key, served) == (key, value)
        text = bend(stamp, rng)
        try:
            assert decode(text, Path("n1")) == Stamp(1, IDENTITY)
        except StoreError:
            assert text != stamp


def corrupt_files(folder: Path, first: int, count: int) -> dict[str, int]:
    program = Path(__file__).with_name("corrupting.py")
    child = subprocess.run(
        [sys.executable, program, folder, str(first), str(count)],
        capture_output=True,
        text=True,
        check=False,
        timeout=50 + count / 6,
    )
    seed = (folder / "seed").read_text() if (folder / "seed").exists() else "none"
    assert child.returncode == 0, f"died at seed {seed}: {child.stderr}"
    assert child.stderr == ""
    counts: dict[str, int] = json.loads(child.stdout)
    return counts


def test_a_bent_record_is_never_served() -> None:
    decode_bent(10_000)


def test_a_harmed_file_never_crashes_and_never_lies(tmp_path: Path) -> None:
    counts = corrupt_files(tmp_path, 1, 150)
    assert sum(counts.values()) == 150
    assert {"refused at opening", "damaged records named", "harmless"} == counts.keys()


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_million_bent_records_are_never_served() -> None:
    decode_bent(1_000_000)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", [1_000_000, 2_000_000, 3_000_000])
def test_thousands_of_harmed_files_never_crash(tmp_path: Path, first: int) -> None:
    corrupt_files(tmp_path, first, 5_000)
