"""A camera's process: `python -m frames.camera URL NUMBER SIDE FRAMES_A_SECOND`.

It keeps its frames in the pool, and makes none while there is no room. When it reads a line it
stops, waits until all its frames were used, says how many it made, and leaves when its input ends.
"""

import json
import sys
import threading
import time

import snowmelt
from frames.picture import Camera
from snowmelt.core.errors import Full

BUFFERS = 4
PATIENCE = 20.0
"""How many seconds it waits at most for its last frames to be used."""


def film(pool: snowmelt.Pool, camera: Camera, rate: float, over: threading.Event) -> int:
    """Makes frames until it is over; how many."""
    number, due = 0, time.monotonic()
    while not over.is_set():
        try:
            pool.await_room(timeout=0.2)
        except Full:
            continue  # all buffers hold frames that nobody took yet: this camera pauses
        pool.put(camera.frame(number))
        number += 1
        due = max(due + 1 / rate, time.monotonic())
        over.wait(due - time.monotonic())
    return number


def _listen(over: threading.Event) -> None:
    sys.stdin.readline()
    over.set()


def _main(url: str, number: int, side: int, rate: float) -> None:
    over = threading.Event()
    threading.Thread(target=_listen, args=(over,), daemon=True).start()
    with snowmelt.connect(url) as cluster:
        pool = cluster.pool("frames", producer=f"camera-{number}", buffers=BUFFERS)
        print("ready", flush=True)
        made = film(pool, Camera(number, side), rate, over)
        end = time.monotonic() + PATIENCE
        while (told := pool.stats()).stock + told.on_loan and time.monotonic() < end:
            time.sleep(0.02)
        answer = {"camera": number, "made": made, "paused": told.blocked_seconds}
        print(json.dumps(answer), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
