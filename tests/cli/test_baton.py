"""`snowmelt baton`: commands that run one at a time, told when they have no right to go on."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import snowmelt as library
import warm
from cli.program import snowmelt
from snowmelt.cli import baton_guardian
from snowmelt.cli.local import LocalCluster, free_port
from snowmelt.runtime.clock import STEADY

PYTHON = sys.executable


def started(*arguments: str, **more: str) -> subprocess.Popen[str]:
    """The program, running."""
    environment = {name: value for name, value in os.environ.items() if "SNOWMELT" not in name}
    return warm.Popen(
        [PYTHON, "-m", "snowmelt", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment | more,
        start_new_session=True,
    )


def comes(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


def test_a_command_runs_while_it_is_held_and_knows_its_fence(cluster: LocalCluster) -> None:
    script = "import os; print(os.environ['SNOWMELT_BATON'], os.environ['SNOWMELT_FENCE'])"
    fences = []
    for _ in range(2):
        ended = snowmelt("baton", "run", "known", "--url", cluster.url, "--", PYTHON, "-c", script)
        assert (ended.returncode, ended.stderr) == (0, "")
        name, fence = ended.stdout.split()
        assert name == "known"
        fences.append(int(fence))
    assert fences[0] < fences[1]


def test_it_ends_as_the_command_ends(cluster: LocalCluster) -> None:
    run = ("baton", "run", "ends", "--url", cluster.url, "--")
    assert snowmelt(*run, "sh", "-c", "exit 7").returncode == 7
    assert snowmelt(*run, "sh", "-c", "kill -KILL $$").returncode == 128 + signal.SIGKILL
    ended = snowmelt(*run, "cat", "-n", "/dev/null")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_commands_run_one_at_a_time(cluster: LocalCluster, tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = f"echo in >> {log}; sleep 0.2; echo out >> {log}"
    urls = [node.url for node in cluster.nodes] * 2
    running = [
        started("baton", "run", "turns", "--url", url, "--", "sh", "-c", script) for url in urls
    ]
    for one in running:
        assert one.communicate(timeout=60)[1] == ""
    assert log.read_text().split() == ["in", "out"] * len(urls)


def test_without_a_turn_in_time_the_command_is_not_run(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    file = tmp_path / "run"
    with library.connect(cluster.url) as held, held.baton("taken"):
        ended = snowmelt(
            "baton",
            "run",
            "taken",
            "--url",
            cluster.url,
            "--timeout",
            "0.5",
            "--",
            "touch",
            str(file),
        )
    assert (ended.returncode, ended.stdout) == (124, "")
    assert ended.stderr == "snowmelt: no turn within 0.5 s at baton 'taken'\n"
    assert not file.exists()


def test_with_no_time_to_wait_it_runs_only_where_the_baton_is_free(cluster: LocalCluster) -> None:
    run = ("baton", "run", "cron", "--url", cluster.url, "--timeout", "0", "--", "echo", "ran")
    with library.connect(cluster.url) as held, held.baton("cron"):
        ended = snowmelt(*run)
    assert (ended.returncode, ended.stdout) == (124, "")
    assert "no turn within 0 s at baton 'cron'" in ended.stderr
    with library.connect(cluster.url) as free:
        free.baton("cron").acquire(timeout=10).release()
    assert snowmelt(*run).stdout == "ran\n"


def test_a_baton_and_a_counter_are_deleted(cluster: LocalCluster) -> None:
    with library.connect(cluster.url) as others:
        with others.baton("left") as held:
            held.value = b"mine"
        others.counter("left").next(10)
        for more in ((), ("--counter",)):
            ended = snowmelt("baton", "delete", "left", *more, "--url", cluster.url)
            assert (ended.returncode, ended.stderr) == (0, "")
            assert ended.stdout == (
                "counter left begins at 0\n" if more else "4 bytes are given up\n"
            )
        assert others.baton("left").acquire(timeout=30).value == b""
        assert others.counter("left").next().start == 0


def test_signals_are_passed_on(cluster: LocalCluster, tmp_path: Path) -> None:
    for number, name in ((signal.SIGTERM, "TERM"), (signal.SIGINT, "INT")):
        ready = tmp_path / name
        script = (
            f"import signal, sys, time, pathlib; signal.signal(signal.SIG{name}, "
            f"lambda *_: sys.exit(33)); pathlib.Path({str(ready)!r}).touch(); time.sleep(30)"
        )
        one = started("baton", "run", "signals", "--url", cluster.url, "--", PYTHON, "-c", script)
        comes(ready.exists)
        os.kill(one.pid, number)
        assert one.communicate(timeout=100)[1] == ""
        assert one.returncode == 33


def test_a_signal_that_is_ignored_stays_ignored(cluster: LocalCluster, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    run = f"{PYTHON} -m snowmelt baton run deaf --url {cluster.url} -- sh -c"
    script = f"trap '' HUP; exec {run} 'touch {ready}; sleep 1; exit 5'"
    one = subprocess.Popen(["sh", "-c", script], start_new_session=True)
    comes(ready.exists)
    os.killpg(one.pid, signal.SIGHUP)
    assert one.wait(20) == 5


def test_ctrl_c_interrupts_the_command_once(cluster: LocalCluster, tmp_path: Path) -> None:
    ready, told = tmp_path / "ready", tmp_path / "told"
    script = (
        f"import signal, time, pathlib as p\n"
        f"def note(*_):\n"
        f"    with p.Path({str(told)!r}).open('a') as file: file.write('x')\n"
        f"    time.sleep(0.5)\n"  # so that a second one is another
        f"signal.signal(signal.SIGINT, note)\n"
        f"p.Path({str(ready)!r}).touch()\n"
        f"while not p.Path({str(told)!r}).exists(): time.sleep(0.1)\n"
        f"time.sleep(1.5)"  # a second one would come
    )
    run = ["-m", "snowmelt", "baton", "run", "keys", "--url", cluster.url, "--", PYTHON, "-c"]
    terminal = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
    one = subprocess.Popen(
        [PYTHON, "-c", terminal, PYTHON, *run, script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    comes(ready.exists)
    one.communicate(b"\x03", timeout=100)
    assert (one.returncode, told.read_text()) == (0, "x")


def test_a_command_that_reads_from_the_terminal_may(cluster: LocalCluster, tmp_path: Path) -> None:
    ready, told = tmp_path / "ready", tmp_path / "told"
    script = f"touch {ready}; read word; echo $word > {told}; exit 3"
    run = ["-m", "snowmelt", "baton", "run", "keys", "--url", cluster.url, "--", "sh", "-c"]
    terminal = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    one = subprocess.Popen(
        [PYTHON, "-c", terminal, PYTHON, *run, script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    comes(ready.exists)
    one.communicate(b"hello\n", timeout=100)
    assert (one.returncode, told.read_text()) == (3, "hello\n")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Runs a script of a shell at a terminal of its own; what is written to it are keys."""
    running = []

    def begin(script: str) -> subprocess.Popen[bytes]:
        file = tmp_path / "script"
        file.write_text(script)
        spawn = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
        command = [PYTHON, "-c", spawn, "bash", str(file)]
        running.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        )
        return running[-1]

    yield begin
    for one in running:
        one.kill()
        one.communicate()


