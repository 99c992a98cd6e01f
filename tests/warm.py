"""Programs forked from a process that has loaded what all of them load first.

Of a quarter of a second that a command, a node or a program of a test takes to start, most is the
start of Python and loading `snowmelt` and `typer`, before its first word is read. Here this is done
once. What is forked then does all that `python` does with its words, and its ends are files. What
is tested by terminals, by what a command loads, or by what its environment says meanwhile, is
started as a process of its own.
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
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from tempfile import TemporaryFile
from types import ModuleType
from typing import Any, BinaryIO, Final

COMMAND: Final = ["-m", "snowmelt"]
LOADING: Final = ("SNOWMELT_NEAR", "PYTHONPATH", "PYTHONHASHSEED")
"""Variables that are read while modules are loaded."""
LOADED: Final = {
    "commands": ("rich.table", "snowmelt.cli", "snowmelt", "snowmelt.aio"),
    "nodes": ("rich.table", "snowmelt.cli.main", "snowmelt.cli.node"),
    "programs": ("snowmelt", "snowmelt.aio"),
}
LATER: Final = ("demo", "pipeline", "pipeline_show", "bench", "submission")
"""Modules of commands that need Spark, or more than is installed with Snowmelt."""
PRELOADED: Final = os.pathsep.join(
    filter(None, (str(Path(__file__).parent / "spark" / "loaded"), os.environ.get("PYTHONPATH")))
)
"""A `PYTHONPATH` with which Spark forks its workers when what they need is loaded."""
PR_SET_CHILD_SUBREAPER: Final = 36
LINE: Final = threading.Lock()
RUN, BEGIN = b"r", b"b"


def ran(
    words: Sequence[str], given: bytes, environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[bytes]:
    """A command run to its end, as `subprocess.run` does it."""
    with _file(given) as stdin, _file() as stdout, _file() as stderr:
        ends = [one.fileno() for one in (stdin, stdout, stderr)]
        asked = [*COMMAND, *words], Path.cwd(), environment, None
        with _asked("commands", RUN, asked, ends) as said:
            pid = int(said.readline())
            if not select.select([said], [], [], seconds)[0]:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(words), seconds)
            code = int(said.readline())
        for one in (stdout, stderr):
            one.seek(0)
        return subprocess.CompletedProcess(list(words), code, stdout.read(), stderr.read())


class Popen(subprocess.Popen[Any]):
    """As its parent, but a program of Python is forked. It is a child of this process all the same.

    It is `-m snowmelt`, `-c` and a text, or a file.
    """

    def _execute_child(self, args: Any, *given: Any) -> None:  # what `subprocess` starts it by
        _, preexec, _, passed, folder, environment, _, _, shell, *rest = given
        pipes, session = rest[:6], rest[11]
        environment = os.environ if environment is None else environment
        words = [str(word) for word in args[1:]]
        kind = _kind(words) if args[0] == sys.executable and _as_here(environment) else ""
        if not kind or preexec or passed or shell:
            super()._execute_child(args, *given)  # type: ignore[misc]
            return
        ends = [one if one != -1 else at for at, one in enumerate((pipes[0], pipes[3], pipes[5]))]
        group = 0 if session else os.getpgrp()
        with LINE:
            _adopting(True)
            try:
                asked = words, folder or Path.cwd(), environment, group
                with _asked(kind, BEGIN, asked, ends) as said:
                    self.pid = int(said.readline())
                    said.readline()  # who forked it is gone, so it is a child of this process
            finally:
                _adopting(False)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def run(command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """A program run to its end, as `subprocess.run` does it."""
    pipe = subprocess.PIPE
    with Popen(command, stdout=pipe, stderr=pipe, text=True) as running:
        try:
            out, err = running.communicate(timeout=seconds)
        except BaseException:
            running.kill()
            raise
        return subprocess.CompletedProcess(command, running.returncode, out, err)


def _kind(words: list[str]) -> str:
    """What such a program has loaded before it is forked; nothing if it is started anew."""
    if sys.platform != "linux":
        return ""
    if words[:2] == COMMAND:
        return "nodes" if words[2:3] == ["node"] else "commands"
    return "programs" if words[:1] == ["-c"] or words[0].endswith(".py") else ""


def _as_here(environment: Mapping[str, str]) -> bool:
    near, *others = LOADING
    return near not in environment and all(
        environment.get(one) == os.environ.get(one) for one in others
    )


def _adopting(does: bool) -> None:
    """Whether what descends from this process is its child once its own parent ends."""
    done = ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, int(does), 0, 0, 0)
    assert done == 0, os.strerror(ctypes.get_errno())


@contextmanager
def _asked(
    kind: str,
    how: bytes,
    asked: tuple[Sequence[str], Path, Mapping[str, str], int | None],
    ends: list[int],
) -> Iterator[BinaryIO]:
    """Asks for a fork with these words, folder, environment, group and ends; what is told of it."""
    words, folder, environment, group = asked
    text = json.dumps([list(words), str(folder), dict(environment), group]).encode()
    report, reported = os.pipe()
    with os.fdopen(report, "rb") as said:
        with _file(text) as request:
            fds = [request.fileno(), *ends, reported]
            socket.send_fds(
                _parent(kind, os.getpid()), [how], fds
            )  # a byte each: none flow together
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


def _serve(line: socket.socket) -> list[str]:
    """Forks for each request, until nobody asks any more; in what was forked, its words."""
    while True:
        how, fds, _, _ = socket.recv_fds(line, 1, 5)
        if not how:
            os._exit(0)
        _reap()
        pid = os.fork()
        if pid == 0:
            break
        if how == BEGIN:
            os.waitpid(pid, 0)
            os.write(fds[-1], b"it ended\n")
        for one in fds:
            os.close(one)
    line.close()
    request, *ends, reported = fds
    _fork(reported, watch=how == RUN)
    for at, one in enumerate(ends):
        os.dup2(one, at)
        os.close(one)
    with os.fdopen(request) as file:
        words, folder, environment, group = json.load(file)
    if group == 0:
        os.setsid()
    elif group is not None:
        os.setpgid(0, group)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    return words


def _reap() -> None:
    """Those who watched a command, and are done."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _fork(reported: int, *, watch: bool) -> None:
    """Forks the program, and tells its id, and how it ends if it is watched; returns in it."""
    before = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(reported)
        while not watch and os.getppid() == before:
            time.sleep(0.0002)  # it is not yet a child of who asked for it
        return
    os.write(reported, b"%d\n" % pid)
    if watch:
        _, status = os.waitpid(pid, 0)
        os.write(reported, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _load(kind: str) -> None:
    for name in LOADED[kind]:
        module = import_module(name)
        if name == "snowmelt.cli":
            for one in iter_modules(module.__path__):
                if one.name not in LATER:
                    import_module(f"{name}.{one.name}")
        elif kind != "nodes":
            for each in getattr(module, "__all__", ()):  # each is loaded when it is asked for
                getattr(module, each)


def _become(words: list[str]) -> None:
    """Does what Python does with these words."""
    if words[:2] == COMMAND:
        sys.path[0] = str(Path.cwd())
        sys.argv[1:] = words[2:]
        runpy.run_module("snowmelt", run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.path[0] = ""
        sys.argv[:] = ["-c", *words[2:]]
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(words[1], "<string>", "exec"), vars(main))
    else:
        sys.path[0] = str(Path(words[0]).resolve().parent)
        sys.argv[:] = words
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    _, kind, line = sys.argv
    sys.path[0] = str(Path.cwd())
    _load(kind)
    del sys.argv[1:]
    gc.freeze()  # as the program does: no forked one touches what it need not
    _become(_serve(socket.socket(fileno=int(line))))
