"""beanstalkd with its log: a tube.

The protocol puts, reserves and deletes one job a command, and greenstalk waits for each answer, so
a batch here is a loop.
"""

from functools import partial
from pathlib import Path

import greenstalk
from benchmarks.fifo.peer import Connect
from benchmarks.fifo.server import Server, program, said_by

from snowmelt.cli.local import free_port

JOB_BYTES_MAX = 8 << 20


class BeanstalkdPeer:
    """One server that flushes its log at most once in some milliseconds; with 0, always."""

    def __init__(self, name: str, flush_ms: int) -> None:
        self.name = name
        self.promise = f"flushes every {flush_ms} ms" if flush_ms else "flushes before it answers"
        self.flushes_first = flush_ms == 0
        self.only_singles = False
        self.version = ""
        self.flush_ms = flush_ms
        self.port = free_port()
        self.server: Server | None = None

    def start(self, folder: Path) -> None:
        beanstalkd = program("beanstalkd", "beanstalkd")
        self.version = said_by(beanstalkd, "-v")
        (folder / "log").mkdir()
        command = [beanstalkd, "-l", "127.0.0.1", "-p", str(self.port), "-b", str(folder / "log")]
        command += ["-f", str(self.flush_ms), "-z", str(JOB_BYTES_MAX)]
        self.server = Server(command, folder, self.port)
        self.server.start()

    def client(self, queue: str, batch: int) -> Connect:
        del batch
        return partial(BeanstalkdClient, self.port, queue)

    def stop(self) -> None:
        if self.server:
            self.server.stop()


class BeanstalkdClient:
    """One connection; a tube ends when its last job does."""

    def __init__(self, port: int, tube: str) -> None:
        self.base = greenstalk.Client(("127.0.0.1", port), encoding=None, use=tube, watch=tube)

    def put(self, bodies: list[bytes]) -> None:
        for body in bodies:
            self.base.put(body)

    def take(self, count: int) -> int:
        for taken in range(count):
            try:
                self.base.delete(self.base.reserve(timeout=0))
            except greenstalk.TimedOutError:
                return taken
        return count

    def settle(self) -> None:
        """Every call has settled what it took."""

    def close(self) -> None:
        self.base.close()
