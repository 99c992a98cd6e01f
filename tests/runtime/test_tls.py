"""TLS and tokens: mutual between nodes, checked by name, and off only on loopback."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
import trustme

import snowmelt.aio
from greetings import speaker
from runtime.network import QUICK, Stranger, serving, until
from snowmelt.core.errors import AccessDenied, BadOption, SnowmeltError
from snowmelt.core.names import Address, NodeId
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.limits import Limits
from snowmelt.runtime.server import NodeConfig, Server
from snowmelt.wire.framing import FrameReader, Kind
from snowmelt.wire.greeting import Hello, Role, said
from snowmelt.wire.sides import Dialling

TOKEN = "the token"


class Papers:
    """Makes the files a process shows and trusts."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._authority = trustme.CA()
        self.authority = folder / f"{name}.pem"
        self._authority.cert_pem.write_to_path(self.authority)

    def of(self, name: str, token: str = TOKEN) -> Credentials:
        issued = self._authority.issue_cert(name)
        certificate, key = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        for at, blob in enumerate(issued.cert_chain_pems):
            blob.write_to_path(certificate, append=at > 0)
        issued.private_key_pem.write_to_path(key)
        return Credentials(token=token, authority=self.authority, certificate=certificate, key=key)


@pytest.fixture
def papers(tmp_path: Path) -> Iterator[Papers]:
    return Papers(tmp_path)


def url(address: Address, papers: Papers) -> str:
    return f"snowmelt://{address}?authority={papers.authority}"


async def refused(
    folder: Path, name: str, join: Address, credentials: Credentials
) -> SnowmeltError:
    server = Server(
        NodeConfig(
            id=NodeId(name),
            listen=Address("127.0.0.1", 0),
            data=folder / f"{name} refused",
            join=(join,),
            credentials=credentials,
            settings=QUICK,
        )
    )
    asyncio.get_running_loop().call_later(20, server.kill)
    with pytest.raises(SnowmeltError) as raised:
        await server.serve()
    return raised.value


async def test_three_nodes_meet_over_mutual_tls_and_serve_a_client_with_the_authority(
    tmp_path: Path, papers: Papers
) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(serving(tmp_path, credentials=papers.of("n1")))
        nodes = [first]
        for name in ("n2", "n3"):
            more = serving(tmp_path, name, credentials=papers.of(name), join=(first.address,))
            nodes.append(await stack.enter_async_context(more))
        for node in nodes:
            await until(lambda node=node: node.server.view and len(node.server.view.members) == 3)
        for node in nodes:
            async with snowmelt.aio.connect(url(node.address, papers), token=TOKEN) as cluster:
                assert await cluster.ping(bytes(3_000_000)) == bytes(3_000_000)
                assert (await cluster.status()).node == node.server.config.id


async def test_a_certificate_of_another_id_is_refused_on_both_sides(
    tmp_path: Path, papers: Papers
) -> None:
    async with serving(tmp_path, credentials=papers.of("n1")) as node:
        error = await refused(tmp_path, "n2", node.address, papers.of("n3"))
        assert isinstance(error, AccessDenied)
        assert str(error) == "the certificate is good for n3, not for n2"
        assert node.closed["AccessDenied"] >= 1  # a joiner that is not answered soon asks again
    async with serving(tmp_path, "n4", credentials=papers.of("n5")) as impostor:
        error = await refused(tmp_path, "n2", impostor.address, papers.of("n2"))
        assert str(error) == "the certificate is good for n5, not for n4"
        async with snowmelt.aio.connect(url(impostor.address, papers), token=TOKEN) as cluster:
            with pytest.raises(AccessDenied, match="good for n5, not for n4"):
                await cluster.ping(timeout=1)


async def test_a_node_without_a_certificate_is_refused_and_a_client_is_not(
    tmp_path: Path, papers: Papers
) -> None:
    context = ssl.create_default_context(cafile=papers.authority)
    context.check_hostname = False
    async with serving(tmp_path, credentials=papers.of("n1")) as node:
        async with await Stranger.dial(node.address, context) as stranger:
            stranger.send(said(Kind.HELLO, Hello("snowmelt", "n2", Role.NODE, bytes(16))))
            word = await stranger.goodbye()
            assert word.error == "AccessDenied"
            assert "the certificate is good for nobody, not for n2" in word.text
        async with await Stranger.dial(node.address, context) as stranger:
            await (await stranger.greet(token=TOKEN)).is_served()


