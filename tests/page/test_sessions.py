"""Where a token guards the page: a link that is good once, a cookie, and who has neither."""

import asyncio
import re
import ssl
from pathlib import Path
from typing import Any

import pytest

from cli.program import snowmelt as program
from page.browser import WITH_BROWSER, Chromium
from runtime.network import Serving, serving
from runtime.test_http import HERE, asked
from runtime.test_tls import Papers
from snowmelt.core.names import Address
from snowmelt.page import PageSite, sessions
from snowmelt.page.sessions import LINK_SECONDS, SESSION_SECONDS, Sessions, code_for

PATHS = ("/", "/page.js", "/events", "/queue?name=orders")


async def answer(node: Serving, path: str, *heads: str, tls: Any = None) -> tuple[int, str, str]:
    """The status, the head and the body."""
    at = node.server.http_at
    assert at is not None
    name = "n1" if tls else None
    reader, writer = await asyncio.open_connection(at.host, at.port, ssl=tls, server_hostname=name)
    writer.write("\r\n".join((f"GET {path} HTTP/1.1", *heads, "", "")).encode())
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)).decode()
    body = b"" if "event-stream" in head else await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return int(head.split()[1]), head, body.decode()


def link_to(host: str, folder: Path, token: str = "secret") -> str:
    """What the command prints, without scheme and host."""
    file = folder / "token"
    file.write_text(token)
    ended = program("page", host, "--http-token-file", str(file))
    assert ended.returncode == 0, ended.stderr
    scheme, _, rest = ended.stdout.strip().partition("://")
    assert scheme in ("http", "https")
    return rest.removeprefix(host)


async def test_a_link_lets_a_browser_in_once(tmp_path: Path) -> None:
    async with serving(tmp_path, http=HERE, http_token="secret", site=PageSite) as node:
        host = str(node.server.http_at)
        for path in PATHS:
            status, _, body = await answer(node, path, f"Host: {host}")
            assert (status, "snowmelt page" in body) == (401, True)
            bearer = "Authorization: Bearer secret"
            assert (await answer(node, path, f"Host: {host}", bearer))[0] == 200
        path = await asyncio.to_thread(link_to, host, tmp_path)
        assert (await asked(node.server, path, method="HEAD"))[0] == 403  # which uses nothing up
        status, head, _ = await answer(node, path, f"Host: {host}")
        assert status == 200
        given = re.search(r"Set-Cookie: (\S+=\S+); (.*)\r\n", head)
        assert given is not None
        for word in ("HttpOnly", "SameSite=Strict", f"Max-Age={SESSION_SECONDS}"):
            assert word in given[2]
        cookie = f"Cookie: else=1; {given[1]}"
        for path_ in PATHS:
            assert (await answer(node, path_, f"Host: {host}", cookie))[0] == 200
            cross = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors")
            assert (await answer(node, path_, f"Host: {host}", cookie, *cross))[0] == 403
        assert (await answer(node, "/", f"Host: {host}", cookie + "x"))[0] == 401
        assert (await answer(node, path, f"Host: {host}"))[0] == 403  # it was used
        other = await asyncio.to_thread(link_to, host, tmp_path, "guess")
        assert (await answer(node, other, f"Host: {host}"))[0] == 403


async def test_off_loopback_it_is_over_tls(tmp_path: Path) -> None:
    papers, everywhere = Papers(tmp_path), Address("0.0.0.0", 0)
    good = {"credentials": papers.of("n1"), "http": everywhere, "http_token": "secret"}
    async with serving(tmp_path, **good, site=PageSite) as node:
        assert node.server.http_at is not None
        host = f"n1.example:{node.server.http_at.port}"
        tls = ssl.create_default_context(cafile=papers.authority)
        path = await asyncio.to_thread(link_to, host, tmp_path)
        elsewhere = await answer(node, path, "Host: n2.example:9410", tls=tls)
        assert elsewhere[0] == 403
        status, head, _ = await answer(node, path, f"Host: {host}", tls=tls)
        assert (status, "; Secure" in head) == (200, True)
        cookie = re.search(r"Set-Cookie: (\S+=\S+);", head)
        assert cookie is not None
        shown = f"Cookie: {cookie[1]}"
        same = f"Origin: https://{host}"
        assert (await answer(node, "/", f"Host: {host}", shown, same, tls=tls))[0] == 200
        plain = f"Origin: http://{host}"
        assert (await answer(node, "/", f"Host: {host}", shown, plain, tls=tls))[0] == 403
        renamed = await answer(node, "/", "Host: evil.example:9410", shown, tls=tls)
        assert renamed[0] == 401
        assert (await answer(node, "/", f"Host: {host}", tls=tls))[0] == 401


@WITH_BROWSER
async def test_a_browser_comes_in_by_a_link(tmp_path: Path, chromium: Chromium) -> None:
    def look(host: str) -> None:
        path = link_to(host, tmp_path)
        with chromium.page() as browser:
            browser.open(f"http://{host}{path}")
            browser.until("document.querySelector('#live')?.className === 'good'")
            assert browser.run("location.pathname") == "/"
            assert browser.run("document.cookie") == ""
            assert browser.complaints == []

    async with serving(tmp_path, http=HERE, http_token="secret", site=PageSite) as node:
        await asyncio.to_thread(look, str(node.server.http_at))


def test_a_link_is_of_its_time() -> None:
    now = [1_000.0]
    some = Sessions("secret", lambda: now[0])
    now[0] = 1_500.0

    def good(made: float) -> bool:
        return bool(some.enter(code_for("n1:1", "secret", made), "n1:1"))

    assert [good(one) for one in (1_500, 1_500 - LINK_SECONDS, 1_500 + LINK_SECONDS)] == [True] * 3
    assert not good(1_499 - LINK_SECONDS)
    assert not good(1_501 + LINK_SECONDS)
    young = Sessions("secret", lambda: now[0])  # a node that has just begun knows of no other
    assert not young.enter(code_for("n1:1", "secret", 1_499), "n1:1")


def test_sessions_end_and_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 3)
    now = [1_000.0]
    some = Sessions("secret", lambda: now[0])
    cookies = [some.enter(code_for("n1:1", "secret", now[0]), "n1:1") for _ in range(4)]
    assert [some.find(one, "n1:1") is not None for one in cookies] == [False, True, True, True]
    now[0] += SESSION_SECONDS
    assert not any(some.find(one, "n1:1") for one in cookies)
    for nonsense in ("", "..", "1.2.3", "x" * 10_000, "\udcff.1.2"):
        assert some.enter(nonsense, "n1:1") == ""
