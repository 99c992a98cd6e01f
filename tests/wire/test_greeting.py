"""The first words: who gets in, who does not, and what errors look like on the other side."""

import hmac
import inspect

import pytest

from snowmelt.core import errors
from snowmelt.core.errors import AccessDenied, BadOption, HandshakeError, SnowmeltError
from snowmelt.wire.framing import GREETING_BYTES_MAX, FrameReader, Kind
from snowmelt.wire.greeting import (
    Gate,
    Goodbye,
    Hello,
    Role,
    Welcome,
    as_error,
    goodbye,
    heard,
    said,
)

GATE = Gate("snow", "secret")
ERRORS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, SnowmeltError) and kind is not BadOption
]


def test_who_knows_cluster_and_token_is_let_in_under_the_name_said() -> None:
    assert GATE.check(Hello("snow", "c-1", Role.CLIENT, "secret")) == "c-1"
    assert GATE.check(Hello("snow", "n2", Role.NODE, "secret")) == "n2"


@pytest.mark.parametrize(
    ("hello", "why"),
    [
        (Hello("rain", "c-1", Role.CLIENT, "secret"), "cluster 'snow', not 'rain'"),
        (Hello("x" * 9999, "c-1", Role.CLIENT, "secret"), r"not 'x{61}\.\.\.'"),
        (Hello("snow", "c-1", Role.CLIENT), "token is missing or wrong"),
        (Hello("snow", "c-1", Role.CLIENT, "secre"), "token is missing or wrong"),
        (Hello("snow", "c-1", Role.CLIENT, "sécret ☃"), "token is missing or wrong"),
        (Hello("snow", "n1", Role.CLIENT, "secret"), "only clients' begin with c-"),
        (Hello("snow", "c-1", Role.NODE, "secret"), "only clients' begin with c-"),
    ],
)
def test_who_does_not_is_told_why(hello: Hello, why: str) -> None:
    with pytest.raises(AccessDenied, match=why):
        GATE.check(hello)


def test_a_token_where_none_is_wanted_is_refused_too() -> None:
    with pytest.raises(AccessDenied, match="no token is wanted here"):
        Gate("snow").check(Hello("snow", "c-1", Role.CLIENT, "secret"))


@pytest.mark.parametrize("name", ["", "-n", "n" * 65, "n 1", "127.0.0.1:80", "n\n", "☃", "../n"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(BadOption, match="node id"):
        GATE.check(Hello("snow", name, Role.NODE, "secret"))


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    monkeypatch.setattr(
        hmac, "compare_digest", lambda *both: compared.append(both) or both[0] == both[1]
    )
    GATE.check(Hello("snow", "c-1", Role.CLIENT, "secret"))
    assert compared == [(b"secret", b"secret")]


@pytest.mark.parametrize(
    "payload", [b"", b"\xc1", b"\x80", b"\x91" * 8000, said(Kind.HELLO, Goodbye("a", "b"))[8:]]
)
def test_a_greeting_that_does_not_read_is_a_handshake_error(payload: bytes) -> None:
    for kind in (Hello, Welcome):
        with pytest.raises(HandshakeError, match="does not read"):
            heard(payload, kind)


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_crosses_the_wire_as_itself(kind: type[SnowmeltError]) -> None:
    [(_, payload)] = FrameReader().feed(goodbye(kind("a sentence")))
    word = heard(payload, Goodbye)
    error = as_error(word.error, word.text)
    assert type(error) is kind
    assert str(error) == "a sentence"


def test_a_wrong_option_crosses_as_the_caller_s_fault_with_its_sentence() -> None:
    error = as_error("BadOption", "--x is 1; allowed: 2")
    assert isinstance(error, errors.CallerError)
    assert str(error) == "--x is 1; allowed: 2"


@pytest.mark.parametrize(
    "name", ["", "Exception", "ClassVar", "__name__", "os.system", "SystemExit"]
)
def test_an_error_nobody_knows_is_a_plain_one(name: str) -> None:
    assert type(as_error(name, "text")) is SnowmeltError


@pytest.mark.parametrize("text", ["x" * 100_000, "☃" * 100_000, "\U0010ffff" * 100_000])
def test_a_goodbye_fits_a_greeting_whatever_its_text(text: str) -> None:
    assert len(goodbye(BadOption("name", text, text))) <= GREETING_BYTES_MAX + 8
    assert len(goodbye(HandshakeError(text))) <= GREETING_BYTES_MAX + 8
