"""What a compare-and-set costs through the client, and where the time goes.

    python benchmarks/etcd_client.py etcd://127.0.0.1:2379/trial [COUNT]

Prints the median and the 99th percentile of a read, of a compare-and-set, and of a lease's refresh,
in milliseconds, one at a time, as a leader asks them.
"""

import secrets
import statistics
import sys
import time
from collections.abc import Callable

from snowmelt.protocols.etcd import (
    Grant,
    Granted,
    Put,
    Read,
    Refresh,
    Request,
    Transact,
    Transacted,
    Unchanged,
)
from snowmelt.runtime.etcd import EtcdPlace
from snowmelt.runtime.etcd.client import Line


def timed(line: Line, count: int, request: Callable[[int], Request]) -> str:
    took: list[float] = []
    for number in range(count):
        begin = time.perf_counter()
        answer = line.carry(request(number))
        took.append((time.perf_counter() - begin) * 1e3)
        assert not hasattr(answer, "trouble"), answer
    took.sort()
    return f"median {statistics.median(took):.2f} ms, 99 % {took[int(count * 0.99)]:.2f} ms"


def main(url: str, count: int) -> None:
    line = Line(EtcdPlace.read(url))
    key = f"bench-{secrets.token_hex(4)}"
    value = bytes(300)
    first = line.carry(Transact(0, (Unchanged(key, 0),), (Put(key, value),)))
    assert isinstance(first, Transacted), first
    lease = line.carry(Grant(0, 60))
    assert isinstance(lease, Granted), lease
    read = timed(line, count, lambda number: Transact(number, (), (Read(key),)))
    print("read", read)

    def change(number: int) -> Request:
        return Transact(number, (Unchanged(key, first.revision + number),), (Put(key, value),))

    print("compare and set", timed(line, count, change))
    print("refresh", timed(line, count, lambda number: Refresh(number, lease.lease)))
    line.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 500)