def test_so_may_one_whose_output_is_a_pipe(cluster: LocalCluster, tmp_path: Path, terminal) -> None:
    ready, told = tmp_path / "ready", tmp_path / "told"
    run = f"{PYTHON} -m snowmelt baton run keys --url {cluster.url} -- sh -c"
    one = terminal(f"{run} 'touch {ready}; read word </dev/tty; echo $word' | cat > {told}")
    comes(ready.exists)
    one.communicate(b"hello\n", timeout=100)
    assert told.read_text() == "hello\n"


def test_ctrl_c_ends_the_script_as_well(cluster: LocalCluster, tmp_path: Path, terminal) -> None:
    """Also while a turn is waited for."""
    ready, after = tmp_path / "ready", tmp_path / "after"
    run = f"{PYTHON} -m snowmelt baton run script --url {cluster.url} --"
    one = terminal(f"{run} sh -c 'touch {ready}; exec sleep 30'\ntouch {after}")
    comes(ready.exists)
    one.communicate(b"\x03", timeout=100)
    with library.connect(cluster.url) as other, other.baton("script"):
        two = terminal(f"touch {ready}.2; {run} true\ntouch {after}")
        comes(lambda: waiting(cluster, "script") == 1)
        two.communicate(b"\x03", timeout=100)
    assert not after.exists()


def waiting(cluster: LocalCluster, name: str) -> int:
    with library.connect(cluster.url) as other:
        return sum(one.waiting for one in other.baton(name).status())


def test_ctrl_z_stops_the_command_and_it_goes_on_before_the_terminal(
    cluster: LocalCluster, tmp_path: Path, terminal
) -> None:
    ready, told = tmp_path / "ready", tmp_path / "told"
    run = f"{PYTHON} -m snowmelt baton run stops --url {cluster.url} -- sh -c"
    command = f"touch {ready}; read word; echo $word > {told}"
    one = terminal(f"set -m; {run} '{command}'; rm {ready}; fg")
    assert one.stdin is not None
    comes(ready.exists)
    one.stdin.write(b"\x1a")
    comes(lambda: not ready.exists())
    one.communicate(b"hello\n", timeout=100)
    assert told.read_text() == "hello\n"


