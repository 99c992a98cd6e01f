"""Forks, spawned processes, and signals to the program: each in a process of its own."""

import itertools
import json
import multiprocessing
import os
import pickle
import select
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from snowmelt.core.errors import SnowmeltError
from table.account import Account, Wrong, expect
from table.bench import Bench, again, failure
from table.columns import Column, Failures
from table.faces import KINDS, Row
from table.own import LEASE, Own, Place
from table.plants import Sense, planted
from table.recipes import GIVEN, RECIPES, Act, drive

ENDING = {"close", "with", "for", "release"}
"""What may do nothing in a child: it leaves what is its parent's."""
PARENTS_ALONE = {"pool", "folder"}
"""Kinds that a child can't share with its parent at all."""
SECONDS = 10.0
LIFE = 30.0
"""Seconds after which a program ends by itself, whatever it was told."""


class Child(NamedTuple):
    """A forked process, and what it writes."""

    pid: int
    reads: int

    def heard(self, seconds: float = SECONDS, until: str = "") -> list[Any]:
        """All that it says to its end, or until it says this; it is killed if it goes on."""
        end, text = time.monotonic() + seconds, b""
        while time.monotonic() < end:
            if select.select([self.reads], [], [], 0.05)[0]:
                more = os.read(self.reads, 1 << 16)
                text += more
                if not more or (until and json.dumps(until).encode() in text):
                    return [json.loads(line) for line in text.splitlines()]
        os.kill(self.pid, signal.SIGKILL)
        raise Wrong(f"the child stood still for {seconds:g} s")

    @property
    def lives(self) -> bool:
        """Whether it has not ended; it is left to be waited for."""
        return not os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    def ended(self, seconds: float = SECONDS) -> int:
        """How it ended: below 0 by a signal."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.reads)
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.reads)
        raise Wrong(f"it did not end within {seconds:g} s")


def fork(work: Callable[[Callable[[Any], None]], int | None]) -> Child:
    """Does it in a child, which says what it likes, a line a value."""
    reads, writes = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid:
        os.close(writes)
        return Child(pid, reads)
    code: int | None = 1
    try:
        os.close(reads)
        code = work(lambda what: os.write(writes, json.dumps(what).encode() + b"\n") and None)
    finally:
        os._exit(code or 0)


def told(say: Callable[[Any], None], work: Callable[[], None]) -> None:
    """Says what became of it."""
    try:
        work()
    except Wrong as wrong:
        say(["wrong", str(wrong)])
    except SnowmeltError as error:
        say(["ours", f"{type(error).__name__}: {error}"])
    except BaseException as error:
        say(["wrong", f"{type(error).__name__}: {error}"])
    else:
        say(["returned", ""])


# --- fork -----------------------------------------------------------------------------------------


def forked(bench: Bench, rows: list[Row]) -> Failures:
    """A child uses what its parent made, or was given; the parent goes on."""

    def whole(own: Own) -> None:
        def work(say: Callable[[Any], None]) -> None:
            own.numbers = itertools.count(1000)
            own.account = Account(say)
            told(say, lambda: drive(own, bench.call))

        child = fork(work)
        *words, (how, what) = child.heard()
        child.ended()
        own.account.words += [tuple(one) for one in words]
        expect(how != "wrong", "in the child: {}", what)
        expect(how == "returned", "in the child: {}", what)

    def in_child(act: Act, own: Own) -> Any:
        child = fork(lambda say: told(say, lambda: bench.call(act)))
        ((how, what),) = child.heard()
        child.ended()
        expect(how != "wrong", "in the child: {}", what)
        name, _, call = own.row.call.partition(".")
        may = call in ENDING and name in {"loop", "Subscription", "Held", "Pool"}
        may = may or "local" in RECIPES[own.row].words
        expect(how == "ours" or may, "a child did it with what was given to its parent")
        return act()

    def cell(own: Own) -> None:
        drive(own)
        if own.row.call.partition(".")[0] in GIVEN or own.row.kind in PARENTS_ALONE:
            drive(own, lambda act: in_child(act, own))
        else:
            whole(own)

    return bench.cells(rows, cell)


# --- spawn ----------------------------------------------------------------------------------------


def spawned(bench: Bench, rows: list[Row]) -> Failures:
    """A spawned process makes the call by its own cluster; handles say that they stay."""
    names = {row: bench.name(row) for row in rows}
    befores = {row: before(bench, row, names[row]) for row in rows}
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    given = (bench.place.url, bench.place.folder, bench.plants, os.getpid(), names, theirs)
    process = context.Process(target=in_spawned, args=given)
    process.start()
    theirs.close()
    found: dict[Row, Any] = {}
    with suppress(EOFError):
        while ours.poll(60):
            row, *said = ours.recv()
            found[row] = said
    process.kill()
    process.join()

    def cell(own: Own) -> None:
        expect(own.row in found, "the spawned process did not come so far")
        words, how, what = found[own.row]
        add(own, words)
        expect(how == "returned", "in the spawned process: {}", what)
        drive(own, sent)

    return ends(bench, rows, names, befores, cell)


def sent(act: Act) -> Any:
    """It is pickled, or says that it can't be; and then it works."""
    thing = getattr(act.call, "__self__", None)
    if any(type(thing) in faces.values() for faces in KINDS.values()):
        try:
            pickle.dumps(thing)
        except TypeError as error:
            expect("can't be pickled" in str(error), "it says that it stays: {}", error)
        except Exception as error:
            raise Wrong(f"pickling it: {error!r}") from error
    return act()


