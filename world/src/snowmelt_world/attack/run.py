"""One attack from its start to its verdict."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from snowmelt.cli.local import HERE, LocalCluster, LocalHost, free_port
from snowmelt.core.errors import SnowmeltError, Unavailable
from snowmelt_world.attack import account, honest
from snowmelt_world.attack.judging import Evidence, Phase, judge, rates
from snowmelt_world.attack.process import HONEST, IDLE
from snowmelt_world.attack.setting import (
    GUEST_PREFIX,
    OWN_PREFIX,
    AttackSetting,
    Identity,
    Kind,
    Target,
)
from snowmelt_world.attack.speaking import connected
from snowmelt_world.attack.tally import summed
from snowmelt_world.attack.watching import Sample, Watch, runs
from snowmelt_world.shares import Shares, Unbounded

NODES: Final = 3
RIGHTS: Final = ("put", "get", "peek", "manage")
"""What attackers may do with names of their own."""
MEMBER: Final = f"n{NODES + 1}"
UP_SECONDS: Final = 60.0
REST_SECONDS: Final = 2.0
"""Between kinds: what was begun comes to its end."""
WARM_SECONDS: Final = 1.0
ACCOUNT_SECONDS: Final = 240.0
LOOK_SECONDS: Final = 0.1
NODE_SHARE: Final = 0.4
HONEST_SHARE: Final = 0.4
ATTACKERS_SHARE: Final = 0.5
NICE: Final = 10
PERIOD_US: Final = 10_000
"""A node that uses up its share waits for the rest of this, and no longer."""
VALID: Final = "valid"
INVALID: Final = "invalid"

Tick = Callable[[str], None]


class AttackResult(msgspec.Struct, kw_only=True):
    """An attack as a whole."""

    verdict: str
    inputs: dict[str, int]
    """How many each kind has sent."""
    seconds: dict[str, float]
    rates: dict[str, float]
    """Acknowledged honest items a second: alone, and beside each kind."""
    memory_mib: dict[str, int]
    """Of each node, at most."""
    disk_mib: dict[str, int]
    turn_ms: dict[str, float]
    longest_probe_s: dict[str, float]
    properties: dict[str, str]
    broken: list[str]
    unjudged: list[str]
    seed: int
    shares: str
    """What bounds the processor time of each process."""
    counts: dict[str, dict[str, int]]


def own_cluster(
    stack: ExitStack, setting: AttackSetting, plant: str = ""
) -> tuple[LocalCluster, Sequence[Target]]:
    """Nodes of the attack's own: those that are attacked, and one whose name it uses."""
    users = setting.folder / "users"
    users.touch(mode=0o600)
    users.write_text(
        "".join(
            f"{who.user} {who.secret} {rights}\n"
            for who, rights in (
                (setting.honest, "admin"),
                (setting.attacker, " ".join(f"{one}:{OWN_PREFIX}*" for one in RIGHTS)),
                (setting.guest, f"peek:{GUEST_PREFIX}*"),
                (setting.node, "node"),
            )
        )
    )
    home = HERE
    if plant:
        module = "snowmelt_world.attack.planted"
        home = LocalHost(prefix=(sys.executable, "-m", module, plant))
    cluster = LocalCluster(
        NODES + 1,
        setting.folder / "nodes",
        heartbeat=0.5,
        homes=[home] * (NODES + 1),
        options=["--users", str(users), "--user", setting.node.user],
        http=free_port(),
    )
    stack.enter_context(cluster)
    with _environment(setting.honest):
        cluster.start()
    return cluster, [
        Target(one.name, "127.0.0.1", one.port, one.pid, str(one.folder), one.http)
        for one in cluster.nodes[:NODES]
    ]