async def test_a_certificate_of_another_authority_is_refused(
    tmp_path: Path, papers: Papers
) -> None:
    strangers = Papers(tmp_path, "strangers")
    async with serving(tmp_path, credentials=papers.of("n1")) as node:
        async with snowmelt.aio.connect(url(node.address, strangers), token=TOKEN) as cluster:
            with pytest.raises(snowmelt.Unreachable, match="certificate"):
                await cluster.ping(timeout=1)
            # Nothing is kept of the dials; one may be under way when the time is over.
            await until(lambda: not cluster._client._transport._dialled)
        async with snowmelt.aio.connect(url(node.address, papers), token=TOKEN) as cluster:
            await cluster.ping()


async def test_a_client_in_plain_text_gets_nowhere_and_others_are_served(
    tmp_path: Path, papers: Papers
) -> None:
    limits = Limits(greeting_seconds=0.5)
    async with serving(tmp_path, credentials=papers.of("n1"), limits=limits) as node:
        async with await Stranger.dial(node.address) as plain:
            plain.send(said(Kind.HELLO, Hello("snowmelt", "c-1", Role.CLIENT, bytes(16))))
            with pytest.raises((EOFError, OSError, SnowmeltError)):
                await plain.frame()
        async with await Stranger.dial(node.address) as silent:  # never begins the handshake
            with pytest.raises((EOFError, OSError)):
                await silent.frame()
        async with snowmelt.aio.connect(f"snowmelt://{node.address}", token=TOKEN) as cluster:
            with pytest.raises(snowmelt.SnowmeltError):
                await cluster.ping(timeout=0.5)
        async with snowmelt.aio.connect(url(node.address, papers), token=TOKEN) as cluster:
            await cluster.ping()
        assert node.server.statistics().connections_total == 1


async def test_tls_does_not_replace_the_token(tmp_path: Path, papers: Papers) -> None:
    async with serving(tmp_path, credentials=papers.of("n1")) as node:
        error = await refused(tmp_path, "n2", node.address, papers.of("n2", token="guess"))
        assert str(error) == "the token is missing or wrong: n1 has another"
        async with snowmelt.aio.connect(url(node.address, papers), token="guess") as cluster:
            with pytest.raises(AccessDenied, match="token is missing or wrong"):
                await cluster.ping(timeout=1)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "example.org"])
async def test_listening_in_the_open_without_protection_names_what_is_missing(
    tmp_path: Path, papers: Papers, host: str
) -> None:
    full = papers.of("n1")
    for given, missing in (
        (Credentials(), "--tls-authority, --tls-certificate, --tls-key, --token-file or --users"),
        (Credentials(token=TOKEN), "--tls-authority, --tls-certificate, --tls-key"),
        (papers.of("n1", token=""), "--token-file or --users"),
    ):
        with pytest.raises(BadOption, match=f"^--listen is .*{missing}$"):
            given.check_listen(Address(host, 4410))
    full.check_listen(Address(host, 4410))
    config = NodeConfig(id=NodeId("n1"), listen=Address(host, 0), data=tmp_path / "n1")
    with pytest.raises(BadOption, match="--listen"):
        await Server(config).start()
    assert not (tmp_path / "n1").exists()


def test_without_tls_a_token_is_needed_in_the_open_all_the_same(papers: Papers) -> None:
    open_, token = Address("0.0.0.0", 4410), Credentials(token=TOKEN, plain=True)
    token.check_listen(open_)
    token.check_http(open_, "another")
    for given in (Credentials(plain=True), Credentials()):
        given.check_listen(Address("127.0.0.1", 4410))
    with pytest.raises(BadOption, match=r"or give --token-file or --users$"):
        Credentials(plain=True).check_listen(open_)
    with pytest.raises(BadOption, match=r"or give --http-token-file$"):
        token.check_http(open_, "")
    both = msgspec.structs.replace(papers.of("n1"), plain=True)
    with pytest.raises(BadOption, match="--no-tls is 'given'; allowed: left out"):
        both.check_listen(open_)


@pytest.mark.parametrize("left_out", ["authority", "certificate", "key"])
async def test_half_of_tls_is_refused_on_loopback_too(
    tmp_path: Path, papers: Papers, left_out: str
) -> None:
    files = {name: getattr(papers.of("n1"), name) for name in ("authority", "certificate", "key")}
    del files[left_out]
    config = NodeConfig(
        id=NodeId("n1"),
        listen=Address("127.0.0.1", 0),
        data=tmp_path / "n1",
        credentials=Credentials(**files),
    )
    with pytest.raises(BadOption, match=f"--tls-{left_out} is None"):
        await Server(config).start()


