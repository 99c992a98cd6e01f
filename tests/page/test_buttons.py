"""The page's buttons: who may press them, what they do, and who can't have them pressed."""

import asyncio
import json
import logging
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

import snowmelt.aio
from page.browser import WITH_BROWSER, Browser, Chromium
from page.test_page import Events, rows
from runtime.network import Serving, serving
from runtime.test_http import HERE
from snowmelt.cli.page import link
from snowmelt.page import PageSite, watching
from snowmelt.runtime.credentials import Credentials

USERS = """\
ops    0123456789abcdef-ops admin
shop   0123456789abcdef-shop manage:orders peek:orders
reader 0123456789abcdef-reader peek:orders put:in.*
nodes  0123456789abcdef-nodes node
"""
LIVE = "document.querySelector('#live')?.className === 'good'"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "EVERY", 0.3)


@asynccontextmanager
async def shop(folder: Path, **more: Any) -> AsyncIterator[tuple[Serving, Any]]:
    """A node with users, and an operator's connection to it."""
    users = folder / "users"
    users.write_text(USERS)
    users.chmod(0o600)
    given = {"credentials": Credentials(users=users), "http_token": "page-token-page", **more}
    async with (
        serving(folder, http=HERE, site=PageSite, **given) as node,
        snowmelt.aio.connect(
            f"snowmelt://{node.address}", token="0123456789abcdef-ops", user="ops"
        ) as cluster,
    ):
        yield node, cluster


class Visit:
    """Whoever came by a link; `heads` are those of its page's requests."""

    def __init__(self, node: Serving) -> None:
        self.host = str(node.server.http_at)
        self.heads: dict[str, str] = {"Host": self.host}

    async def ask(
        self, path: str, method: str = "GET", body: bytes = b"", **heads: str | None
    ) -> tuple[int, str, str]:
        """The status, the head and the body. A head that is None is left out."""
        changed = {name.replace("_", "-"): value for name, value in heads.items()}
        all_ = {**self.heads, **({"Content-Length": str(len(body))} if body else {}), **changed}
        host, _, port = self.host.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        lines = [f"{name}: {value}" for name, value in all_.items() if value is not None]
        writer.write("\r\n".join((f"{method} {path} HTTP/1.1", *lines, "", "")).encode() + body)
        head, _, told = (await asyncio.wait_for(reader.read(), 20)).partition(b"\r\n\r\n")
        writer.close()
        return int(head.split()[1]), head.decode(), told.decode()

    async def come(self, path: str) -> int:
        """By a link; from then on it has what its page has."""
        status, head, _ = await self.ask(path)
        if cookie := re.search(r"Set-Cookie: (\S+=\S+);", head):
            self.heads["Cookie"] = cookie[1]
        _, _, me = await self.ask("/me")
        self.heads |= {
            "Origin": f"http://{self.host}",
            "Content-Type": "application/json",
            "X-Snowmelt-Key": json.loads(me)["key"] if me.startswith("{") else "",
        }
        return status

    async def press(self, once: str = "", **press: Any) -> tuple[int, str]:
        body = json.dumps({"once": once or token_hex(8), **press}).encode()
        status, _, told = await self.ask("/do", "POST", body)
        return status, told


def path_of(host: str, user: str | None, secret: str = "") -> str:
    secret = secret or (f"0123456789abcdef-{user}" if user else "page-token-page")
    return link(host, secret, user).partition(host)[2]


async def visit(node: Serving, user: str | None) -> Visit:
    came = Visit(node)
    assert await came.come(path_of(came.host, user)) == 200
    return came


async def events_for(came: Visit) -> Events:
    """What its page is sent."""
    host, _, port = came.host.partition(":")
    return await Events.of(host, int(port), cookie=came.heads["Cookie"])


async def to_its_end(events: Events) -> None:
    while True:
        await events.next("state")


async def dead_in(cluster: Any, name: str, count: int) -> Any:
    queue = cluster.fifo(name, max_deliveries=1)
    for one in range(count):
        await queue.put(b"letter %d" % one)
        await (await queue.get()).nack(reason="too hot")
    return queue


async def test_what_is_pressed_at_a_dead_item_leaves_it_where_it_is_dead_no_more(
    tmp_path: Path,
) -> None:
    async with shop(tmp_path) as (node, cluster):
        orders = await dead_in(cluster, "orders", 1)
        mine = await visit(node, "shop")
        one: dict[str, Any] = {"queue": "orders", "position": 0, "dead": True}
        assert await mine.press(what="bring_back", **one) == (200, '{"done":1}')
        assert await mine.press(what="drop", **one) == (200, '{"done":0}')
        assert (await orders.stats()).ready == 1


