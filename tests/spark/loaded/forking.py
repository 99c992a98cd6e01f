"""How a Python that Spark starts is forked from one that has loaded what it needs."""

import gc
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
from contextlib import suppress
from hashlib import blake2b
from importlib import import_module
from pathlib import Path

LOADED = (
    "snowmelt.spark.datasource",
    "pyspark.worker",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
)


def begin(*, first: bool) -> None:
    """Returns where it goes on as what Spark started: in what was forked for it, or here."""
    with socket.socket(socket.AF_UNIX) as line:
        if first and _bound(line):
            line.listen()
            for name in LOADED:
                import_module(name)
            gc.freeze()
            ended, held = os.pipe()  # `held` is open as long as this process and its workers live
            if os.fork():
                os.close(ended)
            else:
                os.close(held)
                _serve(line, ended)
        elif _connected(line):
            _ask(line)


def _name() -> str:
    """Where one is found that this Java started."""
    alike = [sys.executable, os.environ.get("PYTHONHASHSEED")]
    digest = blake2b(json.dumps(alike).encode(), digest_size=8)
    return f"\0snowmelt-tests-{os.getppid()}-{digest.hexdigest()}"


def _bound(line: socket.socket) -> bool:
    try:
        line.bind(_name())
    except OSError:  # another is there
        return False
    return True


def _connected(line: socket.socket) -> bool:
    try:
        line.connect(_name())
    except OSError:
        return False
    _, user, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return bool(user == os.getuid())


def _ask(line: socket.socket) -> None:
    """Lives as long as what is forked for it; returns when nobody forks any more."""
    asked = os.memfd_create("asked")
    os.write(asked, json.dumps([sys.orig_argv[2:], str(Path.cwd()), dict(os.environ)]).encode())
    os.lseek(asked, 0, os.SEEK_SET)
    forked: list[int] = []
    with suppress(OSError):
        socket.send_fds(line, [b"?"], [asked, 0, 1, 2])
        _, forked, _, _ = socket.recv_fds(line, 1, 1)
    os.close(asked)
    if forked:
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, lambda number, _: signal.pidfd_send_signal(forked[0], number))
        select.select(forked, [], [])
        os._exit(0)


def _serve(listening: socket.socket, ended: int) -> None:
    """Forks for who asks, until the one ends that forked it; returns in what was forked."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for one in (0, 1, 2):
        os.dup2(nowhere, one)
    os.close(nowhere)
    served: dict[int, tuple[socket.socket, int]] = {}
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(listening, select.POLLIN)
    while True:
        for at, _ in poll.poll():
            if at == ended:
                os._exit(0)
            if at in served:  # who asked was killed, or has seen the end
                line, pid = served.pop(at)
                poll.unregister(line)
                line.close()
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                continue
            line, _ = listening.accept()
            _, given, _, _ = socket.recv_fds(line, 1, 4)
            if not given:
                line.close()
                continue
            pid = os.fork()
            if pid == 0:
                os.close(ended)
                for other in (line, *(other for other, _ in served.values())):
                    other.close()
                _become(*given)
                return
            served[line.fileno()] = line, pid
            poll.register(line, select.POLLIN)
            forked = os.pidfd_open(pid)
            with suppress(OSError):
                socket.send_fds(line, [b"!"], [forked])
            for one in (*given, forked):
                os.close(one)


def _become(asked: int, *ends: int) -> None:
    """From here on this process is as the one that asked."""
    for at, one in enumerate(ends):
        os.dup2(one, at)
        os.close(one)
    with os.fdopen(asked) as file:
        words, folder, variables = json.load(file)
    os.chdir(folder)
    before, now = (one.get("PYTHONPATH", "").split(os.pathsep) for one in (os.environ, variables))
    sys.path[:] = [*filter(None, now), *(one for one in sys.path if one not in before)]
    os.environ.clear()
    os.environ.update(variables)
    sys.argv[1:] = words[1:]
    sys.orig_argv[2:] = words
    run = runpy._run_module_as_main  # what Python calls next, with the module of who was first
    runpy._run_module_as_main = lambda _, *more: run(words[0], *more)
