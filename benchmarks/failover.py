"""How long nobody can put or get after a node has died: the longest call round each kill.

    python benchmarks/failover.py [--kills 4] [--heartbeat SECONDS] [--coordinator etcd|disk]
        [--kind fifo|priority] [--victim leader|other] [--nodes 3] [--json]

Real processes. Two threads put and two get, one call at a time, each with a time-out of a minute:
a call that meets a death lasts until the queue goes on. A node is killed (SIGKILL), by turns or
always who leads; when a call of each thread has come through again it is started again.
With etcd one etcd of one member runs beside them; without, the coordinator is never killed.
"""

import argparse
import contextlib
import json
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec

import snowmelt
from snowmelt.cli.local import LocalCluster, LocalNode, end_on_sigterm
from snowmelt.cli.local_etcd import LocalEtcd
from snowmelt.cli.node import HEARTBEAT, MISSES
from snowmelt.core.errors import Empty, SnowmeltError

SETTLED = 1.0
"""So many seconds without a slow call, and the cluster counts as well again."""
TOLD = re.compile(r"leads|ends the lead|refuses|silent|decided|cut off|nobody led|term|joined|gone")


class Kill(msgspec.Struct, frozen=True):
    """What one death cost."""

    victim: str
    led: bool
    longest_put: float
    longest_get: float
    story: list[str]


class Load:
    """Threads that call, and how long their longest call was since it was last asked."""

    def __init__(self, url: str, kind: str) -> None:
        self._url = url
        self._kind = kind
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._longest = {"put": 0.0, "get": 0.0}
        self._begun: dict[int, tuple[str, float]] = {}
        self._last = [0.0] * 4
        self._threads = [
            threading.Thread(target=self._run, args=(at, ("put", "get")[at % 2]), daemon=True)
            for at in range(4)
        ]

    def begin(self) -> None:
        """Starts them all."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends them; what is under way may come to its end."""
        self._end.set()
        for thread in self._threads:
            thread.join(70)

    def taken(self) -> dict[str, float]:
        """The longest calls, and begins anew."""
        with self._lock:
            longest, self._longest = self._longest, {"put": 0.0, "get": 0.0}
        return longest

    def all_since(self, at: float) -> bool:
        """Whether a call of each thread was begun after this and has come through."""
        return min(self._last) > at

    def _run(self, at: int, what: str) -> None:
        with snowmelt.connect(self._url) as cluster:
            queue = cluster.fifo("q") if self._kind == "fifo" else cluster.priority("q")
            while not self._end.is_set():
                begun = time.monotonic()
                with contextlib.suppress(Empty, SnowmeltError):
                    if what == "put":
                        queue.put(b"x" * 100, timeout=60)
                    else:
                        with queue.get(timeout=60):
                            pass
                took = time.monotonic() - begun
                with self._lock:
                    self._longest[what] = max(self._longest[what], took)
                    self._last[at] = begun
                time.sleep(0.01)


def _until(done: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        time.sleep(0.02)
    return done()


def _story(nodes: list[LocalNode], since: float) -> list[str]:
    """What the nodes' logs say from then on, with seconds after it."""
    lines: list[str] = []
    for node in nodes:
        for line in node.log.read_text(errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                told = json.loads(line)
                at = time.mktime(time.strptime(told["at"][:19], "%Y-%m-%dT%H:%M:%S"))
                at += float("0" + told["at"][19:23])
                if at >= since and TOLD.search(told["event"]):
                    lines.append(f"{at - since:6.2f} {node.name} {told['event'][:110]}")
    return sorted(lines)


def _one_kill(cluster: LocalCluster, load: Load, victim: LocalNode, *, led: bool) -> Kill:
    rest = [one for one in cluster.nodes if one is not victim]
    load.taken()
    at, wall = time.monotonic(), time.time()
    victim.kill()
    _until(lambda: load.all_since(at + 0.2), 60)
    time.sleep(SETTLED)
    _until(lambda: load.all_since(time.monotonic() - SETTLED), 60)
    longest = load.taken()
    story = _story(rest, wall)
    victim.start()
    cluster.wait_for([one.name for one in cluster.nodes], 60)
    time.sleep(2.0)
    return Kill(victim.name, led, round(longest["put"], 2), round(longest["get"], 2), story)


def measured(given: argparse.Namespace) -> list[Kill]:
    """All kills of one run."""
    folder = Path(tempfile.mkdtemp(prefix="snowmelt-failover-"))
    try:
        with ExitStack() as stack:
            options: list[str] = []
            if given.coordinator == "etcd":
                etcd = stack.enter_context(LocalEtcd(folder / "etcd"))
                options = ["--coordinator", etcd.url]
            options += ["--misses", str(given.misses)]
            cluster = stack.enter_context(
                LocalCluster(given.nodes, folder, given.heartbeat, options=options)
            )
            view = cluster.start()
            with snowmelt.connect(cluster.url) as door:
                copies = min(3, given.nodes)
                queue = door.fifo if given.kind == "fifo" else door.priority
                queue("q", replicas=copies).put(b"the first use makes it", timeout=30)
            load = Load(cluster.url, given.kind)
            load.begin()
            stack.callback(load.stop)
            time.sleep(3.0)
            kills = []
            for turn in range(given.kills):
                leads = view.coordinator if given.coordinator == "etcd" else "n1"
                others = [one for one in cluster.nodes if one.name != leads]
                led = given.coordinator == "etcd" and given.victim == "leader"
                victim = others[turn % len(others)]
                if led:
                    (victim,) = (one for one in cluster.nodes if one.name == leads)
                kills.append(_one_kill(cluster, load, victim, led=led))
                status = cluster.nodes[0].status()
                assert status is not None
                assert status.view is not None
                view = status.view
            return kills
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Runs it, and says what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--heartbeat", type=float, default=HEARTBEAT)
    parser.add_argument("--misses", type=int, default=MISSES)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--coordinator", choices=["etcd", "disk"], default="etcd")
    parser.add_argument("--kind", choices=["fifo", "priority"], default="fifo")
    parser.add_argument("--victim", choices=["leader", "other"], default="leader")
    parser.add_argument("--story", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    end_on_sigterm()
    kills = measured(given)
    if given.json:
        print(msgspec.json.encode(kills).decode())
        return
    for kill in kills:
        print(f"{kill.victim} longest put {kill.longest_put:6.2f} s, get {kill.longest_get:6.2f} s")
        for line in kill.story if given.story else ():
            print("   ", line)
    put, get = (max(getattr(one, name) for one in kills) for name in ("longest_put", "longest_get"))
    print(f"longest of {len(kills)}: put {put:.2f} s, get {get:.2f} s")


if __name__ == "__main__":
    main()
