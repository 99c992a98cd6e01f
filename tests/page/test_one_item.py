"""One item on the page: found by its position, its life, and its buttons."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from page.browser import WITH_BROWSER, Chromium
from page.test_buttons import BUTTON, LIVE, click, click_twice, path_of, said, shop, visit
from page.test_buttons import _often as _often  # noqa: PLC0414  # the page looks often
from snowmelt.core.errors import LeaseLost


async def test_an_item_is_found_wherever_it_is_and_who_had_it_is_told_to_an_admin(
    tmp_path: Path,
) -> None:
    async with shop(tmp_path) as (node, cluster):
        orders = cluster.fifo("orders", lease=60)
        await orders.put_many([b"one", b"two"])
        await orders.put(b"later", delay=600)
        await orders.trace(0)  # with one copy, steps are kept from here on
        held = await orders.get()
        ops, mine = await visit(node, "ops"), await visit(node, "shop")
        told = json.loads((await ops.ask("/item?name=orders&position=0"))[2])
        assert told["standing"].startswith("leased to pytest"), told
        assert (told["row"]["body"], len(told["life"])) == ("one", 2)
        hidden = json.loads((await mine.ask("/item?name=orders&position=0"))[2])
        assert hidden["standing"].startswith("leased, for ")
        assert "pytest" not in json.dumps(hidden)
        later = json.loads((await mine.ask("/item?name=orders&position=2"))[2])
        assert later["standing"].startswith("delayed for 9 min")
        never = json.loads((await mine.ask("/item?name=orders&position=77"))[2])
        assert (never["standing"], never["row"], never["life"]) == ("never put", None, [])
        for wrong in ("position=x", "position=-1", "", "position=1.5", "position=0&priority=2"):
            assert (await mine.ask(f"/item?name=orders&{wrong}"))[0] == 400, wrong
        reader, looker = await visit(node, "reader"), await visit(node, None)
        await cluster.fifo("in.a").put(b"secret")
        for one in (
            await reader.ask("/item?name=in.a&position=0"),
            await looker.ask("/item?name=orders&position=0"),
        ):
            assert (one[0], "secret" in one[2]) == (400, False)
        await held.release()


async def test_what_is_in_whose_hands_is_shown_and_an_admin_is_told_whose(
    tmp_path: Path,
) -> None:
    async with shop(tmp_path) as (node, cluster):
        orders = cluster.fifo("orders", lease=60)
        await orders.put_many([b"one", b"two"])
        await orders.put(b"x" * 200_000)
        for delay in (600, 300):
            await orders.put(b"in %d" % delay, delay=delay)
        first, held = await orders.get(), await orders.get_many(2)
        ops, mine = await visit(node, "ops"), await visit(node, "shop")
        told = json.loads((await ops.ask("/queue?name=orders"))[2])
        assert [one["body"] for one in told["leased"]] == ["one", "two", ""]
        assert [one["position"] for one in told["leased"]] == [0, 1, 2]
        assert all(one["program"].startswith("pytest") for one in told["leased"])
        assert all(0 < one["left"] <= 60 for one in told["leased"])
        assert [one["body"] for one in told["delayed"]] == ["in 300", "in 600"]
        hidden = (await mine.ask("/queue?name=orders"))[2]
        assert len(json.loads(hidden)["leased"]) == 3
        assert "pytest" not in hidden
        reader = await visit(node, "reader")
        await cluster.fifo("in.a").put(b"secret")
        await cluster.fifo("in.a").get()
        unseen = json.loads((await reader.ask("/queue?name=in.a"))[2])
        assert (unseen["leased"], unseen["delayed"]) == (None, None)
        await first.release()
        await held.release()


async def test_a_move_takes_the_rights_on_both_queues_and_makes_no_queue(tmp_path: Path) -> None:
    async with shop(tmp_path) as (node, cluster):
        orders, ranked = cluster.fifo("orders"), cluster.priority("ranked")
        await orders.put_many([b"one", b"two", b"three", b"four"])
        mine, ops = await visit(node, "shop"), await visit(node, "ops")
        move: dict[str, Any] = {"what": "move", "queue": "orders", "position": 0}
        status, text = await mine.press(**move, to="ranked")
        assert (status, "needs the right put:ranked" in text) == (403, True)
        reader = await visit(node, "reader")
        await cluster.fifo("in.a").create()
        assert (await reader.press(**move, to="in.a"))[0] == 403
        for wrong in ("oders", ""):
            assert (await ops.press(**move, to=wrong))[0] in (400, 409), wrong
        assert "oders" not in await cluster.queues()
        assert (await orders.stats()).ready == 4
        await ranked.create()
        await cluster.fifo("parted", partitions=3).create()
        assert await ops.press(**move, to="ranked") == (200, '{"done":1}')
        assert await ops.press(**move | {"position": 1}, to="parted") == (200, '{"done":1}')
        assert (await ops.press(**move, to="ranked"))[0] == 400  # it is not there any more
        assert [one.body for one in await ranked.peek()] == [b"one"]
        assert (await cluster.fifo("parted").get()).body == b"two"
        assert [one.body for one in await orders.peek()] == [b"three", b"four"]
        back = {"what": "move", "queue": "ranked", "position": 0, "ranked": True, "to": "orders"}
        assert await ops.press(**back) == (200, '{"done":1}')
        assert [one.body for one in await orders.peek()] == [b"three", b"four", b"one"]


@WITH_BROWSER
async def test_one_item_in_a_browser(tmp_path: Path, chromium: Chromium) -> None:
    def look(host: str, loop: asyncio.AbstractEventLoop, held: Any, orders: Any) -> None:
        def do(work: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(work, loop).result(30)

        with chromium.page() as browser:
            browser.open(f"http://{host}{path_of(host, 'ops')}")
            browser.until(LIVE)
            browser.run("location.hash = '#queue/orders'")
            browser.until("!!document.querySelector('input[name=position]')")
            browser.run("document.querySelector('input[name=position]').focus()")
            browser.call("Input.insertText", text="0")
            seen = browser.run("performance.getEntriesByName('draw').length")
            browser.until(f"performance.getEntriesByName('draw').length > {seen} + 1")
            assert browser.run("document.activeElement.name + document.activeElement.value") == (
                "position0"
            ), "a drawing took the focus, or what was typed"
            click(browser, "Show item")
            browser.until("document.querySelector('.item')?.innerText.includes('leased to pytest')")
            browser.until("document.querySelector('.life')?.innerText.includes('leased to pytest')")
            click(browser, "Bring back this item")
            said(browser, "Bring back this item: 1 item")
            browser.until("document.querySelector('.life').innerText.includes('released by')")
            with pytest.raises(LeaseLost):
                do(held.ack())
            browser.run("document.querySelector('input[name=to]').focus()")
            browser.call("Input.insertText", text="other")
            click(browser, "Move it to other")
            said(browser, "Move it to other: 1 item")
            browser.until("document.querySelector('.item').innerText.includes('ended')")
            browser.until(f"!{BUTTON.format('Drop this item')}")
            browser.run("[...document.querySelectorAll('.row button.link')].at(-1).click()")
            click_twice(browser, "Drop this item", "Press again to drop it")
            said(browser, "Drop this item: 1 item")
            assert do(orders.stats()).ready == 1
            assert browser.complaints == []

    async with shop(tmp_path) as (node, cluster):
        orders, other = cluster.fifo("orders", lease=600), cluster.fifo("other")
        await orders.put_many([b"one", b"two", b"three"])
        await other.create()
        await orders.trace(0)  # with one copy, steps are kept from here on
        held = await orders.get()
        loop = asyncio.get_running_loop()
        await asyncio.to_thread(look, str(node.server.http_at), loop, held, orders)
        assert [one.body for one in await other.peek()] == [b"one"]


@WITH_BROWSER
@pytest.mark.parametrize(
    ("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)]
)
async def test_one_item_fits(tmp_path: Path, chromium: Chromium, width: int, dark: bool) -> None:
    def look(host: str) -> None:
        with chromium.page() as browser:
            path = path_of(host, "ops")
            browser.open(f"http://{host}{path}", width, 1100 if width > 600 else 1500, dark=dark)
            browser.until(LIVE)
            browser.run("location.hash = '#queue/orders'")
            browser.until("!!document.querySelector('.row button.link')")
            browser.run("document.querySelector('.row button.link').click()")
            browser.until("!!document.querySelector('.life')")
            browser.run("document.querySelector('input[name=to]').focus()")
            browser.call("Input.insertText", text="orders.doubtful")
            browser.run(
                "[...document.querySelectorAll('h2')].find((one) => one.innerText === 'One item')"
                ".scrollIntoView()"
            )
            browser.picture(tmp_path / "page.png")
            assert browser.run("document.documentElement.scrollWidth") == width
            cut = (
                "[...document.querySelectorAll('main button, main input')].map((one) => "
                "one.getBoundingClientRect()).filter((it) => it.left < 0 || it.right > innerWidth)"
                ".length"
            )
            assert browser.run(cut) == 0
            assert browser.complaints == []

    async with shop(tmp_path) as (node, cluster):
        orders = cluster.fifo("orders", max_deliveries=2)
        await orders.put_many([b"order %d of a customer in the north" % one for one in range(4)])
        for _ in range(2):
            await (await orders.get()).nack(reason="KeyError: 'street' (shop.py, line 12, in ship)")
        await asyncio.to_thread(look, str(node.server.http_at))
