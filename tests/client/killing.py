"""Killing who leads a queue."""

import time

import snowmelt
from snowmelt.cli.local import LocalCluster


def kill_leader(nodes: LocalCluster, queue: snowmelt.Fifo) -> str:
    """Who leads now is killed, and comes back when another leads; or, if it decides, soon."""
    name = queue.stats(timeout=60).leader
    leader = next(node for node in nodes.nodes if node.name == name)
    leader.kill()
    while name != "n1" and queue.stats(timeout=60).leader == name:
        time.sleep(0.1)
    leader.start()
    nodes.wait_for(["n1", "n2", "n3"], 60)
    return name
