"""Programs forked from a process that has loaded what all of them load first.

Of a quarter of a second that a command or a node takes to start, most is the start of Python and
loading `snowmelt` and `typer`, before its first word is read. Here this is done once. What is
forked then does all that `python -m snowmelt` does: a command's own modules are loaded anew each
time, a node's only once, and the ends of both are files. What is tested by terminals, or by what
its environment says while it is loaded, is started as a process of its own.
"""

import atexit
import ctypes
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final

NODE: Final = [sys.executable, "-m", "snowmelt", "node"]
LOADING: Final = "SNOWMELT_NEAR"
"""A variable that is read while modules are loaded."""
PR_SET_CHILD_SUBREAPER: Final = 36
LINE: Final = threading.Lock()


def ran(
    words: Sequence[str], given: bytes, environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[bytes]:
    """A command run to its end, as `subprocess.run` does it."""
    with _file(given) as stdin, _file() as stdout, _file() as stderr:
        ends = [one.fileno() for one in (stdin, stdout, stderr)]
        with _asked("commands", words, Path.cwd(), environment, ends) as said:
            pid = int(said.readline())
            if not select.select([said], [], [], seconds)[0]:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(words), seconds)
            code = int(said.readline())
        for one in (stdout, stderr):
            one.seek(0)
        return subprocess.CompletedProcess(list(words), code, stdout.read(), stderr.read())


class Popen(subprocess.Popen[bytes]):
    """As its parent, but a node is forked. It is a child of this process all the same."""

    def _execute_child(self, args: Any, *given: Any) -> None:  # what `subprocess` starts it by
        _, preexec, _, passed, folder, environment, _, _, shell, *rest = given
        pipes, session = rest[:6], rest[11]
        environment = os.environ if environment is None else environment
        warm = list(args[: len(NODE)]) == NODE and LOADING not in environment and session
        if not warm or preexec or passed or shell:
            super()._execute_child(args, *given)  # type: ignore[misc]
            return
        ends = [one if one != -1 else at for at, one in enumerate((pipes[0], pipes[3], pipes[5]))]
        with LINE:
            _adopting(True)
            try:
                folder = folder or Path.cwd()
                with _asked("nodes", args[3:], folder, environment, ends) as said:
                    self.pid = int(said.readline())
                    said.readline()  # who forked it is gone, so it is a child of this process
            finally:
                _adopting(False)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def _adopting(does: bool) -> None:
    """Whether what descends from this process is its child once its own parent ends."""
    done = ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, int(does), 0, 0, 0)
    assert done == 0, os.strerror(ctypes.get_errno())


@contextmanager
def _asked(
    kind: str, words: Sequence[str], folder: Path, environment: Mapping[str, str], ends: list[int]
) -> Iterator[BinaryIO]:
    """Asks for a fork with these ends; lines that tell of it."""
    asked = json.dumps([list(words), str(folder), dict(environment)]).encode()
    report, reported = os.pipe()
    with os.fdopen(report, "rb") as said:
        with _file(asked) as request:
            fds = [request.fileno(), *ends, reported]
            socket.send_fds(
                _parent(kind, os.getpid()), [b"!"], fds
            )  # a byte each, so no two flow together
        os.close(reported)
        yield said


@contextmanager
def _file(content: bytes = b"") -> Iterator[BinaryIO]:
    with TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file


@cache
def _parent(kind: str, _asker: int) -> socket.socket:
    """The line to the process that forks for an asker, which ends with it."""
    near, far = socket.socketpair()
    with far:
        command = [sys.executable, __file__, kind, str(far.fileno())]
        process = subprocess.Popen(command, pass_fds=[far.fileno()], stdin=subprocess.DEVNULL)
    atexit.register(_end, near, process)
    return near


def _end(line: socket.socket, process: "subprocess.Popen[bytes]") -> None:
    line.close()
    process.wait(10)


def _serve(line: socket.socket, kind: str) -> None:
    """Forks for each request, until nobody asks any more; returns in what was forked."""
    if kind == "commands":
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who watches a command is not waited for
    while True:
        asked, fds, _, _ = socket.recv_fds(line, 1, 5)
        if not asked:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            break
        if kind == "nodes":
            os.waitpid(pid, 0)
            os.write(fds[-1], b"it ended\n")
        for one in fds:
            os.close(one)
    line.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, *ends, reported = fds
    _fork(reported, watch=kind == "commands")
    for at, one in enumerate(ends):
        os.dup2(one, at)
        os.close(one)
    with os.fdopen(request) as file:
        words, folder, environment = json.load(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = words
    sys.path[0] = folder


def _fork(reported: int, *, watch: bool) -> None:
    """Forks the program, and tells its id, and how it ends if it is watched; returns in it."""
    pid = os.fork()
    if pid == 0:
        os.close(reported)
        if not watch:
            os.setsid()
        return
    os.write(reported, b"%d\n" % pid)
    if watch:
        _, status = os.waitpid(pid, 0)
        os.write(reported, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


if __name__ == "__main__":
    _, kind, line = sys.argv
    sys.path[0] = str(Path.cwd())
    import rich.table  # noqa: F401

    import snowmelt.cli.main

    if kind == "nodes":
        import snowmelt.cli.node  # noqa: F401  what each of them loads

    del sys.argv[1:]
    gc.freeze()  # as the program does: no forked one touches what it need not
    _serve(socket.socket(fileno=int(line)), kind)
    runpy.run_module("snowmelt", run_name="__main__", alter_sys=True)
