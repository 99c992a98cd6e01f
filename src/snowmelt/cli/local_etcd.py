"""An etcd of one member on this machine, for `snowmelt up`, tests and trials."""

import shutil
import subprocess
import time
from pathlib import Path
from typing import Final, Self

from snowmelt.cli.local import free_ports
from snowmelt.core.errors import Unavailable
from snowmelt.core.names import Address
from snowmelt.protocols.etcd import EtcdFailed, Read, Transact
from snowmelt.runtime.etcd import EtcdPlace
from snowmelt.runtime.etcd.client import EtcdConnection

START_SECONDS: Final = 20.0
WHERE: Final = (
    "no etcd is installed here: install one (Debian, Ubuntu: apt-get install etcd-server; others:"
    " https://etcd.io/docs/latest/install), or name one: --coordinator etcd://HOST:PORT/PREFIX"
)


class LocalEtcd:
    """A process of its own, on ports of its own, its data in a folder."""

    def __init__(self, folder: Path, prefix: str = "snowmelt") -> None:
        program = shutil.which("etcd")
        if program is None:
            raise Unavailable(WHERE)
        folder.mkdir(parents=True, exist_ok=True)
        self._ports = free_ports(2)
        self.url = f"etcd://127.0.0.1:{self._ports[0]}/{prefix}"
        """As `--coordinator` takes it."""
        client, peer = (f"http://127.0.0.1:{port}" for port in self._ports)
        self._log = folder / "etcd.log"
        self._command = [
            *(program, "--name", "one", "--data-dir", str(folder / "data")),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"one={peer}"),
            *("--auto-compaction-mode", "periodic", "--auto-compaction-retention", "1h"),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def address(self) -> Address:
        """The URL that clients of etcd take."""
        return Address("127.0.0.1", self._ports[0])

    def start(self) -> None:
        """Starts it on the data that is there, and waits until it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the one who started it
            )
        line = EtcdConnection(EtcdPlace(endpoints=(self.address,), prefix="/"))
        end = time.monotonic() + START_SECONDS
        try:
            while isinstance(line.carry(Transact(1, (), (Read("up"),))), EtcdFailed):
                if self._process.poll() is not None or time.monotonic() > end:
                    raise Unavailable(f"etcd does not start; see {self._log}")
                time.sleep(0.05)
        finally:
            line.close()

    def stop(self) -> None:
        """Ends it; what it was asked is on its disk."""
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10.0)
