"""What kills its process is dead alone: what no handler saw has not failed."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import snowmelt
from snowmelt.cli.local import LocalNode

WAYS = {  # the kind of queue, who works, so many handlers at once: max_deliveries
    "fifo-threads-1": 1,
    "fifo-threads-3": 2,
    "fifo-processes-1": 2,
    "fifo-tasks-3": 3,
    "fifo-loop-1": 2,
    "priority-threads-3": 3,
    "priority-threads-1": 2,
    "priority-processes-1": 1,
    "priority-tasks-1": 1,
}

PROGRAM = """
import asyncio, os, signal, sys
import snowmelt, snowmelt.aio
url, folder, *ways = sys.argv[1:]
for each in ways:
    kind, way, several = each.split("-")
    if not os.fork():
        break
else:
    codes = [os.wait()[1] for _ in ways]
    sys.exit(any(codes))
seen = os.open(os.path.join(folder, each), os.O_APPEND | os.O_CREAT | os.O_WRONLY)
def handle(item):
    os.write(seen, b"%s %d\\n" % (bytes(item.body), item.failures))
    if item.body == b"25":
        os.kill(os.getpid(), signal.SIGKILL)
async def handle_async(item):
    handle(item)
async def work_async():
    async with snowmelt.aio.connect(url) as cluster:
        queue = getattr(cluster, kind)(each)
        worker = snowmelt.aio.Worker(queue, handle_async, prefetch=50, tasks=int(several))
        await worker.run(timeout=2.5)
def work():
    if way == "tasks":
        return asyncio.run(work_async())
    with snowmelt.connect(url) as cluster:
        queue = getattr(cluster, kind)(each)
        if way == "loop":
            for item in queue.consume(prefetch=50, timeout=2.5):
                handle(item)
                item.ack()
        else:
            options = {way: int(several), "prefetch": 50}
            snowmelt.Worker(queue, handle, **options).run(timeout=2.5)
ended = -1
while ended:  # whoever starts it again
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


def test_one_that_kills_its_process_is_dead_alone_and_nothing_has_failed_that_no_handler_saw(
    node: LocalNode, tmp_path: Path
) -> None:
    with snowmelt.connect(node.url) as cluster:
        queues = {}
        for name, most in WAYS.items():
            kind, _, _ = name.partition("-")
            queues[name] = getattr(cluster, kind)(name, lease=1, max_deliveries=most)
            queues[name].put_many([str(number).encode() for number in range(50)])
        ways = [sys.executable, "-c", PROGRAM, node.url, str(tmp_path), *WAYS]
        subprocess.run(ways, check=True, timeout=60)
        for name, most in WAYS.items():
            (dead,) = queues[name].peek(dead=True)
            assert (dead.body, dead.failures, dead.reason) == (b"25", most, "the lease ended")
            status = queues[name].stats()
            assert (status.ready, status.leased, status.dead) == (0, 0, 1)
            lines = (tmp_path / name).read_text().splitlines()
            seen = Counter(line.split()[0] for line in lines)
            assert len(seen) == 50, "each was done"
            assert seen["25"] == most, name
            innocent = {tuple(line.split()) for line in lines if not line.startswith("25 ")}
            beside = int(name[-1]) - 1
            assert len([body for body, failures in innocent if failures != "0"]) <= beside, name