async def test_a_button_does_what_its_user_may_and_says_who_did_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="snowmelt.audit")
    async with shop(tmp_path) as (node, cluster):
        orders = await dead_in(cluster, "orders", 4)
        await dead_in(cluster, "secret", 1)
        mine = await visit(node, "shop")
        told = json.loads((await mine.ask("/queue?name=orders"))[2])
        assert [one["body"] for one in told["dead"]] == [f"letter {one}" for one in range(4)]
        assert (told["may"], told["consumers"]) == (["peek", "manage"], None)
        assert await mine.press(what="pause", queue="orders") == (200, '{"done":0}')
        assert (await orders.stats()).paused
        assert (await mine.press(what="resume", queue="orders"))[0] == 200
        one: dict[str, Any] = {"queue": "orders", "position": 0}
        assert await mine.press(what="bring_back", **one) == (200, '{"done":1}')
        assert await mine.press(what="bring_back", **one) == (200, '{"done":0}')
        assert await mine.press(what="drop", queue="orders", position=1) == (200, '{"done":1}')
        assert await mine.press(what="bring_back_all", queue="orders") == (200, '{"done":2}')
        status = await orders.stats()
        assert (status.ready, status.dead, status.paused) == (3, 0, False)
        status_, text = await mine.press(what="drop_all", queue="secret")
        assert (status_, "needs the right manage:secret" in text) == (403, True)
        assert (await cluster.fifo("secret").stats()).dead == 1
        reader = await visit(node, "reader")
        assert (await reader.press(what="pause", queue="orders"))[0] == 403
        looker = await visit(node, None)
        status_, text = await looker.press(what="pause", queue="orders")
        assert (status_, "snowmelt page" in text) == (403, True)
        assert not (await orders.stats()).paused
        ops = await visit(node, "ops")
        assert await ops.press(what="drop_all", queue="secret") == (200, '{"done":1}')
        await asyncio.sleep(0)
    # what goes on to the node that leads the queue is asked by this node there
    told_ = [
        one.fields | {"event": one.event}  # type: ignore[attr-defined]
        for one in caplog.records
        if one.name == "snowmelt.audit" and one.fields["client"] == "the page"  # type: ignore[attr-defined]
    ]
    done = [(one["event"], one["user"], one["asked"], one["of"]) for one in told_]
    assert done == [
        ("allowed", "shop", "Pause", "orders"),
        ("allowed", "shop", "Pause", "orders"),
        *[("allowed", "shop", "ChangeItem", "orders")] * 3,
        ("allowed", "shop", "Redrive", "orders"),
        ("refused", "shop", "Purge", "secret"),
        ("refused", "reader", "Pause", "orders"),
        ("allowed", "ops", "Purge", "secret"),
    ]
    assert all(one["address"].startswith("127.0.0.1:") for one in told_)


async def test_a_user_sees_what_they_may_see(tmp_path: Path) -> None:
    async with shop(tmp_path) as (node, cluster):
        for name in ("orders", "in.a", "secret"):
            await cluster.fifo(name).put(b"x")
        held = await cluster.baton("secret").acquire()
        came = await visit(node, "reader")
        events = await events_for(came)
        state = await events.next("state")
        assert [*rows(state)] == ["in.a", "orders"]
        assert state["batons"] == []
        await events.close()
        assert (await came.ask("/queue?name=secret"))[0] == 400
        told = json.loads((await came.ask("/queue?name=in.a"))[2])
        assert (told["items"], told["dead"], told["parts"][0]["status"]["ready"]) == (None, None, 1)
        looker = await visit(node, None)
        told = json.loads((await looker.ask("/queue?name=secret"))[2])
        assert (told["items"], told["parts"][0]["status"]["ready"]) == (None, 1)
        await held.release()


async def test_who_uses_queues_is_told_to_an_admin(tmp_path: Path) -> None:
    async with shop(tmp_path) as (node, cluster):
        names = [f"q{one}" for one in range(3)]
        for name in names:
            await cluster.fifo(name).put_many([b"x"] * 2)
        ranked = cluster.priority("ranked", priorities=2)
        await ranked.put(b"x")
        held = [await cluster.fifo(name).get_many(2) for name in names] + [await ranked.get()]
        came = await visit(node, "ops")
        events = await events_for(came)
        await events.next("state")
        status, _, told = await came.ask("/workers")
        (one,) = json.loads(told)
        assert (status, one["items"], one["using"], one["pid"]) == (200, 7, 4, os.getpid())
        assert sorted(one["queues"]) == [*names, "ranked"]
        await events.close()
        for user in ("shop", None):
            assert (await (await visit(node, user)).ask("/workers"))[0] == 403
        for items in held:
            await items.release()


