"""A program that harms a store's files again and again and reads what is left.

It runs as a child of the tests, so that a crash or a hang of the engine shows as one:

    python corrupting.py FOLDER FIRST_SEED COUNT

It prints how often each thing happened, as JSON, and a line on standard error when a promise was
broken: a wrong value was served, or a record vanished with nobody told.
"""

import json
import random
import shutil
import sys
from collections import Counter
from pathlib import Path

from snowmelt.core.errors import StoreDamaged
from snowmelt.core.record import BULK, Erase, Record, Write
from snowmelt.store import Store

PAGE = 4096
ALL = (b"", b"\xff" * 401)


def make(folder: Path, rng: random.Random) -> dict[bytes, bytes]:
    """A store of some depth with a past: small and large records, and pages that are free.

    It is as its process leaves it that is killed: the last commits are in the log alone.
    """
    model = {b"state/%03d" % at: rng.randbytes(rng.randrange(200)) for at in range(300)}
    model |= {BULK + b"%05d" % at: rng.randbytes(rng.choice([90, 9000])) for at in range(120)}
    with Store.open(folder, flush=False) as store:
        for key, value in model.items():
            store.commit([[Write(key, value)]])
        store.commit([[Erase(BULK, BULK + b"00020")]])
    late = {b"late/%d" % at: rng.randbytes(rng.choice([9, 900, 9000])) for at in range(9)}
    late[b"last"] = b"told"
    with Store.open(folder, flush=False) as store:
        for key, value in late.items():
            store.commit([[Write(key, value)]])
        store.commit([[Erase(BULK, BULK + b"00025")]])
        shutil.copytree(folder, folder.with_name("killed"))
    return {key: value for key, value in model.items() if not BULK <= key < BULK + b"00025"} | late


def harm(whole: bytes, end: int, rng: random.Random) -> tuple[str, bytes]:
    """The file with one injury, before this end of what was written to it."""
    data = bytearray(whole)
    page = PAGE * rng.randrange(end // PAGE)
    match rng.choice(["bit", "head bit", "root bit", "byte", "sector", "page", "swap", "cut"]):
        case "bit":
            data[rng.randrange(end)] ^= 1 << rng.randrange(8)
            kind = "a bit flipped"
        case "head bit":
            data[page + rng.randrange(64)] ^= 1 << rng.randrange(8)
            kind = "a bit of a page's head flipped"
        case "root bit":
            data[rng.choice([0, PAGE]) + rng.randrange(160)] ^= 1 << rng.randrange(8)
            kind = "a bit of a root flipped"
        case "byte":
            data[rng.randrange(end)] = rng.randrange(256)
            kind = "a byte replaced"
        case "sector":
            at = page + 512 * rng.randrange(8)
            data[at : at + 512] = bytes(512)
            kind = "a sector of zeros"
        case "page":
            data[page : page + PAGE] = rng.randbytes(PAGE)
            kind = "a page of noise"
        case "swap":
            other = PAGE * rng.randrange(end // PAGE)
            data[page : page + PAGE], data[other : other + PAGE] = (
                data[other : other + PAGE],
                data[page : page + PAGE],
            )
            kind = "two pages swapped"
        case _:
            del data[rng.randrange(len(data)) :]
            kind = "the end cut off"
    return kind, bytes(data)


def judge(folder: Path, model: dict[bytes, bytes]) -> str:
    """Opens what was harmed, reads all, writes some."""
    try:
        with Store.open(folder, flush=False) as store:
            found = store.scan(*ALL, limit=10_000)
            kept = {record.key: record.value for record in found if isinstance(record, Record)}
            if any(model.get(key) != value for key, value in kept.items()):
                return "WRONG VALUE SERVED"
            loaded = store.load([*model])
            if any(isinstance(r, Record) and r.value != model[r.key] for r in loaded):
                return "WRONG VALUE SERVED"
            told = len(found) > len(kept)
            store.recover()
            store.commit([[Write(b"new/%d" % at, b"x" * 3000) for at in range(20)]])
            store.commit([[Erase(*ALL)]])
    except StoreDamaged:
        return "refused at opening"
    if told:
        return "damaged records named"
    return "harmless" if len(kept) == len(model) else "RECORD VANISHED"


def main() -> None:
    """Harms and judges, seed by seed."""
    base, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    model = make(base / "whole", random.Random(first))
    names = ("records", "records", "log")
    whole = {name: (base / "killed" / name).read_bytes() for name in names}
    ends = {name: len(data.rstrip(b"\0")) // PAGE * PAGE + PAGE for name, data in whole.items()}
    shutil.copytree(base / "killed", base / "harmed")
    seen: Counter[str] = Counter()
    for seed in range(first, first + count):
        rng = random.Random(seed)
        name = rng.choice(names)
        kind, data = harm(whole[name], ends[name], rng)
        (base / "seed").write_text(f"{seed}: {name}: {kind}")
        for each, content in (whole | {name: data}).items():
            (base / "harmed" / each).write_bytes(content)
        verdict = judge(base / "harmed", model)
        seen[verdict] += 1
        if verdict.isupper():
            print(f"seed {seed}: {name}: {kind}: {verdict}", file=sys.stderr)
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
