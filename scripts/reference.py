"""Pages that are made of the code: the API, commands, errors, rights, and the roles of nodes.

`scripts/site.py` puts them into the site, so they are never out of date. `python
scripts/reference.py api` prints one.
"""

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import typer.main

import snowmelt
from snowmelt.cli.main import COMMANDS
from snowmelt.cli.main import program as commands_of
from snowmelt.core import errors
from snowmelt.core.users import Right
from snowmelt.wire.rights import RULES
from snowmelt.wire.roles import LINES, NodeRole

MODULES: Final = ("snowmelt", "snowmelt.spark")
WIDTH_MAX: Final = 88


def api() -> str:
    """All public names, with their docstrings."""
    text = [
        "# API",
        "",
        f"All names of `snowmelt` {snowmelt.__version__}, as its docstrings have them.",
        "`snowmelt.aio` has the same classes, whose calls are awaited",
        "([asyncio](../how-to/asyncio.md)). Errors have [a page of their own](errors.md).",
        "",
    ]
    for name in MODULES:
        text += [f"## {name}", ""]
        for one in _members(import_module(name)):
            text += _described(one)
    return "\n".join(text)


def _members(module: ModuleType) -> Iterator[Any]:
    """Functions first, then classes; no errors."""
    every = [getattr(module, name) for name in module.__all__ if not name.startswith("__")]
    yield from (one for one in every if inspect.isfunction(one))
    yield from (one for one in every if inspect.isclass(one) and not issubclass(one, BaseException))


def _described(what: Any) -> Iterator[str]:
    yield f"### {what.__name__}"
    yield ""
    if inspect.isfunction(what):
        yield from _signature(what.__name__, what)
        yield from _prose(what)
        return
    yield from _prose(what)
    for name in _public(what):
        found = inspect.getattr_static(what, name)
        yield f"#### {what.__name__}.{name}"
        yield ""
        if isinstance(found, property):
            yield from _prose(found.fget)
        else:
            call = found.__func__ if isinstance(found, staticmethod | classmethod) else found
            yield from _signature(name, call)
            yield from _prose(call)


def _public(kind: type) -> list[str]:
    """What it has itself or of its bases, if it is of ours; in the order of its text."""
    found: dict[str, None] = {}
    for each in kind.__mro__:
        if not each.__module__.startswith("snowmelt"):
            continue
        for name, one in vars(each).items():
            call = one.__func__ if isinstance(one, staticmethod | classmethod) else one
            if not name.startswith("_") and (inspect.isfunction(call) or isinstance(one, property)):
                found.setdefault(name)
    return list(found)


def _signature(name: str, call: Callable[..., Any]) -> Iterator[str]:
    """As a call is written; over several lines where it is long."""
    known = [one for each, one in inspect.signature(call).parameters.items() if each != "self"]
    told = inspect.signature(call).return_annotation
    back = "" if told is inspect.Signature.empty else f" -> {_kind(told)}"
    words, apart = [], False
    for one in known:
        if one.kind is one.KEYWORD_ONLY and not apart:
            words.append("*")
        apart = apart or one.kind in {one.KEYWORD_ONLY, one.VAR_POSITIONAL}
        words.append(_parameter(one))
    line = f"{name}({', '.join(words)}){back}"
    if len(line) > WIDTH_MAX:
        line = f"{name}(\n    " + ",\n    ".join(words) + f",\n){back}"
    yield from ("```python", line, "```", "")


def _parameter(one: inspect.Parameter) -> str:
    stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    kind = "" if one.annotation is one.empty else f": {_kind(one.annotation)}"
    default = "" if one.default is one.empty else f" = {_value(one.default)}"
    return f"{stars}{one.name}{kind}{default}"


def _kind(annotation: Any) -> str:
    """A type by its short name.

    >>> _kind("collections.abc.Iterable[snowmelt.core.batch.Batch]")
    'Iterable[Batch]'
    """
    plain = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b[a-z_]\w*(?:\.\w+)*\.(?=\w)", "", plain)


def _value(default: Any) -> str:
    shown = repr(default)
    return shown if "<" not in shown else "..."