@pytest.mark.parametrize(
    "heads",
    [
        {"Origin": "https://else.example"},
        {"Origin": "null"},
        {"Origin": None},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
        {"Content_Type": "text/plain"},
        {"Content_Type": "application/x-www-form-urlencoded"},
        {"Content_Type": None},
        {"X_Snowmelt_Key": None},
        {"X_Snowmelt_Key": "guess"},
        {"Cookie": None},
        {"Cookie": None, "Authorization": "Bearer page-token-page"},
        {"Host": "else.example"},
    ],
)
async def test_no_other_site_and_no_cookie_alone_presses_a_button(
    tmp_path: Path, heads: dict[str, str | None]
) -> None:
    body = json.dumps({"once": "12345678", "what": "pause", "queue": "orders"}).encode()
    async with shop(tmp_path) as (node, cluster):
        orders = cluster.fifo("orders")
        await orders.create()
        mine = await visit(node, "ops")
        assert (await mine.ask("/do", "POST", body, **heads))[0] in (401, 403)
        for method in ("GET", "HEAD", "PUT"):
            assert (await mine.ask("/do", method, body))[0] == 405
        other = await visit(node, "ops")
        key = other.heads["X-Snowmelt-Key"]
        assert (await mine.ask("/do", "POST", body, X_Snowmelt_Key=key))[0] == 403
        assert not (await orders.stats()).paused
        assert (await mine.ask("/do", "POST", body))[0] == 200
        assert (await orders.stats()).paused


async def test_a_link_is_good_once_and_only_with_its_users_secret(tmp_path: Path) -> None:
    async with shop(tmp_path) as (node, _):
        came = Visit(node)
        path = path_of(came.host, "shop")
        assert await came.come(path) == 200
        assert await Visit(node).come(path) == 403
        forged = (
            path_of(came.host, "ops", "0123456789abcdef-shop"),
            path_of(came.host, "nobody", "0123456789abcdef-shop"),
            path_of(came.host, "", "0123456789abcdef-shop"),
            path_of(came.host, "ops", "page-token-page"),
            path_of(came.host, None, "0123456789abcdef-shop"),
            path_of(came.host, "shop").replace(".shop.", ".ops."),
            path_of("else.example:1", "shop").replace("else.example:1", came.host),
        )
        for one in forged:
            assert await Visit(node).come(one) == 403, one
        # a secret that is gone takes its sessions along, and what is on its way to them
        events = await events_for(came)
        await events.next("state")
        (tmp_path / "users").write_text(USERS.replace("abcdef-shop", "abcdef-new-shop"))
        assert (await came.ask("/me"))[0] == 200
        accounts = node.server._accounts
        assert accounts is not None
        assert node.server._transport is not None
        accounts.read_again(node.server._transport)
        assert (await came.ask("/me"))[0] == 401
        with pytest.raises(asyncio.IncompleteReadError):
            await to_its_end(events)
        await events.close()


async def test_what_is_no_press_is_refused(tmp_path: Path) -> None:
    async with shop(tmp_path) as (node, _):
        mine = await visit(node, "ops")
        good = {"once": "12345678", "what": "pause", "queue": "orders"}
        wrong: list[dict[str, Any]] = [
            {"what": "delete"}, {"queue": "a b"}, {"queue": 7}, {"once": "1"}, {"more": 1},
            {"position": -1}, {"position": 1 << 70}, {"queue": "x" * 400}, {"queue": "../x"},
        ]  # fmt: skip
        for one in wrong:
            status, _, _ = await mine.ask("/do", "POST", json.dumps(good | one).encode())
            assert status == 400, one
        for body in (b"{", b"\xff", b"[]"):
            assert (await mine.ask("/do", "POST", body))[0] == 400
        for length in ("5000", "-1", "x", None, "\xb2"):
            assert (await mine.ask("/do", "POST", b"", Content_Length=length))[0] == 413
        status, text = await mine.press(what="pause", queue="missing")
        assert (status, "missing" in text) == (409, True)


