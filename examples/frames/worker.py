"""A worker's process: `python -m frames.worker URL`.

It takes a frame whenever it is free, finds the spot, and takes the next; the frame is done then. A
worker that is killed in between has used nothing: the frame comes to another.
"""

import json
import sys
import threading

import snowmelt
from frames.picture import number_of, position


def _listen(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


def _main(url: str) -> None:
    over = threading.Event()
    threading.Thread(target=_listen, args=(over,), daemon=True).start()
    found: list[tuple[int, int, float, float]] = []
    with snowmelt.connect(url) as cluster, cluster.pool("frames") as pool:
        print("ready", flush=True)
        while not over.is_set():
            came = pool.consume(timeout=0.2)
            found += [(*number_of(frame.body), *position(frame.body)) for frame in came]
        told = pool.stats()
    answer = {"found": found, "probes": told.hops, "waited": told.waited_seconds}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _main(sys.argv[1])
