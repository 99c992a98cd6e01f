"""beanstalkd with its log."""

from pathlib import Path

from benchmarks.peers.processes import Server, program, said_by

from snowmelt.cli.local import free_port

JOB_BYTES_MAX = 8 << 20


class Beanstalkd:
    """One server that flushes its log at most once in some milliseconds; with 0, always."""

    def __init__(self, flush_ms: int, core: int | None = None) -> None:
        self.version = ""
        self.address = free_port()
        self._flush_ms = flush_ms
        self._core = core
        self._server: Server | None = None

    @property
    def pids(self) -> list[int]:
        return [] if self._server is None else self._server.pids

    def start(self, folder: Path) -> None:
        beanstalkd = program("beanstalkd", "beanstalkd")
        self.version = said_by(beanstalkd, "-v")
        (folder / "log").mkdir()
        command = [beanstalkd, "-l", "127.0.0.1", "-p", str(self.address)]
        command += ["-b", str(folder / "log"), "-f", str(self._flush_ms), "-z", str(JOB_BYTES_MAX)]
        self._server = Server(command, folder, self.address, self._core)
        self._server.start()

    def stop(self) -> None:
        if self._server:
            self._server.stop()
