"""A real disk that is full: puts are refused, and gets and acknowledgements make room again."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from wide import wide

FILLED = """
import json, resource, sys
import snowmelt
from snowmelt.store import Store

real = Store.open.__func__

def small(cls, folder, *, size_max=0, flush=True):
    return real(cls, folder, size_max=MOST, flush=flush)

MOST, SIZE = 8 << 20, int(sys.argv[3])
if sys.argv[2] == "store":
    Store.open = classmethod(small)
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, resource.RLIM_INFINITY))

def body(number):
    return b"%06d" % number + bytes(SIZE)

def refused(number):
    try:
        queue.put(body(number), timeout=10)
    except snowmelt.DiskFull:
        return True
    return False

with snowmelt.open(sys.argv[1]) as cluster:
    queue, kept, got, again = cluster.fifo("q"), 0, [], 0
    while not refused(kept):
        kept += 1
    assert refused(kept)
    for number in range(kept):
        item = queue.get(timeout=10)
        got.append(int(item.body[:6]))
        item.ack()
        if number >= kept // 2:
            again += not refused(kept + again)
    while again > len(got) - kept:
        item = queue.get(timeout=10)
        got.append(int(item.body[:6]))
        item.ack()
    print(json.dumps([kept, again, got]))
"""


@pytest.mark.parametrize("size", [10_000, *wide(900_000)])
@pytest.mark.parametrize("kind", [*wide("store"), "disk"])
def test_a_full_disk_refuses_puts_and_gets_make_room(tmp_path: Path, kind: str, size: int) -> None:
    child = subprocess.run(
        [sys.executable, "-c", FILLED, tmp_path, kind, str(size)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert child.returncode == 0, child.stderr
    kept, again, got = json.loads(child.stdout)
    assert kept * size > 3 << 20
    assert again > 0
    assert got == list(range(kept + again))