async def test_a_press_that_comes_twice_is_done_once(tmp_path: Path) -> None:
    async with shop(tmp_path) as (node, cluster):
        orders = await dead_in(cluster, "orders", 2)
        mine = await visit(node, "ops")
        all_ = {"what": "bring_back_all", "queue": "orders"}
        both = [mine.press(once="the same press", **all_) for _ in range(2)]
        assert set(await asyncio.gather(*both)) == {(200, '{"done":2}')}
        for _ in range(2):
            await (await orders.get()).nack(reason="again")
        assert await mine.press(once="the same press", **all_) == (200, '{"done":2}')
        assert (await orders.stats()).dead == 2
        assert await mine.press(once="another press", **all_) == (200, '{"done":2}')
        assert (await orders.stats()).dead == 0


async def test_buttons_of_a_queue_with_partitions_and_of_one_with_priorities(
    tmp_path: Path,
) -> None:
    async with shop(tmp_path) as (node, cluster):
        parted = cluster.fifo("parted", partitions=3, max_deliveries=1)
        for one in range(6):
            await parted.put(b"%d" % one)
        async with await parted.get_many(6) as items:
            await items.nack(reason="no")
        ranked = cluster.priority("ranked", priorities=3, max_deliveries=1)
        await ranked.put(b"x", priority=2)
        await (await ranked.get()).nack(reason="no")
        mine = await visit(node, "ops")
        while True:  # until the node has looked
            told = json.loads((await mine.ask("/queue?name=parted"))[2])
            if len(told["parts"]) == 3:
                break
            await asyncio.sleep(0.1)
        assert sorted(one["body"] for one in told["dead"]) == [str(one) for one in range(6)]
        one = told["dead"][0]
        press = {"what": "bring_back", "queue": one["queue"], "position": one["position"]}
        assert await mine.press(**press) == (200, '{"done":1}')
        assert await mine.press(what="drop_all", queue="parted") == (200, '{"done":5}')
        told = json.loads((await mine.ask("/queue?name=ranked"))[2])
        assert (told["ranked"], told["dead"][0]["priority"]) == (True, 2)
        press = {"what": "bring_back", "queue": "ranked", "position": 0, "ranked": True}
        assert (await mine.press(**press))[0] == 400  # it is not said of which priority
        assert await mine.press(**press, priority=2) == (200, '{"done":1}')


async def test_on_a_node_without_any_token_buttons_are_everybodys(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, http=HERE, site=PageSite) as node,
        snowmelt.aio.connect(f"snowmelt://{node.address}") as cluster,
    ):
        orders = cluster.fifo("orders")
        await orders.create()
        came = Visit(node)
        assert await came.come("/") == 200
        assert (await came.press(what="pause", queue="orders"))[0] == 200
        assert (await orders.stats()).paused
        body = json.dumps({"once": "12345678", "what": "resume", "queue": "orders"}).encode()
        for heads in ({"Origin": "http://else.example"}, {"X_Snowmelt_Key": None}):
            assert (await came.ask("/do", "POST", body, **heads))[0] == 403
        assert (await orders.stats()).paused


# --- in a browser ---------------------------------------------------------------------------------

BUTTON = "[...document.querySelectorAll('main button')].find((one) => one.innerText === {!r})"


def clicks(text: str) -> str:
    """Clicks a button where there is one; the page is drawn anew all the time."""
    return f"((one) => one?.disabled === false && (one.click(), true))({BUTTON.format(text)})"


def click(browser: Browser, text: str) -> None:
    browser.until(clicks(text))


def click_twice(browser: Browser, text: str, again: str) -> None:
    """It is asked once more, for five seconds: a slow browser begins anew then."""
    browser.until(f"{clicks(again)} || ({clicks(text)}, false)")


def said(browser: Browser, text: str) -> None:
    browser.until(f"document.querySelector('#said')?.innerText.includes({text!r})")


