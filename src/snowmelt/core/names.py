"""The names by which participants and their requests are known."""

import re
from functools import lru_cache
from typing import Annotated, Final, NewType

import msgspec

from snowmelt.core.ahead import Label, Port, Whole
from snowmelt.core.errors import BadOption

NodeId = NewType("NodeId", str)
NodeName = Annotated[NodeId, msgspec.Meta(max_length=320)]
"""As it comes in a message: a node's id, or where it listens (`contact`)."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ADDRESS: Final = re.compile(
    r"(?P<host>[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):(?P<port>[0-9]{1,5})"
)


class OperationId(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """Names one request for ever: who asks, and that asker's own count of requests.

    A retry carries the same id, so that a lost reply never makes a second operation.

    >>> OperationId(NodeId("c-1"), 7)
    OperationId(client='c-1', number=7)
    """

    client: NodeName
    number: Whole


def node_id(text: str) -> NodeId:
    """Checks a node's name before anything is called by it.

    >>> node_id("n1")
    'n1'
    """
    return NodeId(plain_name("node id", text, 64))


def plain_name(option: str, text: object, longest: int = 100) -> str:
    """Checks a name that a person gave to something: a queue, a pool, a baton, a group.

    >>> plain_name("queue", "orders.new")
    'orders.new'
    """
    if not isinstance(text, str) or not is_plain_name(text, longest):
        raise BadOption(option, text, plain_form(longest))
    return text


def is_plain_name(text: str, longest: int = 100) -> bool:
    """Whether it may be such a name."""
    return len(text) <= longest and _is_plain(text)


@lru_cache(1024)  # each call of a client names its queue, and they are few
def _is_plain(text: str) -> bool:
    return _PLAIN.fullmatch(text) is not None


def queue_name(text: str) -> str:
    """Checks a queue's name.

    >>> queue_name("orders/new")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: queue is 'orders/new'; allowed: 1 to 100 of A-Z a-z 0-9 . _ -...
    """
    return plain_name("queue", text)


def plain_form(longest: int = 100) -> str:
    """What such a name may be, in words."""
    return f"1 to {longest} of A-Z a-z 0-9 . _ -, the first a letter or a digit"


class Address(msgspec.Struct, frozen=True, order=True):
    """Where a node listens.

    >>> Address.parse("127.0.0.1:4410")
    Address(host='127.0.0.1', port=4410)
    >>> str(Address.parse("[::1]:4410"))
    '[::1]:4410'
    """

    host: Label
    port: Port

    @classmethod
    def parse(cls, text: str, option: str = "address") -> "Address":
        """Reads `host:port`; an IPv6 host stands in brackets."""
        found = _ADDRESS.fullmatch(text)
        if not found or int(found["port"]) > 65_535:
            raise BadOption(option, text, "host:port, such as 127.0.0.1:4410 or [::1]:4410")
        return cls(found["host"].strip("[]"), int(found["port"]))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def contact(address: Address) -> NodeId:
    """The name of whoever listens at an address, for a first word to a node not yet known.

    A colon never stands in a node's own id, so the two cannot be mistaken.

    >>> contact(Address("127.0.0.1", 4410))
    '127.0.0.1:4410'
    """
    return NodeId(str(address))


def address_of(name: NodeId) -> Address | None:
    """The address within a contact's name; None for a node's own id.

    >>> address_of(contact(Address("::1", 4410))), address_of(NodeId("n1"))
    (Address(host='::1', port=4410), None)
    """
    return Address.parse(name) if ":" in name else None
