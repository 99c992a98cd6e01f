"""Each message by each one to whom it does not belong. No honest thing may come of it.

One that does not belong ends its connection, so there are as many inputs as connections.
"""

import socket
from collections.abc import Callable, Iterator
from itertools import count, cycle
from typing import Any, Final

from snowmelt.core.errors import SnowmeltError
from snowmelt.wire import codec
from snowmelt.wire.greeting import Role
from snowmelt_world.attack.extremes import structs, valid
from snowmelt_world.attack.forge import Forge
from snowmelt_world.attack.setting import HONEST_PREFIX, AttackSetting, Target
from snowmelt_world.attack.speaking import bare, greeted, message_frame
from snowmelt_world.attack.tally import Tally

LISTEN_SECONDS: Final = 0.02
OUTSIDER: Final = "n9"
NAMES: Final = {"queue": f"{HONEST_PREFIX}orders", "name": f"{HONEST_PREFIX}baton"}
"""What honest clients use: a message that is heeded though it must not be, hurts."""

Speaker = Callable[[Target], socket.socket]


def attack(setting: AttackSetting, number: int, tally: Tally, goes_on: Callable[[], bool]) -> None:
    """Says each message in each wrong role to each node, in turn, and again with drawn values."""
    forge = Forge.of_nodes(setting.seed * 1_000 + number)
    speakers = _speakers(setting)
    words = _words(forge)
    tries = cycle([(name, target) for target in setting.targets for name in speakers])
    while goes_on():
        name, target = next(tries)
        try:
            with speakers[name](target) as stream:
                _say(stream, [next(words) for _ in range(4)], tally, name)
        except (OSError, SnowmeltError) as error:
            tally.add(f"{name} refused: {type(error).__name__}")


def _say(stream: socket.socket, words: list[Any], tally: Tally, name: str) -> None:
    stream.sendall(b"".join(message_frame(one) for one in words))
    tally.add("inputs", len(words))
    tally.add(name)
    stream.settimeout(LISTEN_SECONDS)
    try:
        tally.add("closed" if not stream.recv(4_096) else "answers")
    except TimeoutError:
        tally.add("silence")


def _speakers(setting: AttackSetting) -> dict[str, Speaker]:
    """Who speaks, and for whom nothing of this is meant."""
    numbers = count(1)
    return {
        "who has not greeted": bare,
        "a client": lambda at: greeted(setting, at, f"c-role-{next(numbers)}", Role.CLIENT),
        "a node of no view": lambda at: greeted(setting, at, OUTSIDER, Role.NODE),
        "a node with a wrong token": lambda at: greeted(
            setting, at, OUTSIDER, Role.NODE, "not-the-token-of-it"
        ),
        "a client with a wrong token": lambda at: greeted(
            setting, at, f"c-role-{next(numbers)}", Role.CLIENT, "not-the-token-of-it"
        ),
    }


def _words(forge: Forge) -> Iterator[Any]:
    """All words of nodes by turns: valid ones that name honest things, and drawn ones."""
    some = [_named(one) for one in structs(codec.NODE_WORDS)]
    for one in cycle(some):
        yield one
        yield forge.message(readable=True)


def _named(kind: Any) -> Any:
    plain = valid(kind)
    for at, one in enumerate(kind.fields, 1):
        if one.name in NAMES:
            plain[at] = NAMES[one.name]
    return plain
