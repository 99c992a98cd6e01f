"""`python -m frames`: cameras and workers, each a process, and an exact account in the end."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import dist
from pathlib import Path
from typing import Any

import snowmelt
from frames.picture import HEAD, Camera
from snowmelt.cli.local import LocalCluster, end_on_sigterm
from snowmelt.core.errors import SnowmeltError

Process = subprocess.Popen[str]
Found = list[tuple[int, int, float, float]]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m frames", description=__doc__)
    parser.add_argument("--cameras", type=int, default=20)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--side", type=int, default=2048, help="pixels each way; 2048 is 4 MB")
    parser.add_argument("--rate", type=float, default=2.0, help="frames a second of each camera")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--kill", action="store_true", help="kill a worker in the middle")
    parser.add_argument("--url", help="a cluster; if none, three nodes of its own")
    options = parser.parse_args()
    if options.cameras < 1 or options.workers < 1 + options.kill:
        parser.error("there must be a camera and a worker, and another worker with --kill")
    if not 64 <= options.side <= 16_000 or options.rate <= 0 or options.seconds <= 0:
        parser.error("--side is 64 to 16000, --rate and --seconds are above 0")
    return options


def _main() -> int:
    options = _options()
    end_on_sigterm()
    with ExitStack() as stack:
        url = options.url or _own_nodes(stack)
        workers = stack.enter_context(_started(options.workers, "frames.worker", url))
        cameras = stack.enter_context(
            _started(options.cameras, "frames.camera", url, options.side, options.rate)
        )
        print(f"{options.cameras} cameras film for {options.seconds:g} s …", flush=True)
        time.sleep(options.seconds / 2)
        if options.kill:
            workers.pop().kill()
            print("one worker was killed", flush=True)
        time.sleep(options.seconds / 2)
        for one in cameras:
            _say(one, "stop\n")
        made = [_answer(one) for one in cameras]
        carried = _carried(url)  # while all are still connected
        for one in workers:
            assert one.stdin is not None
            one.stdin.close()
        return _account(options, made, [_answer(one) for one in workers], carried)


def _own_nodes(stack: ExitStack) -> str:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="frames-")))
    cluster = stack.enter_context(LocalCluster(3, folder, 0.5))
    print(f"{cluster.start()} is up; it introduces, and carries no frame", flush=True)
    return cluster.url


@contextmanager
def _started(count: int, module: str, url: str, *more: object) -> Iterator[list[Process]]:
    """So many processes, ready; they end with this."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    processes: list[Process] = []
    try:
        for number in range(count):
            given = [url, str(number), *map(str, more)] if more else [url]
            command = [sys.executable, "-m", module, *given]
            pipe = subprocess.PIPE
            processes.append(
                subprocess.Popen(  # noqa: S603  this very example's
                    command, stdin=pipe, stdout=pipe, text=True, env=environment
                )
            )
        for one in processes:
            _line(one)
        started = list(processes)
        yield started
        for one in started:
            assert one.stdin is not None
            one.stdin.close()
        for one in started:
            one.wait(30)
    finally:
        for one in processes:
            one.kill()
            with one:
                pass


def _say(process: Process, words: str) -> None:
    assert process.stdin is not None
    process.stdin.write(words)
    process.stdin.flush()


def _line(process: Process) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit("a camera or a worker ended by itself; its last words are above")
    return line


def _answer(process: Process) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(_line(process))
    return answer


def _carried(url: str) -> list[tuple[str, int]]:
    """How many bytes each node has exchanged with cameras and workers."""
    nodes, _, cluster = url.removeprefix("snowmelt://").partition("/")
    told: list[tuple[str, int]] = []
    for address in nodes.split(","):
        with snowmelt.connect(f"snowmelt://{address}/{cluster}".rstrip("/")) as node:
            process = node.statistics()
        clients = [one for one in process.connections if one.role == "client"]
        told.append((process.node, sum(one.bytes_in + one.bytes_out for one in clients)))
    return told


def _account(
    options: argparse.Namespace,
    made: list[dict[str, Any]],
    used: list[dict[str, Any]],
    carried: list[tuple[str, int]],
) -> int:
    """Prints what became of every frame; 1 when something is not as it must be."""
    found: Found = [tuple(one) for worker in used for one in worker["found"]]
    times = Counter((camera, number) for camera, number, _, _ in found)
    wanted = {(one["camera"], number) for one in made for number in range(one["made"])}
    lost = sum(1 for one in wanted if one not in times)
    size = HEAD.size + options.side**2
    waited = sum(one["waited"] for one in used) / max(1, len(found)) * 1e3
    off = _off(found, options.side)
    print(f"{len(wanted):8,}  frames made, {len(wanted) * size / 1e6:,.0f} MB")
    print(f"{len(times):8,}  used by {len(used)} workers")
    if options.kill:
        print("          (those that the killed one had used are known to nobody)")
    else:
        print(f"{lost:8,}  lost")
        print(f"{len(found) - len(times):8,}  used twice")
    print(f"{sum(one['probes'] for one in used) / max(1, len(found)):8.2f}  probes a frame")
    print(f"{waited:8.1f}  ms a worker waited for one")
    print(f"{sum(one['paused'] for one in made):8.1f}  s cameras paused for want of room, in all")
    print(f"{off:8.1f}  pixels are the most that a spot was found from its place")
    for node, count in carried:
        print(f"{count / 1e6:8.3f}  MB went through {node}: introductions")
    good = (options.kill or not lost) and off < 1.5
    return 0 if good else 1


def _off(found: Found, side: int) -> float:
    """How far, in pixels, a spot was found from where it was: the worst of all."""
    cameras = {camera: Camera(camera, side) for camera in sorted({one[0] for one in found})}
    return max(
        (dist((x, y), cameras[camera].place(number)) for camera, number, x, y in found),
        default=0.0,
    )


if __name__ == "__main__":
    try:
        raise SystemExit(_main())
    except SnowmeltError as error:
        raise SystemExit(f"frames: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
