"""A queue's attributes: which there are, what they may be, and what holds where none was given."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from snowmelt_doors.sqs.errors import SqsError, bad_parameter, bad_value, missing

ACCOUNT: Final = "123456789012"
"""There is one; it stands in URLs and names of queues, as programs want it."""
FIFO: Final = ".fifo"
POLICY_BYTES_MAX: Final = 64 << 10
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")
_WHOLE: Final = re.compile("[0-9]{1,12}")
_NUMBERS: Final = {
    "DelaySeconds": (0, 900, "0"),
    "MaximumMessageSize": (1024, 1 << 20, str(1 << 20)),
    "MessageRetentionPeriod": (1, 1_209_600, "345600"),
    "ReceiveMessageWaitTimeSeconds": (0, 20, "0"),
    "VisibilityTimeout": (0, 43_200, "30"),
    "KmsDataKeyReusePeriodSeconds": (60, 86_400, ""),
}
"""The least, the most, and what stands where nothing is said."""
_TEXTS: Final = ("Policy", "RedrivePolicy", "RedriveAllowPolicy", "KmsMasterKeyId")
_FLAGS: Final = ("SqsManagedSseEnabled", "FifoQueue", "ContentBasedDeduplication")
_CHOICES: Final = {
    "DeduplicationScope": ("queue", "messageGroup"),
    "FifoThroughputLimit": ("perQueue", "perMessageGroupId"),
}
_OF_FIFO: Final = ("ContentBasedDeduplication", *_CHOICES)
COUNTS: Final = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
_MADE: Final = ("QueueArn", "CreatedTimestamp", "LastModifiedTimestamp", *COUNTS)
_KNOWN: Final = frozenset((*_NUMBERS, *_TEXTS, *_FLAGS, *_CHOICES, *_MADE))


class PolicyText(msgspec.Struct, rename="pascal"):
    """What a policy must be, so that permissions can come and go in it."""

    statement: dict[str, Any] | list[dict[str, Any]] = []


class RedrivePolicy(msgspec.Struct, frozen=True):
    """Where what failed too often goes."""

    target: str
    """The name of a queue."""
    receives_max: int


class QueueRecord(msgspec.Struct, frozen=True):
    """What the registry has of a queue."""

    name: str
    created: int
    """Seconds since 1970."""
    modified: int
    attributes: dict[str, str] = {}
    """Only those that were given."""
    tags: dict[str, str] = {}
    deleted: float = 0.0
    """When its deletion began; 0 while it is there."""
    region: str = "us-east-1"
    purged: float = 0.0
    """When it was purged last."""
    uid: str = ""
    """Another for each that is made, also of one name."""
    fair: bool = False
    """Whether a standard queue has had messages with a group: then groups have fair turns."""

    @property
    def is_fifo(self) -> bool:
        return self.name.endswith(FIFO)

    @property
    def arn(self) -> str:
        return f"arn:aws:sqs:{self.region}:{ACCOUNT}:{self.name}"

    def number(self, name: str) -> int:
        """A numeric attribute, given or not."""
        return int(self.attributes.get(name) or _NUMBERS[name][2])

    def flag(self, name: str) -> bool:
        return self.attributes.get(name) == "true"

    @property
    def redrive(self) -> RedrivePolicy | None:
        said = self.attributes.get("RedrivePolicy")
        return redrive_in(said) if said else None

    def effective(self) -> dict[str, str]:
        """All attributes but the counts."""
        found = {name: default for name, (_, _, default) in _NUMBERS.items() if default}
        found["SqsManagedSseEnabled"] = "true"
        if self.is_fifo:
            found |= {"FifoQueue": "true", "ContentBasedDeduplication": "false"}
            found |= {name: choices[0] for name, choices in _CHOICES.items()}
        found |= self.attributes
        found["QueueArn"] = self.arn
        found["CreatedTimestamp"] = str(self.created)
        found["LastModifiedTimestamp"] = str(self.modified)
        return found


def engine_name(name: str) -> str:
    """The name of the queue of ours that a queue of SQS is.

    >>> engine_name("orders"), engine_name("_orders"), engine_name("orders.fifo")
    ('orders', 'sqs._orders', 'orders.fifo')
    """
    return name if name[0].isalnum() else f"sqs.{name}"


def checked_name(said: object, *, fifo: bool) -> str:
    """A queue's name, as it may be given to a new one."""
    text = said if isinstance(said, str) else ""
    plain = text.removesuffix(FIFO) if fifo else text
    if fifo and not text.endswith(FIFO):
        raise bad_parameter("The name of a FIFO queue can only include alphanumeric characters, "
                            "hyphens, or underscores, must end with .fifo suffix and be 1 to 80 in "
                            "length.")  # fmt: skip
    if _NAME.fullmatch(plain) is None or len(text) > 80:
        raise bad_parameter(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        )
    return text