async def test_files_of_tls_that_do_not_read_are_named(tmp_path: Path, papers: Papers) -> None:
    good, other = papers.of("n1"), papers.of("n2")
    nothing = tmp_path / "nothing.pem"
    garbage = tmp_path / "garbage.pem"
    garbage.write_bytes(b"garbage")
    for at, bad in enumerate(
        (
            Credentials(authority=nothing, certificate=good.certificate, key=good.key),
            Credentials(authority=garbage, certificate=good.certificate, key=good.key),
            Credentials(authority=good.authority, certificate=garbage, key=good.key),
            Credentials(authority=good.authority, certificate=good.certificate, key=other.key),
        )
    ):
        config = NodeConfig(
            id=NodeId("n1"),
            listen=Address("127.0.0.1", 0),
            data=tmp_path / f"n1-{at}",
            credentials=bad,
        )
        with pytest.raises(BadOption, match="TLS files is"):
            await Server(config).start()


async def test_a_certificate_and_its_authority_change_while_a_node_runs(
    tmp_path: Path, papers: Papers
) -> None:
    (tmp_path / "next").mkdir()
    after = Papers(tmp_path / "next")
    shown, coming = papers.of("n1"), after.of("n1")
    async with (
        serving(tmp_path, credentials=shown) as node,
        snowmelt.aio.connect(url(node.address, papers), token=TOKEN) as stays,
    ):
        await stays.ping()
        for file, by in (
            (shown.certificate, coming.certificate),
            (shown.key, coming.key),
            (shown.authority, coming.authority),
        ):
            assert file is not None
            assert by is not None
            file.write_bytes(by.read_bytes())
        server = node.server
        assert server._accounts is not None
        assert server._transport is not None
        server._accounts.read_again(server._transport)
        before = server.statistics().connections_total
        await stays.ping()
        assert server.statistics().connections_total == before, "it goes on by the old one"
        for _ in range(2):
            async with snowmelt.aio.connect(url(node.address, after), token=TOKEN) as comes:
                await comes.ping()
        async with await Stranger.dial(node.address, coming.client_context()) as other:
            await (await other.greet(token=TOKEN)).is_served()
        other_node = Server(
            NodeConfig(
                id=NodeId("n2"),
                listen=Address("127.0.0.1", 0),
                data=tmp_path / "n2",
                join=(node.address,),
                settings=QUICK,
                credentials=after.of("n2"),
            )
        )
        await other_node.start()
        try:
            await until(lambda: other_node.current)
        finally:
            await other_node.stop(depart=False)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_nobody_comes_as_a_node_by_what_its_authority_was_before(
    tmp_path: Path, papers: Papers, version: ssl.TLSVersion
) -> None:
    (tmp_path / "next").mkdir()
    after = Papers(tmp_path / "next")
    shown, coming, other = papers.of("n1"), after.of("n1"), papers.of("n2")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.maximum_version = False, version
    assert other.certificate is not None
    tls.load_cert_chain(other.certificate, other.key)
    for one in (papers, after):
        tls.load_verify_locations(one.authority)
    async with serving(tmp_path, credentials=shown) as node:
        welcome, session = await asyncio.to_thread(greeted_as_node, node.address, tls, None)
        assert welcome is Kind.WELCOME
        for file, by in zip(files_of(shown), files_of(coming), strict=True):
            file.write_bytes(by.read_bytes())
        server = node.server
        assert server._accounts is not None
        assert server._transport is not None
        server._accounts.read_again(server._transport)
        answer, _ = await asyncio.to_thread(greeted_as_node, node.address, tls, session)
        assert answer is not Kind.WELCOME


def files_of(shown: Credentials) -> list[Path]:
    found = [one for one in (shown.authority, shown.certificate, shown.key) if one is not None]
    assert len(found) == 3
    return found


def greeted_as_node(
    address: Address, tls: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[Kind | None, ssl.SSLSession | None]:
    """What is answered to the name n2; and how to go on from there."""
    stream = socket.create_connection((address.host, address.port), 10)
    try:
        with tls.wrap_socket(stream, session=session) as shaken:
            shaken.sendall(Dialling(speaker("n2", Role.NODE, token=TOKEN)).first)
            [(kind, _)] = FrameReader().feed(shaken.recv(1 << 16))
            return kind, shaken.session
    except (OSError, ValueError):
        return None, None


async def test_files_of_tls_that_do_not_read_leave_those_of_before(
    tmp_path: Path, papers: Papers
) -> None:
    shown = papers.of("n1")
    async with serving(tmp_path, credentials=shown) as node:
        assert shown.certificate is not None
        good = shown.certificate.read_bytes()
        shown.certificate.write_text("no certificate")
        server = node.server
        assert server._accounts is not None
        assert server._transport is not None
        with pytest.raises(BadOption):
            server._accounts.read_again(server._transport)
        shown.certificate.write_bytes(good)
        async with snowmelt.aio.connect(url(node.address, papers), token=TOKEN) as cluster:
            await cluster.ping()
