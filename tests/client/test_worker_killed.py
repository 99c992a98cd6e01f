"""What kills its process is set aside alone: what no handler saw is not taken along."""

import subprocess
import sys

import snowmelt
from snowmelt.cli.local import LocalNode

WAYS = ("fifo-threads", "priority-threads", "fifo-processes", "priority-processes", "fifo-tasks")

PROGRAM = """
import asyncio, os, signal, sys
import snowmelt, snowmelt.aio
url, *ways = sys.argv[1:]
for each in ways:
    kind, way = each.split("-")
    if not os.fork():
        break
else:
    codes = [os.wait()[1] for _ in ways]
    sys.exit(any(codes))
def handle(item):
    if item.body == b"25":
        os.kill(os.getpid(), signal.SIGKILL)
async def handle_async(item):
    handle(item)
async def work_async():
    async with snowmelt.aio.connect(url) as cluster:
        queue = getattr(cluster, kind)(f"{kind}-{way}")
        worker = snowmelt.aio.Worker(queue, handle_async, prefetch=50, tasks=3)
        await worker.run(timeout=1.5)
def work():
    if way == "tasks":
        return asyncio.run(work_async())
    with snowmelt.connect(url) as cluster:
        queue = getattr(cluster, kind)(f"{kind}-{way}")
        options = {"processes": 1} if way == "processes" else {"threads": 3}
        snowmelt.Worker(queue, handle, prefetch=50, **options).run(timeout=1.5)
ended = -1
while ended:  # whoever starts it again
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


def test_one_that_kills_its_process_is_dead_alone(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        queues = []
        for name in WAYS:
            kind, _, _ = name.partition("-")
            queue = getattr(cluster, kind)(name, lease=0.5, max_deliveries=3)
            queue.put_many([str(number).encode() for number in range(50)])
            queues.append(queue)
        subprocess.run([sys.executable, "-c", PROGRAM, node.url, *WAYS], check=True, timeout=60)
        for queue in queues:
            (dead,) = queue.peek(dead=True)
            assert (dead.body, dead.failures, dead.reason) == (b"25", 3, "the lease ended")
            status = queue.stats()
            assert (status.ready, status.leased, status.dead) == (0, 0, 1)
