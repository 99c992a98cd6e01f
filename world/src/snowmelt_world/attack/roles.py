"""Each message by each one to whom it does not belong. No honest thing may come of it.

Words of nodes are said by who has not greeted, by clients, by nodes of no view, and, where clients
have secrets of their own, by a client's under the name of a member. One that does not belong ends
its connection, so there are as many inputs as connections. Calls about honest names are said by
users who have no right to them: each must be declined.
"""

import socket
from collections.abc import Callable, Iterator
from itertools import count, cycle
from typing import Any, Final

from snowmelt.core.errors import SnowmeltError
from snowmelt.protocols.calling import Declined
from snowmelt.wire import codec
from snowmelt.wire.codec import MessageDecoder
from snowmelt.wire.framing import FrameReader, Kind
from snowmelt.wire.greeting import Role
from snowmelt_world.attack.extremes import structs, valid
from snowmelt_world.attack.forge import LEGITIMATE, Forge
from snowmelt_world.attack.setting import HONEST_PREFIX, AttackSetting, Identity, Target
from snowmelt_world.attack.speaking import bare, greeted, message_frame
from snowmelt_world.attack.tally import Tally

LISTEN_SECONDS: Final = 0.02
ANSWER_SECONDS: Final = 1.0
OUTSIDER: Final = "n9"
WRONG: Final = Identity("", "not-the-token-of-it")
QUEUE: Final = f"{HONEST_PREFIX}kept"
BATON: Final = f"{HONEST_PREFIX}baton"
NAMES: Final = {"queue": QUEUE, "pool": QUEUE, "name": BATON, "home": QUEUE}
"""What honest clients use: a message that is heeded though it must not be, hurts."""
KEPT_OUT: Final = ("AccessDenied", "Unavailable")
"""By which of these errors: another one says that the call was looked at."""

Dials = Callable[[Target], socket.socket]


def attack(setting: AttackSetting, number: int, tally: Tally, goes_on: Callable[[], bool]) -> None:
    """Says each message in each wrong role to each node, in turn, and again with drawn values."""
    forge = Forge.of_nodes(setting.seed * 1_000 + number)
    speakers, words, calls = _speakers(setting), _words(forge), cycle(_calls())
    tries = cycle([(name, target) for target in setting.targets for name in speakers])
    while goes_on():
        name, target = next(tries)
        try:
            with speakers[name](target) as stream:
                _say(stream, [next(words) for _ in range(4)], tally, name)
            if setting.knows_users:
                _ask(setting, target, [next(calls) for _ in range(8)], tally)
        except (OSError, SnowmeltError) as error:
            tally.add(f"{name} refused: {type(error).__name__}")


def _say(stream: socket.socket, words: list[Any], tally: Tally, name: str) -> None:
    stream.sendall(b"".join(words))
    tally.add("inputs", len(words))
    tally.add(name)
    stream.settimeout(LISTEN_SECONDS)
    try:
        tally.add("closed" if not stream.recv(4_096) else "answers")
    except TimeoutError:
        tally.add("silence")


def _ask(setting: AttackSetting, target: Target, calls: list[Any], tally: Tally) -> None:
    """Calls about honest names by a user who has no right to them."""
    who = setting.guest if tally.counts["calls without a right"] % 2 else setting.attacker
    with greeted(setting, target, "c-role-asks", Role.CLIENT, who) as stream:
        stream.settimeout(ANSWER_SECONDS)
        for number, call in enumerate(calls, 1):
            stream.sendall(message_frame(["call", number, call]))
        tally.add("inputs", len(calls))
        tally.add("calls without a right", len(calls))
        for number, body in _answers(stream, len(calls)):
            if type(body) is not Declined or body.error not in KEPT_OUT:
                tally.add(f"let in: {calls[number - 1][0]} by {who.user}")
            else:
                tally.add(f"declined: {body.error}")


def _answers(stream: socket.socket, many: int) -> Iterator[tuple[int, Any]]:
    reader, decode = FrameReader(), MessageDecoder.for_clients().decode
    while many:
        come = stream.recv(1 << 16)
        if not come:
            return
        for kind, payload in reader.feed(come):
            if kind is Kind.MESSAGE:
                answer = decode(payload)
                many -= 1
                yield answer.number, answer.body


def _speakers(setting: AttackSetting) -> dict[str, Dials]:
    """Who speaks, and for whom nothing of this is meant."""
    numbers = count(1)
    found: dict[str, Dials] = {
        "who has not greeted": bare,
        "a client": lambda at: greeted(setting, at, f"c-role-{next(numbers)}", Role.CLIENT),
        "a node of no view": lambda at: greeted(setting, at, OUTSIDER, Role.NODE, setting.node),
        "a node with a wrong token": lambda at: greeted(setting, at, OUTSIDER, Role.NODE, WRONG),
        "a client with a wrong token": lambda at: greeted(
            setting, at, f"c-role-{next(numbers)}", Role.CLIENT, WRONG
        ),
    }
    if setting.knows_users:
        found["a client under a member's name"] = lambda at: greeted(
            setting, at, _other(setting, at), Role.NODE, setting.attacker
        )
    return found


def _other(setting: AttackSetting, target: Target) -> str:
    """A member that this one is not."""
    return next((one.name for one in setting.targets if one != target), OUTSIDER)


def _words(forge: Forge) -> Iterator[bytes]:
    """All words of nodes by turns: valid ones that name honest things, and drawn ones."""
    some = [_named(one, *NAMES) for one in structs(codec.NODE_WORDS)]
    for one in cycle(some):
        yield message_frame(one)
        yield forge.frame(readable=True)


def _calls() -> list[Any]:
    """Each call that names something, about what is honest; and those for administrators."""
    kinds = structs(codec.Request)
    about = [(one, field.name) for one in kinds for field in one.fields if field.name in NAMES]
    return [_named(*one) for one in about] + [valid(one) for one in kinds if one.tag in LEGITIMATE]


def _named(kind: Any, *names: str) -> Any:
    """A message in which these fields name what is honest, and all others what attackers may."""
    plain = valid(kind)
    for at, one in enumerate(kind.fields, 1):
        if one.name in names:
            plain[at] = NAMES[one.name]
    return plain
