"""A program that carries items from queue to queue in steps, until it is killed."""

import sys

import snowmelt
from snowmelt.core.errors import Empty, SnowmeltError

SOURCES = ("in", "also")
TARGETS = ("out", "log")


def main(url: str, both: bool) -> None:
    """Takes one item, or one of each source, and puts it into each target."""
    with snowmelt.connect(url) as cluster:
        queues = {name: cluster.fifo(name) for name in (*SOURCES, *TARGETS)}
        while True:
            try:
                with cluster.step(timeout=20) as step:
                    for name in SOURCES if both else SOURCES[:1]:
                        try:
                            item = step.get(queues[name], timeout=0.2)
                        except Empty:
                            continue
                        for target in TARGETS:
                            step.put(queues[target], item.body)
            except SnowmeltError:
                continue


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "both")
