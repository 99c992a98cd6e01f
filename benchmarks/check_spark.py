"""Judges a history of many operations on Spark, and a smaller one beside one machine's checker.

    python benchmarks/check_spark.py                       # fifty million operations, on local[2]
    python benchmarks/check_spark.py --operations 1000000 --beside 1000000

A history is made first: eight producers, eight consumers that get and acknowledge, a queue that is
first in, first out, whose calls overlap; now and then a get finds nothing; a drain at the end. With
`--broken` three values are wrong: one is got out of order, one is lost, and one comes again after
its acknowledgement. Memory is that of all processes of the command, by /proc, looked at every two
seconds.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from random import Random

SIDES = 8
GAP = 1_000
"""Nanoseconds between the instants at which operations take effect."""


def line(process: str, kind: str, value: int | None, called: int, returned: int) -> bytes:
    values = "" if value is None else str(value)
    text = (
        f'{{"process":"{process}","kind":"{kind}","values":[{values}],'
        f'"called":{called},"returned":{returned}}}\n'
    )
    return text.encode()


def history(operations: int, broken: bool) -> Iterator[bytes]:
    """A put, a get and an ack each; every operation takes effect at an instant of its own."""
    chance = Random(1)
    waiting: deque[int] = deque()
    made, now = 0, 10 * SIDES * GAP
    faults = {operations // 3 * part // 4: part for part in (1, 2, 3)} if broken else {}

    def span() -> tuple[int, int]:
        return now - chance.randrange(SIDES * GAP), now + chance.randrange(SIDES * GAP)

    done = 0
    while done < operations - 2 or waiting:
        now += GAP
        filling = done + 2 * len(waiting) < operations - 2
        if filling and (len(waiting) < 20 or chance.random() < 0.5):
            waiting.append(made)
            yield line(f"p{made % SIDES}", "put", made, *span())
            made, done = made + 1, done + 1
            continue
        if not waiting:
            yield line("c0", "get", None, *span())
            done += 1
            continue
        value = waiting.popleft()
        fault = faults.pop(value, 0)
        if fault == 1 and waiting:
            waiting.insert(15, value)
            continue
        if fault == 2:
            continue
        consumer = f"c{value % SIDES}"
        yield line(consumer, "get", value, *span())
        now += SIDES * GAP
        yield line(consumer, "ack", value, now, now + GAP)
        done += 2
        if fault == 3:
            now += 2 * GAP
            yield line(consumer, "get", value, now, now + GAP)
    now += 100 * SIDES * GAP
    yield line("c0", "get", None, now, now + GAP)
    yield line("c0", "drain", None, now + 2 * GAP, now + 3 * GAP)


def written(folder: Path, operations: int, broken: bool) -> Path:
    file = folder / f"{operations}.jsonl"
    begin = time.perf_counter()
    with file.open("wb", buffering=1 << 20) as out:
        out.writelines(history(operations, broken))
    size = file.stat().st_size / 1e9
    print(f"{operations:,} operations, {size:.2f} GB, made in {time.perf_counter() - begin:.0f} s")
    return file


def memory(pid: int) -> int:
    """Of a process and its children, what they share counted once."""
    total = 0
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        total = next(int(row.split()[1]) for row in rollup.splitlines() if row.startswith("Pss:"))
        threads = Path(f"/proc/{pid}/task").iterdir()
        children = [word for one in threads for word in (one / "children").read_text().split()]
    except (OSError, StopIteration):
        return total * 1024
    return total * 1024 + sum(memory(int(child)) for child in children)


def run(name: str, file: Path, words: list[str], properties: list[str]) -> tuple[float, str]:
    """`snowmelt check` as a person runs it; the seconds it takes, and what it says."""
    command = [sys.executable, "-m", "snowmelt", "check", str(file), *words]
    command += [word for one in properties for word in ("--property", one)]
    begin = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    most, over = [0], threading.Event()

    def watch() -> None:
        while not over.wait(2):
            most[0] = max(most[0], memory(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    said, _ = process.communicate()
    over.set()
    watcher.join()
    took = time.perf_counter() - begin
    load = Path("/proc/loadavg").read_text().split()[0]
    told = f"{name}: {took:.0f} s, {most[0] / 1e9:.1f} GB at most, exit code {process.returncode}"
    print(f"{told}, load {load}", flush=True)
    print("    " + said.replace("\n", "\n    ").rstrip())
    return took, said


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--operations", type=int, default=50_000_000)
    parser.add_argument("--beside", type=int, default=1_000_000, help="0: no comparison")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--property", action="append", default=[])
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--broken", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as place:
        folder = Path(place)
        words = ["--spark", given.master]
        if given.beside:
            file = written(folder, given.beside, given.broken)
            alone, one = run("one machine", file, [], given.property)
            spread, other = run("Spark", file, words, given.property)
            print(f"Spark : one machine {spread / alone:.2f}; the same verdicts: {one == other}")
            file.unlink()
        run("Spark", written(folder, given.operations, given.broken), words, given.property)
    print(f"peak of this program {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB")


if __name__ == "__main__":
    main()