def test_a_command_that_lost_it_is_ended(tmp_path: Path) -> None:
    """Whether it ends when it is told to or has to be killed, which one cluster shows at a time."""
    with LocalCluster(2, tmp_path / "nodes", 0.5) as cluster:
        cluster.start()
        two, begun = cluster.nodes[1], []
        for deaf in (False, True):
            ready, told = tmp_path / f"ready{deaf}", tmp_path / f"told{deaf}"
            script = (
                f"import signal, sys, time, pathlib as p\n"
                f"def end(*_):\n"
                f"    p.Path({str(told)!r}).touch()\n"
                f"    {deaf} or sys.exit(0)\n"
                f"signal.signal(signal.SIGTERM, end)\n"
                f"p.Path({str(ready)!r}).touch()\n"
                f"while True: time.sleep(0.1)"
            )
            run = ("baton", "run", f"lost{deaf}", "--url", two.url, "--kill-after", "1")
            begun.append((started(*run, "--", PYTHON, "-c", script), ready, told))
        comes(lambda: all(ready.exists() for _, ready, _ in begun))
        two.kill()
        for one, _, told in begun:
            errors = one.communicate(timeout=100)[1]
            assert one.returncode == 125
            assert errors.startswith("snowmelt: baton 'lost")
            assert told.exists()


