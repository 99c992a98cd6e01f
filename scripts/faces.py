"""Makes the blocking faces from the async ones: `X_async.py` is written by hand, `X.py` is made.

    python scripts/faces.py           writes each that is not as it would be made
    python scripts/faces.py --check   names those, and ends with 1 if there are any

`WORDS` is all there is to it: what stands in an async face, and what stands there in the blocking
one. ruff does the rest: it wraps lines anew, sorts what is imported, and drops what nothing needs
any more. Where the two truly differ (a thread or a task, a lock or an event), that has a module of
its own on both sides, with the same names in it: `BY_HAND` has them all, and why.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
ROOM: Final = ROOT / "src/snowmelt/client"

BY_HAND: Final = {
    "embedded/face": "whoever calls drives the machine, or a thread for the event loop does",
    "pool/port": "a thread waits for the sockets itself, a task for its loop to be told",
    "leases/leasing": "a task may be cancelled while its get is under way",
    "leases/renewer": "a thread renews, or a task; a loop is ended by its cluster in other ways",
    "leases/item_source": "threads wait for their turn no longer than they wait for an item",
    "worker/loop": "threads are told to end, tasks are cancelled",
    "worker/face": "a blocking one may work in processes, and in the background by a thread",
    "baton/renewer": "a thread renews, by a connection of its own, or a task by those of all",
}
"""Pairs of which both are written by hand."""

WORDS: Final = (
    # what Python says in another way
    (r"\bawait asyncio\.to_thread\(([\w.]+)(?:, )?", r"\1("),
    (r"[,;] with `await`", "; blocking"),
    (r"\bawait ", ""),
    (r"\b([Aa])n (`?)async ", r"\1 \2"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bCoroutine\[Any, Any, (\w+)\]", r"\1"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"\baclose\b", "close"),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"\basyncio\.Lock\b", "threading.Lock"),
    (r"\bimport asyncio\n", "import threading\nimport time\n"),
    (r"\n +self\._\w+\.check_loop\(\)", ""),  # any thread may
    # what we say in another way
    (r"\b(\w+)_async\b", r"\1"),
    (r"\b(Async|Keeping)(Port|Own|HeldBaton)\b", r"\2"),
    (r"\bAsyncClient\b", "Clients"),
    (r"\bconnection\.asynchronous\b", "connection.clients"),
    (r"\bTaskCoalescer\b", "ThreadCoalescer"),
    (r"\bcoalescing\.tasks\b", "coalescing.threads"),
    (r"\bsnowmelt\.client\.connection\.takers import this_task", "_thread import get_ident"),
    (r"\bthis_task\b", "get_ident"),
    (r"\bthis_taker\b", "this_thread"),
    (r"\bOpenOnce\(port\)", "port"),  # threads open a queue each for themselves
    # what people are told
    (r"\bsnowmelt\.aio\b", "snowmelt"),
    (r"\b([Tt])asks\b", lambda found: "Threads" if found[1] == "T" else "threads"),
    (r"\btask\b", "thread"),
    (r"\n\n +On an event loop (?:.+\n)+?(?=\n| +\"\"\")", "\n"),  # a paragraph for such alone
)
"""In this order; each is a regular expression, and what becomes of what it finds."""

HEAD: Final = "# Made of {source} by scripts/faces.py, which `make faces` runs: change it there.\n"
UNUSED: Final = ("check", "--select", "F401,I", "--fix-only")


def made_of(source: str, name: str) -> str:
    """The text of a blocking face; `name` is that of the async one."""
    for pattern, instead in WORDS:
        source = re.sub(pattern, instead, source)
    return ruff("format", text=ruff(*UNUSED, text=HEAD.format(source=name) + source))


def ruff(*words: str, text: str) -> str:
    """What ruff makes of a text."""
    command = [sys.executable, "-m", "ruff", *words, "--quiet", "--stdin-filename", "face.py", "-"]
    done = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, check=True)
    return done.stdout


def main(words: list[str]) -> int:
    """What the command does; its exit code."""
    code = 0
    for source in sorted(ROOM.rglob("*_async.py")):
        face = source.with_name(source.name.replace("_async.py", ".py"))
        if face.relative_to(ROOM).with_suffix("").as_posix() in BY_HAND:
            continue
        text = made_of(source.read_text(), source.name)
        if face.exists() and face.read_text() == text:
            continue
        name = face.relative_to(ROOT)
        if "--check" in words:
            code = 1
            print(f"{name} is not as it is made of {source.name}: change that, then `make faces`")
        else:
            face.write_text(text)
            print(f"{name} is made anew")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
