"""What a node sends to a page: headers, events, one queue; who is refused, and what looks cost."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import snowmelt.aio
from page.recorded import Recorded, shown
from runtime.network import serving, until
from runtime.test_http import HERE, asked
from snowmelt.core.names import NodeId
from snowmelt.page import PageSite, watching
from snowmelt.page.watching import MINUTES, UNKNOWN, History, QueueTotals
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.http import serving as web
from snowmelt.runtime.http.pages import SiteContext
from snowmelt.runtime.server import Server


class Events:
    """One listener, as a browser would be."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.head = ""

    @classmethod
    async def of(cls, host: str, port: int, limit: int = 1 << 24, cookie: str = "") -> "Events":
        reader, writer = await asyncio.open_connection(host, port, limit=limit)
        head = f"GET /events HTTP/1.1\r\nHost: {host}:{port}\r\nCookie: {cookie}\r\n\r\n"
        writer.write(head.encode())
        events = cls(reader, writer)
        events.head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)).decode()
        return events

    async def next(self, name: str) -> dict[str, Any]:
        """The next event of this name."""
        while True:
            piece = await asyncio.wait_for(self._reader.readuntil(b"\n\n"), 20)
            if piece.startswith(f"event: {name}\n".encode()):
                told: dict[str, Any] = json.loads(piece.partition(b"\ndata: ")[2])
                return told

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


async def events_of(server: Server) -> Events:
    assert server.http_at is not None
    return await Events.of(server.http_at.host, server.http_at.port)


def rows(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    told = [dict(zip(state["fields"], one, strict=True)) for one in state["queues"]]
    return {one["queue"]: one for one in told}


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "EVERY", 0.3)


async def test_a_page_shows_what_is_there(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, http=HERE, site=PageSite) as node,
        snowmelt.aio.connect(f"snowmelt://{node.address}") as cluster,
    ):
        await cluster.fifo("orders").put_many([b"x"] * 5)
        await cluster.fifo("log", partitions=3).put_many([b"x"] * 9)
        held = await cluster.baton("index").acquire()
        events = await events_of(node.server)
        assert "Content-Type: text/event-stream" in events.head
        state = await events.next("state")
        assert rows(state)["orders"]["ready"] == 5
        assert rows(state)["log"]["order"] == "fifo in 3 parts"
        assert [one["id"] for one in state["members"]] == ["n1"]
        assert [(one["name"], one["holder"]) for one in state["batons"]] == [("index", "n1")]
        await cluster.fifo("orders").put_many([b"x"] * 5)
        while rows(state)["orders"]["ready"] != 10:
            state = await events.next("state")
        status, body = await asked(node.server, "/queue?name=log")
        told = json.loads(body)
        assert (status, told["settings"]["partitions"]) == (200, 3)
        assert [one["number"] for one in told["parts"]] == [0, 1, 2]
        assert sum(one["status"]["ready"] for one in told["parts"]) == 9
        for query in ("name=a%20b", "", "name=orders" + "&a=1" * 20):
            assert (await asked(node.server, f"/queue?{query}"))[0] == 400
        told = json.loads((await asked(node.server, "/queue?name=missing"))[1])
        assert "missing" in told["parts"][0]["why"]
        await held.release()
        await events.close()


async def test_a_node_that_leads_nothing_knows_the_others(tmp_path: Path) -> None:
    async with serving(tmp_path) as first:
        join = (first.address,)
        async with (
            serving(tmp_path, "n2", join=join, http=HERE, site=PageSite) as second,
            snowmelt.aio.connect(f"snowmelt://{first.address}") as cluster,
        ):
            await until(lambda: second.server.current)
            for one in range(6):
                await cluster.fifo(f"q{one}").put(b"x")
            events = await events_of(second.server)
            state = await events.next("state")
            assert [one["ready"] for one in rows(state).values()] == [1] * 6
            assert [one["id"] for one in state["members"]] == ["n1", "n2"]
            await events.close()
            await first.server.stop(depart=False)
            await until(lambda: not second.server.current)
            events = await events_of(second.server)
            while state["standing"] == "current" and not state["trouble"]:
                state = await events.next("state")
            assert len(rows(state)) == 6  # what was known
            await events.close()
            first.server.stop = _done  # type: ignore[method-assign]


async def _done(**_: Any) -> None:
    pass