@contextmanager
def _environment(who: Identity) -> Iterator[None]:
    """Whoever asks the nodes for their view is this one."""
    before = dict(os.environ)
    os.environ.update(SNOWMELT_TOKEN=who.secret, SNOWMELT_USER=who.user)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class _Process:
    """One process of the attack; it ends with whoever started it."""

    def __init__(self, setting: AttackSetting, part: str, number: int = 0) -> None:
        self.name = f"{part}-{number}"
        self._errors = setting.folder / f"{self.name}.err"
        with self._errors.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "snowmelt_world.attack.process", part, str(number)],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
                start_new_session=True,  # Ctrl-C is for who started it, who ends them all
            )
        self._write(msgspec.json.encode(setting) + b"\n")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def stop(self, timeout: float) -> str:
        """Asks it to stop; what was wrong with its end."""
        self._write(b"\n\n")
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return f"{self.name} did not end in {timeout:g} s"
        lines = self._errors.read_text(errors="replace").splitlines()
        return f"{self.name} ended with {code}: {lines[-1:] or 'no word'}" if code else ""

    def close(self) -> None:
        """By force, if it still runs."""
        if self.running:
            self._process.kill()
        self._process.wait(10)
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def _write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(data)
            self._process.stdin.flush()


class _Bounds:
    """Shares of the processor for each process, or niceness where the system gives none."""

    def __init__(self, stack: ExitStack) -> None:
        self._shares: Shares | None = None
        try:
            self._shares = Shares(f"attack-{os.getpid()}", period_us=PERIOD_US)
        except Unbounded:
            return
        stack.callback(self._shares.close)

    @property
    def shared(self) -> bool:
        """Whether each process has its own share."""
        return self._shares is not None

    @property
    def how(self) -> str:
        return "control groups" if self.shared else f"niceness {NICE} of attackers"

    def set(self, pid: int, share: float, *, attacks: bool = False) -> None:
        if self._shares is not None:
            self._shares.bound(pid, share)
        elif attacks:
            os.setpriority(os.PRIO_PROCESS, pid, NICE)


def run(setting: AttackSetting, stack: ExitStack, tick: Tick) -> AttackResult:
    """Attacks, and judges; all processes of the attack have ended when it returns."""
    bounds = _Bounds(stack)
    worker = _Process(setting, HONEST)
    stack.callback(worker.close)
    _wait_up(setting.folder / honest.UP, worker)
    for target in setting.targets:
        if target.pid:
            bounds.set(target.pid, NODE_SHARE)
    bounds.set(worker.pid, HONEST_SHARE)
    time.sleep(WARM_SECONDS)
    phases, wrong = list[Phase](), list[str]()
    with Watch(setting) as watch:
        phases.append(_calm(setting, bounds, tick))
        for kind in setting.kinds:
            if kind is Kind.MEMBERS:
                wrong += _end_of_work(setting, worker, tick)
            phases.append(_attacked(setting, kind, bounds, worker, wrong, tick))
            _rest(setting, tick)
        if worker.running:
            wrong += _end_of_work(setting, worker, tick)
        samples = (*watch.samples, *(watch.look(one) for one in setting.targets))
    counts = {str(kind): summed(setting.folder, kind) for kind in setting.kinds}
    lines = tuple(account.read(setting.folder / honest.JOURNAL))
    evidence = Evidence(setting, tuple(phases), samples, lines, counts)
    (setting.folder / "samples.json").write_bytes(msgspec.json.encode((phases, samples)))
    return _summed(evidence, wrong, bounds.how)


def _rest(setting: AttackSetting, tick: Tick) -> None:
    """What was begun comes to its end, and all nodes have a view again, or have had the time."""
    time.sleep(REST_SECONDS)
    end = time.monotonic() + UP_SECONDS
    living = [one for one in setting.targets if runs(one)]
    while time.monotonic() < end and not all(_stands(setting, one) for one in living):
        tick("all is calm until nodes are in one view")
        time.sleep(LOOK_SECONDS)