def number_in(
    asked: Mapping[str, Any], name: str, least: int, most: int, default: int | None
) -> int:
    """A number that a program may say.

    >>> number_in({"MaxResults": "7"}, "MaxResults", 1, 10, 1)
    7
    """
    said = asked.get(name)
    if said is None and default is not None:
        return default
    if said is None:
        raise missing(name)
    try:
        number = int(said)
    except (TypeError, ValueError):
        raise bad_value(name, said, "Must be a number.") from None
    if not least <= number <= most:
        raise bad_value(name, said, f"Must be between {least} and {most}, if provided.")
    return number


def asked_names(said: object) -> list[str]:
    """Which attributes are asked for."""
    names = [str(one) for one in said] if isinstance(said, list) else []
    for one in names:
        if one != "All" and one not in _KNOWN:
            raise SqsError("InvalidAttributeName", f"Unknown Attribute {one}.")
    return names


def checked(said: Any, *, fifo: bool) -> dict[str, str]:
    """Attributes that a program gives; an empty text takes one away."""
    if not said:
        return {}
    if not isinstance(said, dict):
        raise bad_parameter("Attributes is no map")
    return {
        name.strip(): _checked(name.strip(), str(value), fifo=fifo) for name, value in said.items()
    }


def _checked(name: str, value: str, *, fifo: bool) -> str:
    if name not in _KNOWN or name in _MADE or (name in _OF_FIFO and not fifo):
        raise SqsError("InvalidAttributeName", f"Unknown Attribute {name}.")
    if name in _NUMBERS:
        least, most, _ = _NUMBERS[name]
        if _WHOLE.fullmatch(value) is None or not least <= int(value) <= most:
            raise _bad(name)
        return str(int(value))
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise _bad(name)
        return value
    if name in _FLAGS:
        low = value.lower()
        if name == "FifoQueue":  # SQS takes any other word for no
            low = "true" if low == "true" else "false"
            if (low == "true") != fifo:
                raise _bad(name)
        elif low not in ("true", "false"):
            raise _bad(name)
        return low
    if len(value.encode()) > POLICY_BYTES_MAX:
        raise _bad(name)
    if name == "RedrivePolicy":
        return written_redrive(value)
    if name in ("Policy", "RedriveAllowPolicy") and value:
        kind = PolicyText if name == "Policy" else dict[str, Any]
        try:
            msgspec.json.decode(value, type=kind)
        except (msgspec.DecodeError, RecursionError):
            raise _bad(name) from None
    return value


def _bad(name: str) -> SqsError:
    return SqsError("InvalidAttributeValue", f"Invalid value for the parameter {name}.")


def written_redrive(said: str) -> str:
    """A redrive policy, as it is kept: nothing for an empty one.

    >>> written_redrive('{"deadLetterTargetArn": "arn:aws:sqs:us-east-1:1:dead", '
    ...                 '"maxReceiveCount": "3"}')
    '{"deadLetterTargetArn": "arn:aws:sqs:us-east-1:1:dead", "maxReceiveCount": 3}'
    """
    if said.strip() in ("", "{}"):
        return ""
    one = redrive_in(said)
    told = msgspec.json.decode(said)
    arn = msgspec.json.encode(told["deadLetterTargetArn"]).decode()
    return f'{{"deadLetterTargetArn": {arn}, "maxReceiveCount": {one.receives_max}}}'


def redrive_in(said: str) -> RedrivePolicy:
    """Reads a redrive policy."""
    try:
        told = msgspec.json.decode(said, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        raise bad_value("RedrivePolicy", said, "Redrive policy is not a valid JSON map.") from None
    absent = [one for one in ("maxReceiveCount", "deadLetterTargetArn") if not told.get(one)]
    if absent:
        raise bad_value(
            "RedrivePolicy",
            said,
            f"Redrive policy does not contain mandatory attribute: {absent[0]}.",
        )
    count = str(told["maxReceiveCount"])
    if _WHOLE.fullmatch(count) is None or not 1 <= int(count) <= 1000:
        raise bad_value(
            "RedrivePolicy", said, "Invalid value for maxReceiveCount: 1 to 1000 are allowed."
        )
    return RedrivePolicy(name_in(str(told["deadLetterTargetArn"])), int(count))


def name_in(text: str) -> str:
    """The name of a queue in its URL, in its ARN, or by itself.

    >>> name_in("http://here:9324/123456789012/jobs"), name_in("arn:aws:sqs:us-east-1:1:jobs")
    ('jobs', 'jobs')
    """
    return text.rstrip("/").rpartition("/")[2].rpartition(":")[2]