async def test_the_files_come_with_what_keeps_others_out(tmp_path: Path) -> None:
    async with serving(tmp_path, http=HERE, site=PageSite) as node:
        at = node.server.http_at
        assert at is not None
        reader, writer = await asyncio.open_connection(at.host, at.port)
        writer.write(f"GET / HTTP/1.1\r\nHost: {at}\r\n\r\n".encode())
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
        assert "Content-Security-Policy: default-src 'none'; script-src 'self';" in head
        assert "frame-ancestors 'none'" in head
        assert "unsafe" not in head
        assert "X-Content-Type-Options: nosniff" in head
        assert "<script>" not in body
        assert "style=" not in body
        for path in ("/page.js", "/drawing.js", "/page.css", "/icon.svg"):
            assert (await asked(node.server, path))[0] == 200


@pytest.mark.parametrize(
    "heads",
    [
        ("Host: snowmelt.example:9410",),
        ("Host: 127.0.0.1.example",),
        ("Host: 10.0.0.5:9410",),
        ("Origin: https://else.example",),
        ("Origin: null",),
        ("Sec-Fetch-Site: cross-site",),
        ("Sec-Fetch-Site: same-site",),
    ],
)
async def test_other_sites_are_refused(tmp_path: Path, heads: tuple[str, ...]) -> None:
    async with serving(tmp_path, http=HERE, site=PageSite) as node:
        for path in ("/", "/events", "/queue?name=orders", "/page.js"):
            assert (await asked(node.server, path, *heads))[0] == 403
        link = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate")
        assert (await asked(node.server, "/", *link))[0] == 200  # a link may lead here
        assert (await asked(node.server, "/events", *link))[0] == 403


async def test_listeners_are_few_and_who_reads_nothing_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(web, "SLOW_SECONDS", 2.0)
    monkeypatch.setattr(watching, "QUEUES_A_SECOND", 100_000)
    async with shown(Recorded(2_000, 3)) as url:
        host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
        reading = await Events.of(host, int(port))
        few = range(watching.LISTENERS_MAX - 1)
        silent = [await Events.of(host, int(port), 1 << 14) for _ in few]
        assert all("200 OK" in one.head for one in (reading, *silent))
        more = await Events.of(host, int(port))
        assert "503" in more.head
        await more.close()
        end = asyncio.get_running_loop().time() + 60
        while True:
            state = await reading.next("state")  # the others read nothing of so much
            assert len(state["queues"]) == 2_000
            late = await Events.of(host, int(port))
            await late.close()
            if "200 OK" in late.head:
                break
            assert asyncio.get_running_loop().time() < end
        for one in (reading, *silent):
            one.writer.transport.abort()


async def test_of_many_who_come_in_one_moment_few_are_listeners() -> None:
    inside = SiteContext(NodeId("n1"), HERE, HERE, "snowmelt", Credentials(), Recorded(9, 3).call)
    watcher = watching.PageWatcher(inside)
    streams = [watcher.events() for _ in range(3 * watching.LISTENERS_MAX)]
    begun = await asyncio.gather(*[anext(one, None) for one in streams])
    assert sum(one is not None for one in begun) == watching.LISTENERS_MAX
    for one in streams:
        await one.aclose()
    assert watcher.listeners == 0


async def test_nobody_looks_while_nobody_has_a_page_open() -> None:
    recorded = Recorded(10, 3)
    async with shown(recorded) as url:
        host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
        events = await Events.of(host, int(port))
        minute = await events.next("minute")
        assert minute["minute"] == 63
        for _ in range(3):
            await events.next("state")
        await events.close()
        await asyncio.sleep(0.5)
        looks = recorded.looks
        assert looks >= 3
        await asyncio.sleep(1.5)
        assert recorded.looks == looks


def test_an_hour_is_kept_of_what_is_there() -> None:
    history = History()
    for minute in range(200):
        history.add([QueueTotals("a", 3 * minute, minute), QueueTotals(f"q{minute}", 1, 1)])
    (one, _) = history.hours()
    assert (one.queue, one.came, one.went) == ("a", [3] * MINUTES, [1] * MINUTES)
    history.miss()
    history.add([QueueTotals("a", 900, 900)])  # what came meanwhile is of no one minute
    history.add([QueueTotals("a", 905, 900)])
    history.add([QueueTotals("a", 2, 0)])  # another of this name
    (one,) = history.hours()
    assert one.came[-5:] == [3, UNKNOWN, UNKNOWN, 5, UNKNOWN]
