"""What people may see: no secrets, and nothing that a terminal would obey.

1. The repr of a value with a secret names the field and hides what is in it.
2. A URL in an error hides what may be a password or a token.
3. Text from other programs reaches a terminal without control characters. JSON is JSON even so.
"""

import json
import re
from typing import Any, Final

import msgspec

HIDDEN: Final = "***"
_USER: Final = re.compile(r"//[^/?#]*@")
_SECRET: Final = re.compile(r"([?&][^=&]*(?:token|password|secret)[^=&]*=)[^&#]*", re.IGNORECASE)
_KEPT: Final = "\n\t"


def repr_without(value: msgspec.Struct, *secrets: str) -> str:
    """The repr of a struct by rule 1; a secret that is empty is shown, since it is none.

    >>> class Account(msgspec.Struct):
    ...     name: str
    ...     password: str
    ...
    ...     def __repr__(self):
    ...         return repr_without(self, "password")
    >>> Account("shop", "open sesame"), Account("shop", "")
    (Account(name='shop', password=***), Account(name='shop', password=''))
    """
    fields = [(name, getattr(value, name)) for name in value.__struct_fields__]
    said = [
        f"{name}={HIDDEN if name in secrets and field else repr(field)}" for name, field in fields
    ]
    return f"{type(value).__name__}({', '.join(said)})"


def without_secrets(url: str) -> str:
    """A URL as an error may repeat it, by rule 2.

    >>> without_secrets("snowmelt://me:mine@here:4410?token=mine&cluster=2ab5")
    'snowmelt://***@here:4410?token=***&cluster=2ab5'
    """
    return _SECRET.sub(rf"\1{HIDDEN}", _USER.sub(f"//{HIDDEN}@", url))


def printable(text: str) -> str:
    r"""Text as a terminal may have it, by rule 3; lines and tabs stay.

    >>> printable("too \x1b[31mhot\x1b[0m\n")
    'too \\x1b[31mhot\\x1b[0m\n'
    """
    if text.isprintable():
        return text
    return "".join([one if one.isprintable() or one in _KEPT else _escaped(one) for one in text])


def json_line(told: Any) -> str:
    r"""One line of JSON, by rule 3: as people read it, where that is safe.

    >>> print(json_line("caf\xe9"), json_line("caf\xe9 \x9b2J"))
    "café" "caf\u00e9 \u009b2J"
    """
    line = json.dumps(told, ensure_ascii=False, default=str)
    return line if line.isprintable() else json.dumps(told, default=str)


def age(seconds: float | None) -> str:
    """How long ago, as a person reads it.

    >>> age(None), age(0.0304), age(7.21), age(4000), age(800_000)
    ('-', '0.03 s', '7.2 s', '1 h 6 min', '9 d 6 h')
    """
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.{1 if seconds >= 1 else 2}f} s"
    minutes = int(seconds) // 60
    if minutes < 60:
        return f"{minutes} min {int(seconds) % 60} s"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _escaped(one: str) -> str:
    return one.encode("unicode_escape").decode()
