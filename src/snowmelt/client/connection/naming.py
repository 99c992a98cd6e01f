"""The name of a client, by which nodes know it: it says which program it is, and where.

`c-`, 12 letters that no other has, the program, its process, its machine. So a person knows which
client a node names in its log, or as a consumer of a queue. The letters are made of a key that the
client keeps (`wire.greeting`, rule 4).
"""

import os
import re
import socket
import sys
from pathlib import PurePath
from typing import Final

import msgspec

from snowmelt.core.names import NodeId
from snowmelt.wire.greeting import made_of

_PROGRAM: Final = 20
_HOST: Final = 14
_STRANGE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MODULE: Final = "__main__.py"


class Program(msgspec.Struct, frozen=True):
    """Which program a client is."""

    name: str
    pid: int
    host: str


def client_name(key: bytes) -> NodeId:
    """The name of the client of this process that drew this key."""
    host = _plain(socket.gethostname().partition(".")[0], _HOST)
    return NodeId(f"{made_of(key)}.{_program(sys.argv)}.{os.getpid()}.{host}")


def _program(words: list[str]) -> str:
    """What a person calls it.

    >>> _program(["/usr/bin/load.py", "x"]), _program(["/lib/snowmelt/__main__.py", "worker"])
    ('load.py', 'snowmelt-worker')
    >>> _program(["-c"]), _program([])
    ('python', 'python')
    """
    path = PurePath(words[0]) if words else PurePath("-c")
    name = path.parent.name if path.name == _MODULE else path.name
    if name == "snowmelt" and len(words) > 1:
        name = f"snowmelt-{words[1]}"
    return "python" if name in ("", "-c") else _plain(name, _PROGRAM)


def _plain(word: str, most: int) -> str:
    return _STRANGE.sub("-", word)[:most] or "-"


def program_of(client: str) -> Program:
    """The program that a client's name stands for.

    >>> program_of("c-N0cI__dxndWX.load.py.8123.db1")
    Program(name='load.py', pid=8123, host='db1')
    >>> program_of("c-0123456789abcdef")  # of an earlier version
    Program(name='c-0123456789abcdef', pid=0, host='')
    """
    own, _, told = client.partition(".")
    name, pid, host = ("", *told.rsplit(".", 2))[-3:] if told.count(".") >= 2 else ("", "", "")
    if not pid.isdigit():
        return Program(own, 0, "")
    return Program(name, int(pid), host)