def test_the_value_goes_through_a_file(cluster: LocalCluster, tmp_path: Path) -> None:
    file = tmp_path / "value"
    run = ("baton", "run", "value", "--url", cluster.url, "--value-file", str(file), "--")
    for expected in ("", "x", "xx"):
        ended = snowmelt(*run, "sh", "-c", f"cat {file}; printf x >> {file}")
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, expected, "")
    assert snowmelt(*run, "sh", "-c", f"printf bad > {file}; exit 1").returncode == 1
    ended = snowmelt(*run, "sh", "-c", f"head -c 2000000 /dev/zero > {file}")
    assert ended.returncode == 125
    assert "more than 1048576 bytes; the old value goes on" in ended.stderr
    with library.connect(cluster.url) as other, other.baton("value") as held:
        assert held.value == b"xxx"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a b", "--", "true"), "baton is 'a b'; allowed: 1 to 100 of A-Z"),
        (("a", "--", "no-such-command"), "COMMAND is 'no-such-command'; allowed: a program"),
        (("a", "--timeout", "-1", "--", "true"), "--timeout is -1.0; allowed: more than 0"),
        (("a", "--kill-after", "-1", "--", "true"), "--kill-after is -1.0; allowed: 0 to"),
        (("a", "--value-file", "/no/such/folder/file", "--", "true"), "a file that can be written"),
        (("a",), "Missing argument"),
    ],
)
def test_what_is_wrong_is_said(
    cluster: LocalCluster, arguments: tuple[str, ...], said: str
) -> None:
    ended = snowmelt("baton", "run", "--url", cluster.url, *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr


def test_nobody_there_is_said() -> None:
    where = f"snowmelt://127.0.0.1:{free_port()}"
    ended = snowmelt("baton", "run", "a", "--url", where, "--timeout", "0.5", "--", "true")
    assert ended.returncode == 125
    assert "no node could be reached" in ended.stderr


def test_how_the_nodes_see_it(cluster: LocalCluster) -> None:
    with library.connect(cluster.url) as other, other.baton("seen") as held:
        told = json.loads(snowmelt("baton", "show", "seen", "--url", cluster.url, "--json").stdout)
        assert told["baton"] == "seen"
        assert [one["node"] for one in told["nodes"]] == ["n1", "n2"]
        (holder,) = [one for one in told["nodes"] if one["state"] == "held"]
        assert holder["fence"] == held.fence
        shown = snowmelt("baton", "show", "seen", "--url", cluster.url).stdout
        assert "held" in shown
        assert str(held.fence) in shown
    listed = snowmelt("baton", "list", "--url", cluster.url).stdout.split()
    assert "seen" in listed
    assert listed == sorted(listed)
    as_json = snowmelt("baton", "list", "--url", cluster.url, "--json").stdout
    assert json.loads(as_json) == {"batons": listed}


def test_only_a_value_that_can_not_be_read_is_given_up(cluster: LocalCluster) -> None:
    told = snowmelt("baton", "reset", "cli-sound", "--url", cluster.url)
    assert told.returncode == 4
    assert "is sound" in told.stderr


# --- all of the command ends ----------------------------------------------------------------------

WORK = 'trap "" HUP; while touch "$1"; do sleep 0.02; done'
"""It goes on: a file that is gone comes again."""
BEGUN = """
file="$1"; shift
for before in "$@"; do $before sh -c "$0" work "$file$before" & done
wait
"""
"""A shell whose work is done by others, of its group or not."""
ALL = ("", "nohup", "setsid")
GROUP = ("", "nohup")


class Working:
    """A command that has begun others, which work; and whoever has its baton after it."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._file = folder / "work"
        self._files: list[Path] = []
        self.program: subprocess.Popen[str] | None = None

    def words(self, ways: tuple[str, ...]) -> list[str]:
        self._files = [Path(f"{self._file}{before}") for before in ways]
        return ["sh", "-c", BEGUN, WORK, str(self._file), *ways]

    def begin(self, url: str, ways: tuple[str, ...] = ALL) -> subprocess.Popen[str]:
        run = ("baton", "run", self._name, "--url", url, "--kill-after", "1", "--timeout", "60")
        self.program = started(*run, "--", *self.words(ways))
        self.begun()
        return self.program

    def begun(self) -> None:
        comes(lambda: all(file.exists() for file in self._files))

    def goes_on(self) -> bool:
        for file in self._files:
            file.unlink()
        time.sleep(0.2)
        return any(file.exists() for file in self._files)

    @contextmanager
    def next_holder(self, url: str) -> Iterator[None]:
        with library.connect(url) as other, other.baton(self._name):
            yield


@pytest.fixture
def working(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Working]:
    one = Working("".join(filter(str.isalnum, request.node.name)), tmp_path)
    yield one
    if one.program is not None:
        one.program.kill()
        one.program.communicate()


def child_of(process: int) -> int:
    told = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True, check=True
    )
    (child,) = told.stdout.split()
    return int(child)


def test_processes_are_found_by_ps_as_well() -> None:
    """As where there is no `/proc`."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        for listed in (baton_guardian._listed_here(), baton_guardian._listed_by_ps()):
            assert (os.getpid(), process.pid) in [(parent, one.id) for parent, one in listed]


def test_all_of_a_command_ends_with_the_program_that_runs_it_though_that_is_killed(
    cluster: LocalCluster, working: Working
) -> None:
    working.begin(cluster.url).kill()
    with working.next_holder(cluster.url):
        assert not working.goes_on(), "nobody works beside the next holder"


def test_all_of_a_command_ends_when_the_program_that_runs_it_stands_still_for_too_long(
    cluster: LocalCluster, working: Working
) -> None:
    one = working.begin(cluster.url)
    os.kill(one.pid, signal.SIGSTOP)
    with working.next_holder(cluster.url):
        assert not working.goes_on(), "nobody works beside the next holder"
    os.kill(one.pid, signal.SIGCONT)
    assert one.wait(60) == 125


@pytest.mark.parametrize("killed", [(1,), (2,), (0, 1), (0, 2), (1, 2)])
def test_all_of_a_command_ends_though_two_of_those_above_it_are_killed_at_once(
    cluster: LocalCluster, working: Working, killed: tuple[int, ...]
) -> None:
    one = working.begin(cluster.url)
    witness = child_of(one.pid)
    above = (one.pid, witness, child_of(witness))
    for at in killed:
        os.kill(above[at], signal.SIGKILL)
    with working.next_holder(cluster.url):
        assert not working.goes_on(), "nobody works beside the next holder"
    assert one.wait(60) == (-signal.SIGKILL if 0 in killed else 128 + signal.SIGKILL)


def test_the_baton_is_held_until_all_of_the_command_has_ended(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    script = f"(sleep 0.3; echo out >> {log}) > {log}.no 2>&1 & echo in >> {log}; exit 4"
    ended = snowmelt("baton", "run", "left", "--url", cluster.url, "--", "sh", "-c", script)
    assert (ended.returncode, log.read_text().split()) == (4, ["in", "out"])


def test_a_signal_is_for_all_of_the_group(cluster: LocalCluster, working: Working) -> None:
    one = working.begin(cluster.url, GROUP)
    one.terminate()
    assert one.wait(60) == 128 + signal.SIGTERM
    assert not working.goes_on()


@pytest.mark.parametrize("word", [b"lost\n", b"until 1\n", b""])
def test_a_guardian_ends_all_that_came_of_a_command(working: Working, word: bytes) -> None:
    """It is told that the baton is lost, or until when it was held, or nothing any more."""
    heard, control = os.pipe()
    options = (heard, 1, STEADY, 2)
    program = [PYTHON, "-I", "-S", baton_guardian.__file__, *map(str, options)]
    guardian = subprocess.Popen(
        [*program, *working.words(ALL)], stdout=subprocess.DEVNULL, pass_fds=[heard]
    )
    os.close(heard)
    with os.fdopen(control, "wb") as line:
        working.begun()
        line.write(word)
        line.flush()
        if word:
            assert guardian.wait(60) == 128 + signal.SIGTERM
    assert guardian.wait(60) == 128 + signal.SIGTERM
    assert not working.goes_on()
