"""Secrets are not in what is printed, and no text from elsewhere moves a terminal's cursor."""

import os
import stat
from pathlib import Path

import pytest

import snowmelt
from snowmelt.cli.node import read_secret
from snowmelt.core.errors import BadOption
from snowmelt.core.names import Address, node_id
from snowmelt.core.shown import printable
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.etcd.place import EtcdPlace
from snowmelt.runtime.server import NodeConfig
from snowmelt.store.folder import private
from snowmelt.wire.greeting import Role, Speaker

SECRET = "open-sesame"
HERE = Address("127.0.0.1", 4410)


@pytest.mark.parametrize(
    "value",
    [
        Credentials(token=SECRET),
        EtcdPlace(endpoints=(HERE,), prefix="/orders/", user="me", password=SECRET),
        Speaker(cluster="snowmelt", name=node_id("n1"), role=Role.NODE, secret=SECRET),
        NodeConfig(
            id=node_id("n1"),
            listen=HERE,
            data=Path("n1"),
            credentials=Credentials(token=SECRET),
            http_token=SECRET,
        ),
    ],
    ids=lambda one: type(one).__name__,
)
def test_the_repr_of_what_holds_a_secret_hides_it(value: object) -> None:
    assert SECRET not in f"{value!r} {value}"
    assert "***" in repr(value)


@pytest.mark.parametrize(
    "url",
    [
        f"snowmelt://{SECRET}@127.0.0.1:4410",
        f"snowmelt://me:{SECRET}@127.0.0.1:4410",
        f"https://127.0.0.1:4410?token={SECRET}",
        f"snowmelt://127.0.0.1:4410?authority=&my_password={SECRET}",
    ],
)
def test_an_error_about_a_url_hides_what_may_be_a_secret_in_it(url: str) -> None:
    with pytest.raises(BadOption) as raised:
        snowmelt.connect(url)
    assert SECRET not in str(raised.value)


def test_an_error_about_etcd_hides_the_password_in_its_url() -> None:
    with pytest.raises(BadOption, match=r"\*\*\*") as raised:
        EtcdPlace.read(f"etcd://me:{SECRET}@127.0.0.1:2379/orders")
    assert SECRET not in str(raised.value)


def test_no_control_character_is_left() -> None:
    everything = "".join(map(chr, range(0x3000)))
    assert all(one.isprintable() or one in "\n\t" for one in printable(everything))
    assert printable("Größe 7\n\t…") == "Größe 7\n\t…"


def test_a_token_that_others_can_read_is_mentioned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    file.write_text(SECRET)
    for mode, words in ((0o644, f"others can read {file}"), (0o600, "")):
        file.chmod(mode)
        assert read_secret("--token-file", "a token", file) == SECRET
        heard = capsys.readouterr().err
        assert words in heard
        assert bool(words) == bool(heard)
        assert SECRET not in heard


def test_a_log_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        for words in (b"one ", b"two"):
            with private(tmp_path / "log") as file:
                file.write(words)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600
    assert (tmp_path / "log").read_bytes() == b"one two"