def _prose(what: Any) -> Iterator[str]:
    """Its docstring, in which examples are blocks."""
    code: list[str] = []
    for line in (inspect.getdoc(what) or "").splitlines():
        if line.startswith(">>>") or (code and line.strip()):
            code.append(line)
            continue
        if code:
            yield from ("```pycon", *code, "```", "")
            code = []
        yield line
    if code:
        yield from ("```pycon", *code, "```")
    yield ""


def errors_page() -> str:
    """All errors, by blame, as `core/errors.py` has them."""
    text = [
        "# Errors",
        "",
        "Those that a program catches are in `snowmelt`. An error is *definite* when what was",
        "asked did not happen and never will. After one that is not, it may have happened: look,",
        "or ask again under the same `sequence`.",
        "[Messages, and what to do](messages.md) goes by the text of the message.",
        "",
        "| error | exit code | definite | when |",
        "|---|---|---|---|",
    ]
    for one, depth in _errors(errors.SnowmeltError, 0):
        said = " ".join((inspect.getdoc(one) or "").partition(">>>")[0].split())
        name = "- " * depth + f"`{one.__name__}`"
        sure = "yes" if one.definite else "no"
        text.append(f"| {name} | {one.exit_code} | {sure} | {said} |")
    text += ["", "An error whose row is indented is one of the row above: `except` takes both.", ""]
    return "\n".join(text)


def _errors(kind: Any, depth: int) -> Iterator[tuple[Any, int]]:
    yield kind, depth
    for one in kind.__subclasses__():
        if one.__module__ == errors.__name__:
            yield from _errors(one, depth + 1)


def commands() -> str:
    """All commands, as `--help` has them."""
    text = [
        "# Commands",
        "",
        "What `snowmelt --help` and `snowmelt COMMAND --help` say.",
        "[Exit codes](exit-codes.md) are the same for all commands. `sim`, `check`, `chaos`",
        "and `attack` come with `snowmelt-world`, `lab` and `advise` with `snowmelt-lab`",
        "(see their `--help`).",
        "",
    ]
    for panel, names in COMMANDS.items():
        text += [f"## {panel}", ""]
        for name in names:
            whole = typer.main.get_command(commands_of([name]))
            context = typer.Context(whole, info_name="snowmelt")
            found = whole.get_command(context, name)  # type: ignore[attr-defined]
            text += _command(found, name, context)
    return "\n".join(text)


def _command(command: Any, name: str, above: typer.Context) -> Iterator[str]:
    context = typer.Context(command, info_name=name, parent=above)
    path = context.command_path
    yield f"### {path}"
    yield ""
    yield from (*textwrap.dedent(command.help or "").replace("\b", "").strip().splitlines(), "")
    if hasattr(command, "commands"):
        for each, one in command.commands.items():
            yield from _command(one, each, context)
        return
    given = [one for one in command.params if one.param_type_name == "argument"]
    words = [
        f"[{one.human_readable_name}]" if not one.required else one.human_readable_name
        for one in given
    ]
    yield from ("```", " ".join([path, "[OPTIONS]", *words]), "```", "")
    options = [one for one in command.params if not getattr(one, "hidden", False)]
    if options:
        yield "| | | default |"
        yield "|---|---|---|"
    for one in options:
        said = (getattr(one, "help", "") or "").replace("|", "\\|")
        yield f"| {_option(one, context)} | {said} | {_default(one, context)} |"
    yield ""


def _option(one: Any, context: typer.Context) -> str:
    if one.param_type_name == "argument":
        return f"`{one.human_readable_name}`"
    names = ", ".join(f"`{each}`" for each in (*one.opts, *one.secondary_opts))
    kind = "" if one.is_flag else one.make_metavar(context).strip("<>[]").lower()
    return f"{names} {kind}".replace("|", "\\|").rstrip()


def _default(one: Any, context: typer.Context) -> str:
    if one.required:
        return "needed"
    value = one.get_default(context, call=False)
    if value is None or value in {"", False} or value in ([], ()) or callable(value):
        return ""
    return f"`{value}`"