def in_spawned(
    url: str, folder: str, plants: dict[Row, str], home: int, names: Any, pipe: Any
) -> None:
    """What the spawned process does."""
    place, sense = Place(url, folder), Sense()
    sense.home = home
    for row, name in names.items():
        own = Own(place, row, name, first=1000)
        said: list[Any] = []
        told(said.append, lambda own=own: drive(own, lambda act: planted(act, plants, sense)))
        with suppress(Exception):
            own.close()
        pipe.send((row, own.account.words, *said[0]))
    pipe.close()
    os._exit(0)


# --- signals to the program -----------------------------------------------------------------------


def before(bench: Bench, row: Row, name: str) -> Own | None:
    """What is open before a process is there: not a folder, which is for one of them."""
    if row.kind == "folder":
        return None
    own = bench.own(row, name=name)
    if row.kind == "topic":
        _ = own.topic
    return own


def ends(
    bench: Bench,
    rows: list[Row],
    names: dict[Row, str],
    befores: dict[Row, Own | None],
    cell: Callable[[Own], None],
) -> Failures:
    """The account of each, by this process, when the others have ended."""
    owns = [befores[row] or bench.own(row, name=names[row]) for row in rows]
    return bench.checked(owns, [failure(lambda own=own: (cell(own), again(own))) for own in owns])


def works(bench: Bench, row: Row, name: str, say: Callable[[Any], None], first: int = 1000) -> Own:
    """In a child: a cluster of its own, whose account is told as it grows."""
    return bench.own(row, name=name, account=Account(say), first=first)


def add(own: Own, words: list[Any]) -> None:
    """What a process said that has ended; what a pool's part kept went with it, as promised."""
    for word, *of in words:
        if word != "kept" or own.row.kind != "pool":
            own.account.words.append((word, *of))


WORDS = {
    *("tried", "kept", "refused", "came", "doing", "done"),
    *("fence", "passed", "number", "said", "group"),
}


def terminated(bench: Bench, rows: list[Row]) -> Failures:
    """SIGTERM, to a program that has a handler of its own, and to one that has none."""
    names = {row: bench.name(row) for row in rows}
    befores = {row: before(bench, row, names[row]) for row in rows}
    found: dict[Row, list[Any]] = {row: [] for row in rows}
    said = dict.fromkeys(rows, "")
    for handled in (True, False):
        for some in batched([row for row in rows if not said[row]], 12):
            signalled(bench, names, some, handled, found, said)

    def cell(own: Own) -> None:
        if said[own.row]:
            raise Wrong(said[own.row])
        add(own, found[own.row])

    return ends(bench, rows, names, befores, cell)


