"""What the blocking and the async client have in common: names, numbers, outcomes."""

import secrets
from numbers import Real
from typing import Any, Final, TypeVar, assert_never, get_type_hints

import msgspec
from msgspec.structs import replace

from snowmelt.client.connection.naming import client_name
from snowmelt.core.errors import (
    AccessDenied,
    BadOption,
    CallerError,
    MessageError,
    OutcomeUnknown,
    SnowmeltError,
    Unreachable,
    in_short,
)
from snowmelt.core.instant import Duration, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Requested
from snowmelt.core.outcome import Failed, Outcome, Succeeded, Unknown
from snowmelt.protocols.calling import Ask, Call
from snowmelt.wire.codec import MessageDecoder, encode
from snowmelt.wire.greeting import CLIENT_PREFIX, as_error, new_key

T = TypeVar("T")

TIMEOUT: Final = 10.0
TIMEOUT_MAX: Final = 1_000_000
_NUMBERS: Final = frozenset({float, int})
_LARGE: Final = 64 << 10


def new_name() -> NodeId:
    """A name no other client has."""
    return NodeId(CLIENT_PREFIX + secrets.token_hex(8))


def checked(timeout: float) -> float:
    """A time-out that clocks and timers can count; raises `BadOption`.

    >>> checked(float("nan"))
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: timeout is nan; allowed: seconds, at most 1000000
    >>> checked("5")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: timeout is '5'; allowed: seconds, at most 1000000
    """
    number: Any = timeout
    usual = type(number) in _NUMBERS  # asking `Real` costs microseconds
    if not (usual or isinstance(number, Real)) or not number <= TIMEOUT_MAX:
        raise BadOption("timeout", number, f"seconds, at most {TIMEOUT_MAX}")
    return timeout if usual else float(number)


def checked_kind(option: str, value: Any, kind: type[T], allowed: str) -> T:
    """What an earlier call returned, handed in again; raises `BadOption` for anything else.

    >>> checked_kind("note", 3, str, "a text")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: note is 3; allowed: a text
    """
    if not isinstance(value, kind):
        raise BadOption(option, value, allowed)
    return value


def read_by_node(body: Any) -> Any:
    """What a node would read of a call; raises `CallerError` of a field that it would refuse.

    It would answer by ending the connection, with all that others ask on it. Any bytes are read as
    they are: large ones stay aside, and are not copied.
    """
    blob = getattr(body, "blob", b"")
    aside = type(blob) is bytes and len(blob) > _LARGE
    fields = replace(body, blob=b"") if aside else body
    try:
        read = MessageDecoder.for_callers().decode(encode(Call(0, fields))).body
    except (MessageError, TypeError, ValueError, OverflowError) as error:
        name = type(body).__name__
        raise CallerError(f"{name} can't be asked so: {_why(body, error)}") from error
    return replace(read, blob=blob) if aside else read


def _why(body: Any, error: Exception) -> str:
    """Which field it is that a node would not read, and what it has to be."""
    for name, kind in get_type_hints(type(body), include_extras=True).items():
        value = getattr(body, name)
        try:
            msgspec.msgpack.decode(encode(value), type=kind)
        except (TypeError, ValueError, OverflowError) as told:
            return f"{name} is {in_short(value)}: {told}"
    return str(error)


class Session:
    """Numbers the calls of one client and turns outcomes into values and exceptions."""

    def __init__(self) -> None:
        self.key = new_key()
        self.name = client_name(self.key)
        self._calls = 0

    def request(
        self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0
    ) -> Requested[Any]:
        patience: Duration = seconds(max(0.001, timeout))
        return Requested(self.operation(), Ask(read_by_node(body), patience, target, weight))

    def operation(self) -> OperationId:
        self._calls += 1
        return OperationId(self.name, self._calls)


def value(outcome: Outcome[Any], reached: bool, failure: Exception | None) -> Any:
    """What the call gave; raises what it failed with.

    A call that never reached anybody is definite, whatever the machine must think of it.
    """
    match outcome:
        case Succeeded(answer):
            return answer
        case Failed(reason):
            name, _, text = reason.partition(": ")
            raise as_error(name, text)
        case Unknown(reason):
            if isinstance(failure, SnowmeltError) and not reached:
                raise failure
            if not reached:
                why = f": {failure}" if failure else ""
                raise Unreachable(f"no node could be reached in the time given{why}")
            why = f"; since then: {failure}" if isinstance(failure, AccessDenied) else ""
            raise OutcomeUnknown(f"{reason}{why}")
        case _:
            assert_never(outcome)
