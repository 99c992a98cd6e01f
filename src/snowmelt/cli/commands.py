"""Commands: a parameter that is a struct is given by an option for each of its fields.

Their help is as wide as the terminal: typer keeps where the lines of a docstring end.
"""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

import msgspec
import typer


class Commands(typer.Typer):
    """A group of commands; `spread` holds for each."""

    def command(self, *words: Any, **options: Any) -> Callable[[Any], Any]:
        """Registers a command as typer does, its struct options spread."""
        register = super().command(*words, **options)
        return lambda command: register(spread(command))


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """The command, whose structs are given by an option for each field."""
    own = signature(command).parameters
    structs = {name: one.annotation for name, one in own.items() if _is_struct(one.annotation)}

    @wraps(command)
    def given(*words: Any, **options: Any) -> None:
        for name, kind in structs.items():
            options[name] = kind(**{each: options.pop(each) for each in kind.__struct_fields__})
        command(*words, **options)

    parameters: list[Parameter] = []
    for name, one in own.items():
        fields = msgspec.structs.fields(structs[name]) if name in structs else ()
        hints = get_type_hints(structs[name], include_extras=True) if fields else {}
        parameters += [
            one.replace(name=each.name, default=each.default, annotation=hints[each.name])
            for each in fields
        ] or [one]
    given.__annotations__ = {one.name: one.annotation for one in parameters}
    given.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    given.__doc__ = "\n\n".join(
        " ".join(one.split()) for one in (command.__doc__ or "").split("\n\n")
    )
    return given


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
