"""Large bodies over a slow link: how many bytes come for each of theirs, and what becomes of acks.

A proxy in this process lets so many bytes a second through, each way. An item is got through it and
acknowledged, one after the other, with either face, from a fifo and from a priority queue; with TLS
and without, and a body as large as any may be.
"""

import argparse
import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import trustme

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import free_port

PIECE = 64 << 10
MIB = 1 << 20
TOKEN = "the token"
WAIT_SECONDS = 2.0
"""How long a get waits for its answer to begin; one that is coming is waited for beyond that."""


class Case(NamedTuple):
    """A body and the link it comes by."""

    mib: float
    """Size of a body."""
    rate: float
    """MiB a second."""
    tls: bool = False


CASES = (Case(8, 2), Case(8, 2, tls=True), Case(63, 10))


class SlowLink:
    """A way to one port that lets so many bytes a second through, each way; counts both."""

    def __init__(self, rate: float) -> None:
        self.port = free_port()
        self.leads_to = 0
        self.rate = rate
        """0 lets all through."""
        self.down = self.up = 0
        self._free = {"down": 0.0, "up": 0.0}
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "SlowLink":
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with await asyncio.start_server(self._accepted, "127.0.0.1", self.port, limit=PIECE):
            self._ready.set()
            await self._over.wait()

    async def _accepted(self, near: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        try:
            far, into = await asyncio.open_connection("127.0.0.1", self.leads_to, limit=PIECE)
        except OSError:  # the node is not there yet
            out.close()
            return
        for one in (out, into):
            one.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE)
        out.transport.set_write_buffer_limits(PIECE)
        into.transport.set_write_buffer_limits(PIECE)
        try:
            await asyncio.gather(self._carried("up", near, into), self._carried("down", far, out))
        except asyncio.CancelledError:  # the link is over: nobody waits for what it still holds
            into.transport.abort()
            out.transport.abort()

    async def _carried(
        self, way: str, source: asyncio.StreamReader, to: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(PIECE):
                if self.rate:
                    now = time.monotonic()
                    self._free[way] = max(now, self._free[way]) + len(data) / self.rate
                    await asyncio.sleep(self._free[way] - now)
                setattr(self, way, getattr(self, way) + len(data))
                to.write(data)
                await to.drain()
        to.close()


def blocking(url: str, token: str, kind: str, items: int) -> tuple[int, int]:
    """Gets and acknowledges; how many were acknowledged, and how many calls failed."""
    acked = failed = 0
    with snowmelt.connect(url, token=token) as cluster:
        queue = getattr(cluster, kind)("large")
        while acked + failed < items:
            try:
                queue.get(timeout=WAIT_SECONDS).ack()
                acked += 1
            except snowmelt.SnowmeltError as error:
                print(f"  {type(error).__name__}: {error}", file=sys.stderr)
                failed += 1
    return acked, failed


async def tasks(url: str, token: str, kind: str, items: int) -> tuple[int, int]:
    """The same on an event loop."""
    acked = failed = 0
    async with snowmelt.aio.connect(url, token=token) as cluster:
        queue = getattr(cluster, kind)("large")
        while acked + failed < items:
            try:
                await (await queue.get(timeout=WAIT_SECONDS)).ack()
                acked += 1
            except snowmelt.SnowmeltError as error:
                print(f"  {type(error).__name__}: {error}", file=sys.stderr)
                failed += 1
    return acked, failed


def papers(folder: Path) -> tuple[list[str], str]:
    """What a node is given that speaks TLS, and what a client's URL says then."""
    authority = trustme.CA()
    issued = authority.issue_cert("n1")
    paths = {name: folder / name for name in ("token-file", "authority", "certificate", "key")}
    paths["token-file"].write_text(TOKEN)
    paths["token-file"].chmod(0o600)
    authority.cert_pem.write_to_path(paths["authority"])
    issued.cert_chain_pems[0].write_to_path(paths["certificate"])
    issued.private_key_pem.write_to_path(paths["key"])
    words = ["--token-file", *(f"--tls-{name}" for name in list(paths)[1:])]
    given = [word for pair in zip(words, map(str, paths.values()), strict=True) for word in pair]
    return given, f"?authority={paths['authority']}"


@contextmanager
def node(folder: Path, advertised: int, given: list[str]) -> Iterator[int]:
    """A node that says it is reached at another port; its own."""
    own, program = free_port(), [sys.executable, "-m", "snowmelt"]
    subprocess.run([*program, "found", "--data", str(folder)], check=True, capture_output=True)
    where = ["--listen", f"127.0.0.1:{own}", "--advertise", f"127.0.0.1:{advertised}", *given]
    command = [*program, "node", "--data", str(folder), "--log", "error", *where]
    with subprocess.Popen(command) as process:
        try:
            yield own
        finally:
            process.terminate()


def measured(case: Case, items: int, kind: str, face: str) -> dict[str, Any]:
    size, rate = int(case.mib * MIB), case.rate * MIB
    with tempfile.TemporaryDirectory() as name, SlowLink(rate) as link:
        given, said = papers(Path(name)) if case.tls else ([], "")
        url, token = f"snowmelt://127.0.0.1:{link.port}{said}", TOKEN if case.tls else ""
        with node(Path(name) / "n1", link.port, given) as link.leads_to:
            link.rate = 0.0  # while the queue is filled
            with snowmelt.connect(url, token=token) as cluster:
                queue = getattr(cluster, kind)("large")
                for number in range(items):
                    body = number.to_bytes(4, "big") * (size // 4)
                    more = {"priority": number} if kind == "priority" else {}
                    queue.put(body, timeout=60, **more)
            link.rate, link.down = rate, 0
            begin = time.monotonic()
            if face == "blocking":
                acked, failed = blocking(url, token, kind, items)
            else:
                acked, failed = asyncio.run(tasks(url, token, kind, items))
            seconds, down = time.monotonic() - begin, link.down
            link.rate = 0.0
            with snowmelt.connect(url, token=token) as cluster:
                left = getattr(cluster, kind)("large").stats()
    return {
        "kind": kind,
        "face": face,
        "tls": case.tls,
        "mib": case.mib,
        "mib_a_second": case.rate,
        "downloaded_for_each_byte": down / (size * items),
        "acked": acked,
        "failed": failed,
        "left": left.ready + left.leased,
        "seconds": seconds,
        "ideal_seconds": size * items / rate,
    }


def cases(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    own = [Case(options.mib, options.rate, options.tls)] if options.mib else CASES
    for case in own:
        for kind in options.kinds:
            for face in options.faces:
                yield measured(case, options.items, kind, face)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=float, help="one case only: the size of a body")
    parser.add_argument("--rate", type=float, default=2.0, help="its MiB a second")
    parser.add_argument("--tls", action="store_true", help="whether it has TLS")
    parser.add_argument("--items", type=int, default=4)
    parser.add_argument("--kinds", nargs="+", default=["fifo", "priority"])
    parser.add_argument("--faces", nargs="+", default=["blocking", "async"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    told = []
    for one in cases(options):
        told.append(one)
        if not options.json:
            print(
                f"{one['kind']:9}{one['face']:9} {one['mib']:g} MiB at {one['mib_a_second']:g} "
                f"MiB/s{' with TLS' if one['tls'] else ''}: "
                f"{one['downloaded_for_each_byte']:.2f} bytes for each byte of body, "
                f"{one['acked']} of {options.items} acknowledged, {one['left']} left, "
                f"{one['seconds']:.1f} s ({one['ideal_seconds']:.1f} ideal)",
                flush=True,
            )
    if options.json:
        print(json.dumps(told))


if __name__ == "__main__":
    main()
