"""A program that is forked warm is what it would be if it were started."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import warm

TEXT = """
import json, os, signal, sys, threading
import snowmelt
here = [sys.argv, os.getcwd(), os.environ["OF_THIS"], "OF_OTHERS" in os.environ, __name__]
here += [os.getppid(), os.getpgrp() == os.getpid(), os.getsid(0) == os.getpid()]
here += [str(signal.getsignal(one)) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]
here += [threading.active_count(), sorted(os.listdir("/proc/self/fd"))[:3], sys.stdin.read()]
print(json.dumps(here), flush=True)
print("said", file=sys.stderr)
sys.exit(7)
"""
WAYS = [subprocess.Popen, warm.Popen]


def said(way: Any, words: list[str], folder: Path, *, session: bool) -> tuple[Any, str, int]:
    pipe, environment = subprocess.PIPE, os.environ | {"OF_THIS": "x"}
    ends = {"stdin": pipe, "stdout": pipe, "stderr": pipe, "text": True}
    command = [sys.executable, *words, "one", "two three"]
    with way(command, cwd=folder, env=environment, start_new_session=session, **ends) as running:
        out, err = running.communicate("given", timeout=60)
    return json.loads(out), err, running.returncode


@pytest.mark.parametrize("session", [False, True])
def test_it_has_its_words_its_folder_its_variables_and_its_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: bool
) -> None:
    monkeypatch.setenv("OF_OTHERS", "y")
    file = tmp_path / "program.py"
    file.write_text(TEXT)
    for words in (["-c", TEXT], [str(file)]):
        started, forked = (said(way, words, tmp_path, session=session) for way in WAYS)
        assert forked == started
        assert started[0][5] == os.getpid(), "it is a child of this process"
        assert started[1:] == ("said\n", 7)


def test_who_started_it_waits_for_it_and_hears_how_it_ended() -> None:
    with warm.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as running:
        assert running.poll() is None
        running.kill()
        assert running.wait(10) == -signal.SIGKILL
    with pytest.raises(ChildProcessError):
        os.waitpid(running.pid, 0)  # nothing is left of it


def test_a_command_of_the_program_is_one_too() -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "snowmelt", "--version"]
    with warm.Popen(command, stdout=pipe, text=True) as running:
        assert running.communicate(timeout=60)[0] == f"{snowmelt.__version__}\n"
    assert running.returncode == 0
