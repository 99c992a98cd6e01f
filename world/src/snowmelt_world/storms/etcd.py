"""An etcd of three members on this machine, each of which may be killed, stopped, or cut off."""

import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from snowmelt.cli.local import HERE, LocalHost, free_ports
from snowmelt.cli.local_etcd import WHERE
from snowmelt.core.errors import Unavailable
from snowmelt.core.names import Address
from snowmelt.protocols.etcd import EtcdFailed, Read, Transact
from snowmelt.runtime.etcd import EtcdPlace
from snowmelt.runtime.etcd.client import EtcdConnection

START_SECONDS = 60.0
MEMBERS = ("e1", "e2", "e3")


class EtcdMembers:
    """Their data in a folder; names are those of `MEMBERS`."""

    def __init__(self, folder: Path, homes: Sequence[LocalHost] = (HERE, HERE, HERE)) -> None:
        program = shutil.which("etcd")
        if program is None:
            raise Unavailable(WHERE)
        folder.mkdir(parents=True)
        ports = free_ports(6)
        clients = [Address(home.host, port) for home, port in zip(homes, ports[:3], strict=True)]
        peers = [f"http://{home.host}:{port}" for home, port in zip(homes, ports[3:], strict=True)]
        self.clients = tuple(clients)
        """Where each is asked."""
        self.url = "etcd://" + ",".join(map(str, clients)) + "/storm"
        self._place = EtcdPlace(endpoints=self.clients, prefix="/")
        everybody = ",".join(f"{name}={at}" for name, at in zip(MEMBERS, peers, strict=True))
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._commands = {
            name: [
                *(*home.prefix, program, "--name", name, "--data-dir", str(folder / name)),
                *("--listen-client-urls", f"http://{client}"),
                *("--advertise-client-urls", f"http://{client}"),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", everybody),
            ]
            for name, home, client, peer in zip(MEMBERS, homes, clients, peers, strict=True)
        }

    def __enter__(self) -> Self:
        for name in MEMBERS:
            self.start(name)
        line = EtcdConnection(self._place)
        end = time.monotonic() + START_SECONDS
        try:
            while isinstance(line.carry(Transact(1, (), (Read("up"),))), EtcdFailed):
                if time.monotonic() > end:
                    raise Unavailable(f"etcd does not start; see {self._folder}")
                time.sleep(0.1)
        finally:
            line.close()
        return self

    def __exit__(self, *_: object) -> None:
        for name in MEMBERS:
            self.kill(name)

    def start(self, name: str) -> None:
        """On the data that is there."""
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                self._commands[name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the one who started it
            )

    def kill(self, name: str) -> None:
        process = self._processes.get(name)
        if process is not None and process.poll() is None:
            process.kill()
            process.wait(10)

    def pid(self, name: str) -> int:
        return self._processes[name].pid