def signalled(
    bench: Bench,
    names: dict[Row, str],
    rows: Iterable[Row],
    handled: bool,
    found: dict[Row, list[Any]],
    said: dict[Row, str],
) -> None:
    """Some programs at once; a worker takes a first signal for itself, as it says."""
    children = {}
    for row in rows:
        children[row] = fork(
            lambda say, row=row: until_sigterm(bench, row, names[row], handled, say)
        )
    for row, child in children.items():
        said[row] = said[row] or failure(lambda: found[row].extend(child.heard(until="ready")))  # noqa: B023
    for _ in range(3):
        for child in children.values():
            if child.lives:
                os.kill(child.pid, signal.SIGTERM)
        end = time.monotonic() + 0.7
        while any(child.lives for child in children.values()) and time.monotonic() < end:
            time.sleep(0.01)
    for row, child in children.items():
        if child.lives:
            said[row] = "SIGTERM does not end it"
            os.kill(child.pid, signal.SIGKILL)

        def ends_well(row: Row = row, child: Child = child) -> None:
            words = child.heard(3.0)
            found[row] += [one for one in words if one[0] in WORDS]
            wrong = [one for one in [*found[row], *words] if one[0] == "wrong"]
            expect(not wrong, "{}", wrong)

        for work in (ends_well, lambda child=child: ends_with(child, handled)):
            said[row] = said[row] or failure(work)


def ends_with(child: Child, handled: bool) -> None:
    """By its handler's word, or by the signal."""
    code, wanted = child.ended(), 3 if handled else -signal.SIGTERM
    expect(code == wanted, f"it ended with {{}}, and not with {wanted}", code)


def batched(rows: list[Row], count: int) -> Iterator[list[Row]]:
    """So many at a time."""
    for first in range(0, len(rows), count):
        yield rows[first : first + count]


def until_sigterm(
    bench: Bench, row: Row, name: str, handled: bool, say: Callable[[Any], None]
) -> int:
    """In the child: makes the call for as long as it may."""
    heard: list[int] = []

    def hear(number: int, _: object) -> None:
        heard.append(number)

    signal.signal(signal.SIGTERM, hear if handled else signal.SIG_DFL)
    own = works(bench, row, name, say, 2000 if handled else 1000)
    end = time.monotonic() + LIFE
    number = 0
    while time.monotonic() < end and not heard:
        if number > 60:  # no more than a pipe holds
            time.sleep(0.01)
            continue
        try:
            drive(own, bench.call)
        except SnowmeltError:
            pass
        except BaseException as error:
            if row.kind == "worker" and isinstance(error, Wrong):
                continue  # it was stopped before it had something to do
            say(["wrong", repr(error)])
        if not number:
            say(["ready", ""])
        number += 1
    if handled and signal.getsignal(signal.SIGTERM) is not hear:
        say(["wrong", "the program's handler is gone"])
    return 3 if heard else 4


def stopped(bench: Bench, rows: list[Row]) -> Failures:
    """The program stands still before the call for longer than its lease."""
    names = {row: bench.name(row) for row in rows}
    befores = {row: before(bench, row, names[row]) for row in rows}
    children = {}
    for row in rows:
        children[row] = fork(lambda say, row=row: stands_still(bench, row, names[row], say))
        os.waitpid(children[row].pid, os.WUNTRACED)
    time.sleep(1.25 * LEASE)
    for child in children.values():
        os.kill(child.pid, signal.SIGCONT)

    def cell(own: Own) -> None:
        *words, (how, what) = words_of[own.row]
        add(own, words)
        expect(how != "wrong", "{}", what)

    words_of = {}
    for row, child in children.items():

        def collect(row: Row = row, child: Child = child) -> None:
            words_of[row] = child.heard()

        if said := failure(collect):
            words_of[row] = [["wrong", said]]
        child.ended()
    return ends(bench, rows, names, befores, cell)


def stands_still(bench: Bench, row: Row, name: str, say: Callable[[Any], None]) -> None:
    """In the child."""

    def around(act: Act) -> Any:
        os.kill(os.getpid(), signal.SIGSTOP)
        with bench.hit():
            return bench.call(act)

    own = works(bench, row, name, say)
    told(say, lambda: drive(own, around))


COLUMNS = [
    Column("fork", "A forked child uses what its parent made, or was given: it works there, or "
           "says whose it is; the parent's goes on.", forked, ("forgets", "crashes")),
    Column("spawn", "A spawned process makes the call by a cluster of its own; a handle that is "
           "sent there says that it stays.", spawned, ("forgets", "crashes")),
    Column("SIGTERM", "A program that makes the call over and over is ended by SIGTERM, or hears "
           "it by its own handler.", terminated, ("ignores_signals",)),
    Column("SIGSTOP", "The program stands still before the call, for longer than its lease.",
           stopped, ("forgets", "crashes")),
]  # fmt: skip