def _stands(setting: AttackSetting, target: Target) -> bool:
    try:
        with connected(f"snowmelt://{target.address}/{setting.cluster}", setting.honest) as one:
            return one.status(timeout=REST_SECONDS).standing == "current"
    except SnowmeltError:
        return False


def _calm(setting: AttackSetting, bounds: _Bounds, tick: Tick) -> Phase:
    """The honest work alone, while idle programs have the processor that attackers will have.

    On a machine with few cores these would slow down all others whatever they did: so what is
    compared is what the nodes do.
    """
    with ExitStack() as stack:
        for number in range(setting.attackers if bounds.shared else 0):
            idle = _Process(setting, IDLE, number)
            stack.callback(idle.close)
            bounds.set(idle.pid, ATTACKERS_SHARE / setting.attackers)
        begin = time.monotonic()
        while time.monotonic() < begin + setting.calm:
            tick("the honest work alone")
            time.sleep(LOOK_SECONDS)
        return Phase(None, begin, time.monotonic())


def _attacked(
    setting: AttackSetting,
    kind: Kind,
    bounds: _Bounds,
    worker: _Process,
    wrong: list[str],
    tick: Tick,
) -> Phase:
    """One kind, for its time; it ends before, where its inputs were said or all nodes are gone."""
    attackers = [_Process(setting, kind, number) for number in range(setting.attackers)]
    begin = time.monotonic()
    try:
        for one in attackers:
            bounds.set(one.pid, ATTACKERS_SHARE / len(attackers), attacks=True)
        while time.monotonic() < begin + setting.seconds and any(one.running for one in attackers):
            tick(str(kind))
            if kind is not Kind.MEMBERS and not worker.running:
                break
            time.sleep(LOOK_SECONDS)
        end = time.monotonic()
        wrong += [said for one in attackers if (said := one.stop(20.0))]
    finally:
        for one in attackers:
            one.close()
    return Phase(kind, begin, end)


def _end_of_work(setting: AttackSetting, worker: _Process, tick: Tick) -> list[str]:
    tick("the account of the honest items")
    if not any(runs(one) for one in setting.targets):
        worker.close()
        return ["no node is left that could be asked for the honest items"]
    said = worker.stop(ACCOUNT_SECONDS)
    worker.close()
    return [said] if said else []


def _wait_up(file: Path, worker: _Process) -> None:
    end = time.monotonic() + UP_SECONDS
    while not file.exists():
        if not worker.running or time.monotonic() > end:
            raise Unavailable(worker.stop(0.1) or "the honest clients could not begin")
        time.sleep(LOOK_SECONDS)


def _summed(evidence: Evidence, wrong: list[str], shares: str) -> AttackResult:
    properties, unjudged = judge(evidence)
    properties["the attack itself went well"] = wrong
    broken = [f"{name}: {text}" for name, found in properties.items() for text in found]
    return AttackResult(
        verdict=INVALID if broken else VALID,
        inputs={kind: counts.get("inputs", 0) for kind, counts in evidence.counts.items()},
        seconds={str(one.kind): round(one.end - one.begin, 1) for one in evidence.phases[1:]},
        rates=rates(evidence),
        memory_mib=_most(evidence.samples, lambda one: (one.memory or 0) >> 20),
        disk_mib=_most(evidence.samples, lambda one: (one.disk or 0) >> 20),
        turn_ms=_most(evidence.samples, lambda one: round(1_000 * (one.turn or 0.0), 1)),
        longest_probe_s={
            str(one.kind or "alone"): account.longest_probe(evidence.lines, one.begin, one.end)
            for one in evidence.phases
        },
        properties={name: INVALID if found else VALID for name, found in properties.items()},
        broken=broken,
        unjudged=unjudged,
        seed=evidence.setting.seed,
        shares=shares,
        counts=evidence.counts,
    )


def _most(samples: Sequence[Sample], value: Callable[[Sample], Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in samples:
        found[one.node] = max(found.get(one.node, 0), value(one))
    return dict(sorted(found.items()))