def rights() -> str:
    """Which right each call takes, as `wire/rights.py` has it."""
    text = [
        "# Rights",
        "",
        "`make rights` makes this page of the code.",
        "",
        "A node asks of each call whether its user may ask it, before any queue hears of it. A",
        "cluster with one token has one user, who may ask everything.",
        "[Who is trusted with what](../../SECURITY.md) says what follows.",
        "",
        "## The rights",
        "",
        "| right | what it is for |",
        "|---|---|",
    ]
    said = re.findall(
        r'^    ([A-Z]+) = .*\n    """(.*)"""$', inspect.getsource(Right), re.MULTILINE
    )
    text += [f"| `{Right[name].value}` | {what} |" for name, what in said]
    text += [
        "",
        "`put:orders,in.*` is the right for `orders` and for each name that begins with `in.`.",
        "A right without names is for all names. Who has `admin` may ask all that is below.",
        "One name is one name for all: a queue, a pool, a baton and a topic.",
        "",
        "## The calls",
        "",
        "*On* is the field of the call that names a queue, a pool, a baton or a topic. Where",
        "several rights stand, one of them is enough. *List* marks a call that shows only the",
        "names on which the user has some right. *Audit* marks what is written to the log",
        "`snowmelt.audit` when it is allowed, too; each refusal is written there.",
        "",
        "| call | right | on | |",
        "|---|---|---|---|",
    ]
    for kind, rule in RULES.items():
        words = [f"`{one.value}`" for one in rule.rights] or ["whoever was let in"]
        more = [f"`{right.value}` where `{flag}`" for flag, right in rule.flags]
        more += [f"`{right.value}` on each of `{field}`" for field, right in rule.others]
        more += ["`put` or `get` on `home`"] if rule.home else []
        marks = [*(["list"] if rule.sees else []), *(["audit"] if rule.audited else [])]
        marks += [f"`{right.value}` for `{field}`" for field, right in rule.fills]
        on = ", ".join(f"`{one}`" for one in rule.names) or "the cluster"
        title = f"`{kind.__name__}`: {_first(kind)}"
        text.append(f"| {title} | {', '.join([*words, *more])} | {on} | {', '.join(marks)} |")
    return "\n".join([*text, ""])


def roles() -> str:
    """Which node may say which message, as `wire/roles.py` has it."""
    text = [
        "# Who may say what between nodes",
        "",
        "`make rights` makes this page of the code.",
        "",
        "A node asks of each message of another whether that one may say it, once, before any part",
        "of it hears it. What is not for its sender to say is dropped, counted, and written to the",
        "log `snowmelt.audit`, so many times a minute. What clients may ask is on",
        "[another page](rights.md).",
        "",
        "## The roles",
        "",
    ]
    text += [f"- *{one.name.lower()}*: {one.value}." for one in NodeRole]
    text += [
        "",
        "A node knows the view. It may not know yet who leads a queue in a new term: then the",
        "message passes, and the part that it is for looks at the term. Where etcd decides, a",
        "member that says that it comes to decide counts until the next view is known.",
        "",
        "## The messages",
        "",
        "*As itself* is the field that names who speaks; nobody says that of another. *Looked at*",
        "is what the part that it is for checks itself, since only it can know.",
        "",
        "| message | role | as itself | looked at |",
        "|---|---|---|---|",
    ]
    for kind, line in LINES.items():
        words = " or ".join(one.name.lower() for one in line.roles)
        own = f"`{line.own}`" if line.own else ""
        text.append(f"| `{kind.__name__}`: {_first(kind)} | {words} | {own} | {line.check} |")
    return "\n".join([*text, ""])


def _first(kind: type) -> str:
    """The first sentence of its docstring."""
    said = " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[.]) ", said)[0].rstrip(".").replace("|", "\\|")


COMMITTED: Final = {"reference/rights.md": rights, "reference/roles.md": roles}
"""Pages that the repository has as well, since others lead there."""
PAGES: Final = {
    "reference/api.md": api,
    "reference/errors.md": errors_page,
    "reference/commands.md": commands,
}

if __name__ == "__main__":
    print((PAGES | COMMITTED)[f"reference/{sys.argv[1]}.md"](), end="")
