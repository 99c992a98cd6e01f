"""What the blocking and the async client have in common: names, numbers, outcomes."""

import secrets
from numbers import Real
from typing import Any, Final, TypeVar, assert_never

from snowmelt.core.errors import BadOption, OutcomeUnknown, SnowmeltError, Unreachable
from snowmelt.core.instant import Duration, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Requested
from snowmelt.core.outcome import Failed, Outcome, Succeeded, Unknown
from snowmelt.protocols.calling import Ask
from snowmelt.wire.greeting import CLIENT_PREFIX, as_error

T = TypeVar("T")

TIMEOUT: Final = 10.0
TIMEOUT_MAX: Final = 1_000_000
_NUMBERS: Final = frozenset({float, int})


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
    """What an earlier call told, handed in again; raises `BadOption` for anything else.

    >>> checked_kind("note", 3, str, "a text")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: note is 3; allowed: a text
    """
    if not isinstance(value, kind):
        raise BadOption(option, value, allowed)
    return value


class Session:
    """Numbers the calls of one client and turns outcomes into values and exceptions."""

    def __init__(self) -> None:
        self.name = new_name()
        self._calls = 0

    def request(
        self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0
    ) -> Requested[Any]:
        patience: Duration = seconds(max(0.001, timeout))
        return Requested(self.operation(), Ask(body, patience, target, weight))

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
            raise OutcomeUnknown(reason)
        case _:
            assert_never(outcome)
