"""A pool in a protected cluster; its processes reach each other by the machine's own address."""

import re
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import snowmelt
from client.pool_process import Other, pattern
from runtime.test_peer_tls import own_address
from runtime.test_tls import TOKEN, Papers
from snowmelt.cli.local import LocalNode, free_port
from snowmelt.core.errors import BadOption, SnowmeltError


class Protected:
    """A node that speaks TLS, and the URLs by which processes go to it."""

    def __init__(self, folder: Path) -> None:
        self._papers = Papers(folder)
        shown = self._papers.of("n1")
        secret = folder / "token"
        secret.write_text(TOKEN)
        options = ["--token-file", str(secret), "--tls-authority", str(shown.authority)]
        options += ["--tls-certificate", str(shown.certificate), "--tls-key", str(shown.key)]
        self.node = LocalNode("n1", free_port(), folder / "n1", [*options, "--heartbeat", "0.5"])
        self.node.found()
        self.reading = f"{self.node.url}?authority={self._papers.authority}"

    def writing(self, name: str) -> str:
        """With a certificate of its own."""
        shown = self._papers.of(name)
        return f"{self.reading}&certificate={shown.certificate}&key={shown.key}"


@pytest.fixture
def protected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Protected]:
    monkeypatch.setenv("SNOWMELT_TOKEN", TOKEN)
    made = Protected(tmp_path)
    made.node.start()
    try:
        _await_node(made)
        yield made
    finally:
        made.node.kill()


def _await_node(made: Protected) -> None:
    end = time.monotonic() + 30
    while True:
        made.node.check_alive()
        try:
            with snowmelt.connect(made.reading) as cluster:
                cluster.status(timeout=2)
        except SnowmeltError:
            assert time.monotonic() < end, made.node.last_words()
        else:
            return


def test_producers_and_consumers_of_a_protected_cluster_meet_over_tls(protected: Protected) -> None:
    host = own_address()
    listen = {"listen": f"{host}:0", "buffers": 100}
    everywhere = {"listen": "0.0.0.0:0", "advertise": f"{host}:0", "buffers": 100}
    with (
        Other(protected.writing("c-one"), "frames", **listen) as one,
        Other(protected.writing("c-two"), "frames", **everywhere) as two,
        Other(protected.reading, "frames") as away,
        snowmelt.connect(protected.reading) as cluster,
        cluster.pool("frames", access="uniform") as pool,
    ):
        count, size = 40, 300_000
        one.tell("put_sized", first=0, count=count, size=size)
        two.tell("put_sized", first=count, count=count, size=size)
        had = {away.tell("get").split()[0] for _ in range(10)}
        while len(had) < 2 * count:
            with pool.get(timeout=20) as got:
                number = bytes(got.body).split()[0].decode()
                assert got.body == pattern(int(number), size)
                assert number not in had
                had.add(number)
        assert had == {f"{number:011}" for number in range(2 * count)}
        sockets = [link.socket for link in pool._part.engine._links._links if link.name[:2] == "c-"]
        assert len(sockets) >= 2
        reached = [one for one in sockets if one.getpeername()[0] == host]
        assert len(reached) == 2
        assert all(isinstance(one, ssl.SSLSocket) for one in reached)
        for other in (one, two, away):
            other.tell("close")


def test_what_a_process_lacks_to_listen_is_named(protected: Protected) -> None:
    files = "an address on loopback, or give certificate=FILE in the URL and key=FILE in the URL"
    for url, token, listen, sentence in (
        (protected.reading, TOKEN, "10.0.0.5:0", f"listen is '10.0.0.5:0'; allowed: {files}"),
        (protected.reading, TOKEN, "0.0.0.0:0", f"listen is '0.0.0.0:0'; allowed: {files}"),
        (protected.writing("c-one"), TOKEN, "0.0.0.0:0", "advertise is None; allowed: host:port"),
        (protected.node.url, "", "10.0.0.5:0", "an address on loopback, or give a token"),
    ):
        with (
            snowmelt.connect(url, token=token) as cluster,
            pytest.raises(BadOption, match=re.escape(sentence)),
        ):
            cluster.pool("frames", listen=listen)
