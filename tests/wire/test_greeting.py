"""The first words: who gets in, who does not, and what errors look like on the other side."""

import inspect
import os
from threading import Event, Thread
from time import sleep

import pytest

from snowmelt.core import errors
from snowmelt.core.errors import AccessDenied, BadOption, HandshakeError, SnowmeltError
from snowmelt.core.users import Accounts
from snowmelt.wire.framing import GREETING_BYTES_MAX, FrameReader, Kind
from snowmelt.wire.greeting import (
    DIALS,
    NONCE_BYTES,
    Gate,
    Goodbye,
    Greeting,
    Hello,
    Role,
    Welcome,
    as_error,
    goodbye,
    heard,
    said,
)

GATE = Gate("snow", Accounts.of_token("secret"))
NONCE = bytes(NONCE_BYTES)
ERRORS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, SnowmeltError) and kind is not BadOption
]


@pytest.mark.parametrize(
    ("hello", "me", "why"),
    [
        (Hello("rain", "c-1", Role.CLIENT, NONCE), Role.NODE, "cluster 'snow', not 'rain'"),
        (Hello("x" * 9999, "c-1", Role.CLIENT, NONCE), Role.NODE, r"not 'x{61}\.\.\.'"),
        (Hello("snow", "n1", Role.CLIENT, NONCE), Role.NODE, "of clients begin with c-"),
        (Hello("snow", "c-1", Role.NODE, NONCE), Role.NODE, "of nodes never"),
        (Hello("snow", "n1", Role.PEER, NONCE), Role.PEER, "of clients begin with c-"),
        (Hello("snow", "c-1", Role.PEER, NONCE), Role.NODE, "calls it as a client"),
        (Hello("snow", "c-1", Role.CLIENT, NONCE), Role.PEER, "a client has no business here"),
        (Hello("snow", "n1", Role.NODE, NONCE), Role.PEER, "a node has no business here"),
    ],
)
def test_who_has_no_business_here_is_told_why(hello: Hello, me: Role, why: str) -> None:
    with pytest.raises(AccessDenied, match=why):
        GATE.check(hello, me)


@pytest.mark.parametrize("name", ["", "-n", "n" * 65, "n 1", "127.0.0.1:80", "n\n", "☃", "../n"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(BadOption, match="node id"):
        GATE.check(Hello("snow", name, Role.NODE, NONCE), Role.NODE)


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


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_no_process_forks_amid_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL's lock would be held in the child, by a thread that is not there."""
    inside, made = Event(), Event()

    def slow(*_args: object) -> bytes:
        inside.set()
        sleep(0.2)
        made.set()
        return b"digest"

    monkeypatch.setattr("snowmelt.wire.greeting.hmac.digest", slow)
    prover = Thread(target=Greeting(b"hello", b"welcome").digest, args=(DIALS, "secret"))
    prover.start()
    assert inside.wait(20)
    child = os.fork()
    if not child:
        os._exit(0 if made.is_set() else 1)
    prover.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