@WITH_BROWSER
async def test_buttons_in_a_browser(tmp_path: Path, chromium: Chromium) -> None:
    def look(host: str, loop: asyncio.AbstractEventLoop, orders: Any, cluster: Any) -> None:
        def do(work: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(work, loop).result(30)

        with chromium.page() as browser:
            browser.open(f"http://{host}{path_of(host, 'shop')}")
            browser.until(LIVE)
            browser.run("location.hash = '#queue/orders'")
            click(browser, "Pause")
            said(browser, "Pause: done")
            assert do(orders.stats()).paused
            click(browser, "Resume")
            said(browser, "Resume: done")
            click(browser, "Bring back")  # the first letter's
            said(browser, "Bring back: 1 item")
            assert do(orders.stats()).ready == 1
            browser.until(f"{BUTTON.format('Bring back').replace('find', 'filter')}.length === 3")
            click_twice(browser, "Drop", "Press again")
            said(browser, "Drop: 1 item")
            assert do(orders.stats()).dead == 2
            click(browser, "Bring back 2 dead items")
            said(browser, "2 items")
            assert (do(orders.stats()).dead, do(orders.stats()).ready) == (0, 3)
            browser.until(f"!{BUTTON.format('Bring back')}")
            browser.until(f"!!{BUTTON.format('Pause')}")
            do(cluster.delete("orders"))  # behind the page's back
            click(browser, "Pause")
            said(browser, "orders")
            browser.until("document.querySelector('#said').className === 'bad'")
            assert [one for one in browser.complaints if "status of 409" not in one] == []

    async with shop(tmp_path) as (node, cluster):
        orders = await dead_in(cluster, "orders", 4)
        loop = asyncio.get_running_loop()
        host = str(node.server.http_at)
        await asyncio.to_thread(look, host, loop, orders, cluster)


@WITH_BROWSER
async def test_a_page_of_another_site_presses_nothing(tmp_path: Path, chromium: Chromium) -> None:
    """One on the same host at another port is the nearest that there is: the same site."""
    forged = """
    <!doctype html><title>forged</title><form id=f method=post enctype="text/plain"
    action="http://{host}/do">
    <input name='{{"once":"12345678","what":"pause","queue":"orders","x":"' value='"}}'></form>
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = page.encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body)
            + body
        )
        await writer.drain()
        writer.close()

    def look(host: str, other: str) -> None:
        ask = (
            f"fetch('http://{host}/do', {{method: 'POST', credentials: 'include', mode: MODE, "
            "headers: {'Content-Type': TYPE}, "
            "body: JSON.stringify({once: '12345678', what: 'pause', queue: 'orders'})})"
            ".then((one) => one.type + one.status, () => 'refused')"
        )
        with chromium.page() as browser:
            browser.open(f"http://{host}{path_of(host, 'ops')}")
            browser.until(LIVE)
            browser.open(f"http://{other}/")
            browser.until("document.title === 'forged'")
            for mode, kind in (("cors", "application/json"), ("no-cors", "text/plain")):
                script = ask.replace("MODE", repr(mode)).replace("TYPE", repr(kind))
                assert browser.run(script) in ("refused", "opaque0")
            read = f"fetch('http://{host}/me', {{credentials: 'include'}})"
            assert browser.run(f"{read}.then(() => 'read', () => 'refused')") == "refused"
            browser.run("document.getElementById('f').submit()")
            browser.until("document.body.innerText.includes('not for pages of other sites')")

    async with shop(tmp_path) as (node, cluster):
        orders = cluster.fifo("orders")
        await orders.create()
        host = str(node.server.http_at)
        page = forged.format(host=host)
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        other = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.to_thread(look, host, other)
        server.close()
        assert not (await orders.stats()).paused


@WITH_BROWSER
@pytest.mark.parametrize(
    ("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)]
)
async def test_buttons_fit(tmp_path: Path, chromium: Chromium, width: int, dark: bool) -> None:
    def look(host: str) -> None:
        with chromium.page() as browser:
            path = path_of(host, "ops")
            browser.open(f"http://{host}{path}", width, 900 if width > 600 else 844, dark=dark)
            browser.until(LIVE)
            browser.run("location.hash = '#queue/orders'")
            browser.until(f"!!{BUTTON.format('Bring back')}")
            browser.until("!!document.querySelector('.users')")
            browser.picture(tmp_path / "page.png")
            assert browser.run("document.documentElement.scrollWidth") == width
            cut = (
                "[...document.querySelectorAll('main button')].map((one) => "
                "one.getBoundingClientRect()).filter((it) => it.left < 0 || it.right > innerWidth)"
                ".length"
            )
            assert browser.run(cut) == 0
            assert browser.complaints == []

    async with shop(tmp_path) as (node, cluster):
        orders = await dead_in(cluster, "orders", 3)
        await orders.put_many([b"order %d of a customer in the north" % one for one in range(4)])
        await orders.alter(lease=600)
        held = await orders.get()
        await asyncio.to_thread(look, str(node.server.http_at))
        await held.release()
