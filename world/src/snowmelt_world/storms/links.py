"""A network of namespaces in which any two of a run's processes can be cut off from each other.

Each process lives in a network namespace of its own, joined to a hub in the middle by a pair of
virtual interfaces. Addresses are of 127.0.0.0/8, so nodes take each other for processes of one
machine, which they are; the hub passes packets on. A cut is a rule of the hub that drops what comes
from one and goes to another, without a word, as a broken switch does; who is cut from one still
hears all the others. A slow link lets only so many bits a second through, either way, and what is
too much for its queue is dropped. This needs Linux, its `ip`, for slow links its `tc`, and root.
"""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from snowmelt.cli.local import LocalHost

CLONE_NEWNET: Final = 0x40000000
HUB_ADDRESS: Final = "127.1.0.254"
NAMES_MAX: Final = 250
BURST_BYTES: Final = 16_384
"""What a slow link lets through at once."""
LONGEST_QUEUE: Final = "500ms"


def possible() -> bool:
    """Whether this machine and this user can do it."""
    return os.name == "posix" and os.geteuid() == 0 and shutil.which("ip") is not None


def can_slow() -> bool:
    """Whether links can be slow, too."""
    return possible() and shutil.which("tc") is not None


class StormLinks:
    """One namespace a name, all joined; the program itself sits in the hub meanwhile."""

    def __init__(self, names: Sequence[str]) -> None:
        assert len(names) <= NAMES_MAX, names
        self._prefix = f"snow{os.getpid()}-"
        self._at = {name: number for number, name in enumerate(names, start=1)}
        self._outside = -1

    def home(self, name: str) -> LocalHost:
        """Where a process of this name is to be started."""
        # not `ip netns exec`, which would give it a view of its own of what is mounted
        prefix = ("nsenter", f"--net=/run/netns/{self._prefix}{name}")
        return LocalHost(self._address(name), prefix)

    def cut(self, source: str, target: str) -> None:
        """From now on nothing that one sends reaches the other."""
        _run("ip", "-n", self._hub, "rule", "add", *self._rule(source, target))

    def mend(self, source: str, target: str) -> None:
        """It does again."""
        _run("ip", "-n", self._hub, "rule", "del", *self._rule(source, target))

    def slow(self, name: str, bits: int) -> None:
        """From now on so many bits a second go to this one, and as many come from it."""
        how = ("tbf", "rate", f"{bits}bit", "burst", str(BURST_BYTES), "latency", LONGEST_QUEUE)
        for space, port in self._ends(name):
            _run("tc", "-n", space, "qdisc", "replace", "dev", port, "root", *how)

    def quicken(self, name: str) -> None:
        """It is as fast as all others again."""
        for space, port in self._ends(name):
            _run("tc", "-n", space, "qdisc", "del", "dev", port, "root")

    def __enter__(self) -> Self:
        self._outside = os.open("/proc/self/ns/net", os.O_RDONLY)
        try:
            self._make(self._hub)
            for name in self._at:
                self._join(name)
            _enter(Path("/run/netns", self._hub))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        _set_namespace(self._outside)
        os.close(self._outside)
        for name in (*self._at, "hub"):
            subprocess.run(["ip", "netns", "del", self._prefix + name], check=False, stderr=-3)

    @property
    def _hub(self) -> str:
        return self._prefix + "hub"

    def _address(self, name: str) -> str:
        return f"127.1.0.{self._at[name]}"

    def _ends(self, name: str) -> tuple[tuple[str, str], tuple[str, str]]:
        """Both ends of its way to the hub: a namespace, and the interface in it."""
        return (self._prefix + name, "eth0"), (self._hub, f"v{self._at[name]}")

    def _rule(self, source: str, target: str) -> tuple[str, ...]:
        return "iif", f"v{self._at[source]}", "to", self._address(target), "blackhole"

    def _make(self, space: str) -> None:
        _run("ip", "netns", "add", space)
        with _inside(space):
            for name in ("all", "default"):  # for the interfaces to come
                _set(name, rp_filter=0, route_localnet=1, forwarding=1, proxy_arp=1)
        _run("ip", "-n", space, "link", "set", "lo", "up")
        _run("ip", "-n", space, "route", "del", "local", "127.0.0.0/8", "dev", "lo")
        if space == self._hub:
            _run("ip", "-n", space, "addr", "add", f"{HUB_ADDRESS}/32", "dev", "lo")

    def _join(self, name: str) -> None:
        space, port, address = self._prefix + name, f"v{self._at[name]}", self._address(name)
        self._make(space)
        ends = ("netns", self._hub, "type", "veth", "peer", "name", "eth0", "netns", space)
        _run("ip", "link", "add", port, *ends)
        _run("ip", "-n", space, "link", "set", "eth0", "up")
        _run("ip", "-n", space, "addr", "add", f"{address}/32", "dev", "eth0")
        # by way of the hub: the kernel remembers a thousand neighbours, and not each of each
        way = ("via", HUB_ADDRESS, "dev", "eth0", "onlink", "src", address)
        _run("ip", "-n", space, "route", "add", "default", *way)
        _run("ip", "-n", self._hub, "link", "set", port, "up")
        route = (f"{address}/32", "dev", port, "src", HUB_ADDRESS)
        _run("ip", "-n", self._hub, "route", "add", *route)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def _set(interface: str, **values: int) -> None:
    for name, value in values.items():
        Path("/proc/sys/net/ipv4/conf", interface, name).write_text(str(value))


@contextmanager
def _inside(space: str) -> Iterator[None]:
    outside = os.open("/proc/self/ns/net", os.O_RDONLY)
    _enter(Path("/run/netns", space))
    try:
        yield
    finally:
        _set_namespace(outside)
        os.close(outside)


def _enter(space: Path) -> None:
    handle = os.open(space, os.O_RDONLY)
    try:
        _set_namespace(handle)
    finally:
        os.close(handle)


def _set_namespace(handle: int) -> None:
    """`os.setns`, which Python has from 3.12 on."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(handle, CLONE_NEWNET):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
