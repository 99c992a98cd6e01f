"""Commands forked from a process that has loaded what all of them load first.

Of a quarter of a second that a command of a line takes, most is the start of Python and loading
`snowmelt` and `typer`, before its first word is read. Here this is done once. What is forked then
does all that `python -m snowmelt` does: a command's own modules are loaded anew each time, and its
ends are files. What is tested by signals, terminals or `kill` is started as a process of its own.
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO


def ran(
    words: Sequence[str], given: bytes, environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[bytes]:
    """A command run to its end, as `subprocess.run` does it."""
    asked = json.dumps([words, str(Path.cwd()), dict(environment)]).encode()
    with _file(asked) as request, _file(given) as stdin, _file() as stdout, _file() as stderr:
        report, reported = os.pipe()
        fds = [request.fileno(), stdin.fileno(), stdout.fileno(), stderr.fileno(), reported]
        socket.send_fds(_parent(), [b"!"], fds)  # a byte each, so that no two flow together
        os.close(reported)
        with os.fdopen(report) as said:
            pid = int(said.readline())
            if not select.select([said], [], [], seconds)[0]:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(words), seconds)
            code = int(said.readline())
        for one in (stdout, stderr):
            one.seek(0)
        return subprocess.CompletedProcess(list(words), code, stdout.read(), stderr.read())


@contextmanager
def _file(content: bytes = b"") -> Iterator[BinaryIO]:
    with TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file


@cache
def _parent() -> socket.socket:
    """The line to the process that forks, which ends with this one."""
    near, far = socket.socketpair()
    with far:
        command = [sys.executable, __file__, str(far.fileno())]
        process = subprocess.Popen(command, pass_fds=[far.fileno()], stdin=subprocess.DEVNULL)
    atexit.register(_end, near, process)
    return near


def _end(line: socket.socket, process: "subprocess.Popen[bytes]") -> None:
    line.close()
    process.wait(10)


def _serve(line: socket.socket) -> None:
    """Forks for each request, until nobody asks any more; returns in what was forked."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those who watch a command are not waited for
    while True:
        asked, fds, _, _ = socket.recv_fds(line, 1, 5)
        if not asked:
            os._exit(0)
        if os.fork() == 0:
            break
        for one in fds:
            os.close(one)
    line.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, *ends, reported = fds
    _watch(reported)
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


def _watch(reported: int) -> None:
    """Forks the command, and tells how it ends; returns in the command."""
    pid = os.fork()
    if pid == 0:
        os.close(reported)
        return
    os.write(reported, b"%d\n" % pid)
    _, status = os.waitpid(pid, 0)
    os.write(reported, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


if __name__ == "__main__":
    sys.path[0] = str(Path.cwd())
    import rich.table  # noqa: F401

    import snowmelt.cli.main  # noqa: F401

    gc.freeze()  # as the program does: no forked one touches what it need not
    _serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("snowmelt", run_name="__main__", alter_sys=True)
