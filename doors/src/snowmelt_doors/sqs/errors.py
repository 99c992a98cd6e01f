"""Errors in SQS's words, in both of its forms.

A program of today reads `__type` of a JSON answer, an older one the `Code` of XML. Both codes are
in each answer: `x-amzn-query-error` tells the older one to whoever speaks JSON.
"""

from typing import Final

from snowmelt.core.errors import (
    AccessDenied,
    CallerError,
    Full,
    OutcomeUnknown,
    SnowmeltError,
    Unreachable,
)

_OLD: Final = "AWS.SimpleQueueService."
_OLD_CODES: Final = {
    "QueueDoesNotExist": f"{_OLD}NonExistentQueue",
    "QueueNameExists": "QueueAlreadyExists",
    "PurgeQueueInProgress": f"{_OLD}PurgeQueueInProgress",
    "QueueDeletedRecently": f"{_OLD}QueueDeletedRecently",
    "EmptyBatchRequest": f"{_OLD}EmptyBatchRequest",
    "InvalidBatchEntryId": f"{_OLD}InvalidBatchEntryId",
    "BatchRequestTooLong": f"{_OLD}BatchRequestTooLong",
    "BatchEntryIdsNotDistinct": f"{_OLD}BatchEntryIdsNotDistinct",
    "TooManyEntriesInBatchRequest": f"{_OLD}TooManyEntriesInBatchRequest",
    "MessageNotInflight": f"{_OLD}MessageNotInflight",
    "UnsupportedOperation": f"{_OLD}UnsupportedOperation",
}
"""Codes that the older protocol has under another name."""


class SqsError(Exception):
    """What a program is told in place of what it asked for.

    >>> SqsError("QueueDoesNotExist", "The specified queue does not exist.").old_code
    'AWS.SimpleQueueService.NonExistentQueue'
    """

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status

    @property
    def old_code(self) -> str:
        return _OLD_CODES.get(self.code, self.code)

    @property
    def fault(self) -> str:
        """Whose it is."""
        return "Receiver" if self.status >= 500 else "Sender"


def no_queue() -> SqsError:
    return SqsError("QueueDoesNotExist", "The specified queue does not exist.")


def bad_value(name: str, value: object, why: str) -> SqsError:
    shown = str(value)
    shown = shown if len(shown) <= 200 else f"{shown[:200]}..."
    text = f"Value {shown} for parameter {name} is invalid. Reason: {why}"
    return SqsError("InvalidParameterValue", text)


def bad_parameter(text: str) -> SqsError:
    return SqsError("InvalidParameterValue", text)


def missing(name: str) -> SqsError:
    return SqsError("MissingParameter", f"The request must contain the parameter {name}.")


def told(error: SnowmeltError) -> SqsError:
    """A failure of the cluster; SDKs ask again after those of the server.

    >>> told(Unreachable("nobody answers")).status, told(CallerError("7 bytes")).status
    (503, 400)
    """
    if isinstance(error, AccessDenied):
        return SqsError("AccessDenied", str(error), 403)
    if isinstance(error, Full):
        return SqsError("OverLimit", str(error), 403)
    if isinstance(error, CallerError):
        return bad_parameter(str(error))
    if isinstance(error, Unreachable | OutcomeUnknown):
        return SqsError("ServiceUnavailable", str(error), 503)
    return SqsError("InternalFailure", str(error), 500)
