"""Who greets in tests: clients with names that they can prove, from a few letters."""

import hashlib

from snowmelt.core.names import NodeId
from snowmelt.core.users import ANYBODY, User
from snowmelt.wire.greeting import CLIENT_PREFIX, KEY_BYTES, Role, Speaker, made_of


def key_of(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()[:KEY_BYTES]


def whole(name: str) -> NodeId:
    """The name of the client that a test calls by this one."""
    assert name.startswith(CLIENT_PREFIX)
    return NodeId(f"{made_of(key_of(name))}.{name.removeprefix(CLIENT_PREFIX)}")


def speaker(
    name: str = "c-stranger",
    role: Role = Role.CLIENT,
    token: str = "",
    user: str = "",
    cluster: str = "snowmelt",
) -> Speaker:
    client = role is Role.CLIENT
    return Speaker(
        cluster=cluster,
        name=whole(name) if client else NodeId(name),
        role=role,
        user=User(user, ()) if user else ANYBODY,
        secret=token,
        key=key_of(name) if client else b"",
    )
