"""The laws of DESIGN.md that a look at the syntax tree can check."""

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent
ROOTS = {
    "": HOUSE / "src/snowmelt",
    "world/": HOUSE / "world/src/snowmelt_world",
    "lab/": HOUSE / "lab/src/snowmelt_lab",
    "doors/": HOUSE / "doors/src/snowmelt_doors",
}
FILES = {
    place + path.relative_to(root).as_posix(): path
    for place, root in ROOTS.items()
    for path in sorted(root.rglob("*.py"))
}

PURE = ("core/", "protocols/", "world/check/", "lab/machines/")
ORDERED = (*PURE, "world/")
OUTSIDE = {
    "asyncio",
    "socket",
    "threading",
    "time",
    "datetime",
    "os",
    "secrets",
    "uuid",
    "logging",
}
UNTRUSTED = {"pickle", "marshal", "shelve"}
LISTED = {"MESSAGES", "REQUESTS", "CALLS"}
SETTLING = {"sorted", "set", "frozenset", "len", "sum", "min", "max", "any", "all"}
WALKING = {"list", "tuple", "iter", "enumerate", "map", "filter", "zip", "reversed", "deque"}
VAGUE = {"utils", "helpers", "common", "manager", "util", "helper", "managers"}

Law = Callable[[str, ast.Module], Iterator[str]]


def imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name.split(".")[0]) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.split(".")[0]


def called(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node, node.func.id


def machines_know_no_world(file: str, tree: ast.Module) -> Iterator[str]:
    if file.startswith(PURE):
        for line, name in imported(tree):
            if name in OUTSIDE:
                yield f"{file}:{line} imports {name}"


def chance_is_handed_in(file: str, tree: ast.Module) -> Iterator[str]:
    if not file.startswith(ORDERED):
        return
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="random", names=names, lineno=line):
                for name in names:
                    if name.name != "Random":
                        yield f"{file}:{line} takes {name.name} from random"
            case ast.Call(func=ast.Attribute(value=ast.Name("random"), attr=word), lineno=line):
                if word != "Random":
                    yield f"{file}:{line} calls random.{word}"
            case ast.Call(func=ast.Name("Random"), args=[], lineno=line):
                yield f"{file}:{line} makes a Random without a seed"


def no_order_by_address(file: str, tree: ast.Module) -> Iterator[str]:
    # A walk over a state asks whether it has met a thing before; nothing is ever ordered by that.
    if file.startswith(ORDERED) and file not in ("world/planted.py", "world/explore/value.py"):
        for call, name in called(tree):
            if name in ("hash", "id"):
                yield f"{file}:{call.lineno} calls {name}()"


def is_set(node: ast.expr) -> bool:
    match node:
        case ast.Set() | ast.SetComp() | ast.Call(func=ast.Name("set" | "frozenset")):
            return True
        case ast.BinOp(left=left, right=right):
            return is_set(left) or is_set(right)
        case ast.Call(func=ast.Attribute(value=value)):
            return is_set(value)
        case _:
            return False


def walked(node: ast.AST) -> list[ast.expr]:
    """What this node walks in whatever order it comes."""
    match node:
        case ast.For(iter=over) | ast.Starred(value=over) | ast.YieldFrom(value=over):
            return [over]
        case ast.ListComp(generators=parts) | ast.DictComp(generators=parts):
            return [part.iter for part in parts]
        case ast.GeneratorExp(generators=parts) if not getattr(node, "settled", False):
            return [part.iter for part in parts]
        case ast.Call(func=ast.Name(name), args=arguments) if name in WALKING:
            return arguments
        case ast.Call(func=ast.Attribute(attr="join" | "fromkeys" | "extend"), args=arguments):
            return arguments
        case _:
            return []


def no_walk_over_sets(file: str, tree: ast.Module) -> Iterator[str]:
    if not file.startswith(ORDERED):
        return
    for node in ast.walk(tree):  # parents come before their children
        match node:
            case ast.Call(func=ast.Name(name), args=arguments) if name in SETTLING:
                for argument in arguments:
                    argument.settled = True  # sorted(x for x in {…}) has an order
        for over in walked(node):
            if is_set(over):
                yield f"{file}:{over.lineno} walks over a set"


def nothing_is_unpickled(file: str, tree: ast.Module) -> Iterator[str]:
    for line, name in imported(tree):
        if name in UNTRUSTED:
            yield f"{file}:{line} imports {name}"
    for call, name in called(tree):
        if name in ("eval", "exec", "compile", "__import__"):
            yield f"{file}:{call.lineno} calls {name}()"


def length(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    """Lines, without the docstring's."""
    lines = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node) is not None:
        text = node.body[0]
        lines -= text.end_lineno - text.lineno + 1
    return lines


def all_is_small(file: str, tree: ast.Module) -> Iterator[str]:
    last = max((node.end_lineno for node in tree.body), default=0)
    if last > 600:
        yield f"{file} has {last} lines"
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            methods = sum(isinstance(part, functions) for part in node.body)
            if node.end_lineno - node.lineno + 1 > 400 or methods > 25:
                yield f"{file}:{node.lineno} class {node.name} is a god"
        elif isinstance(node, functions) and length(node) > 70:
            yield f"{file}:{node.lineno} {node.name} has {length(node)} lines"


def modules_are_named_by_a_noun(file: str, _: ast.Module) -> Iterator[str]:
    for part in file.removesuffix(".py").split("/"):
        if part in VAGUE:
            yield f"{file} is named {part}"


def messages_are_named_once(file: str, tree: ast.Module) -> Iterator[str]:
    """A list beside the union of the same would lack what was added to the union alone."""
    if not file.startswith("protocols/"):
        return
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(name)], value=value)
                | ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value)
            ) if name in LISTED:
                by_hand = isinstance(value, ast.Tuple | ast.List) and any(
                    isinstance(one, ast.Name | ast.Attribute) for one in value.elts
                )
                if by_hand and not any(name == "get_args" for _, name in called(value)):
                    yield f"{file}:{node.lineno} names messages, and not by get_args of their union"


LAWS: tuple[Law, ...] = (
    machines_know_no_world,
    chance_is_handed_in,
    no_order_by_address,
    no_walk_over_sets,
    nothing_is_unpickled,
    all_is_small,
    modules_are_named_by_a_noun,
    messages_are_named_once,
)


@cache
def tree_of(file: str) -> ast.Module:
    """Read once for all laws."""
    return ast.parse(FILES[file].read_text())


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_law_holds_in_every_file(law):
    assert FILES
    broken = [line for file in FILES for line in law(file, tree_of(file))]
    assert broken == []


LONG = "def f():\n" + "    x = 1\n" * 70
GOD = "class C:\n" + "    def f(self): ...\n" * 26
SAMPLES = [
    (machines_know_no_world, "core/x.py", "import time"),
    (machines_know_no_world, "world/check/x.py", "from os.path import join"),
    (machines_know_no_world, "protocols/a/x.py", "def f():\n    import logging.handlers"),
    (chance_is_handed_in, "core/x.py", "import random\nrandom.random()"),
    (chance_is_handed_in, "world/x.py", "from random import choice"),
    (chance_is_handed_in, "world/x.py", "Random()"),
    (no_order_by_address, "world/x.py", "sorted(x, key=lambda one: hash(one))"),
    (no_order_by_address, "core/x.py", "id(x)"),
    (no_walk_over_sets, "core/x.py", "for x in {1, 2}: pass"),
    (no_walk_over_sets, "world/x.py", "[x for x in set(y)]"),
    (no_walk_over_sets, "world/x.py", "[x for x in set(y) - z]"),
    (no_walk_over_sets, "world/x.py", "[x for x in set(y).union(z)]"),
    (no_walk_over_sets, "world/check/x.py", "list({x for x in y})"),
    (no_walk_over_sets, "world/check/x.py", "f(x for x in frozenset(y))"),
    (no_walk_over_sets, "world/check/x.py", "[*{1, 2}]"),
    (no_walk_over_sets, "world/check/x.py", "dict.fromkeys({1, 2})"),
    (nothing_is_unpickled, "wire/x.py", "import pickle"),
    (nothing_is_unpickled, "cli/x.py", "eval('1')"),
    (all_is_small, "cli/x.py", "\n" * 600 + "x = 1"),
    (all_is_small, "cli/x.py", LONG),
    (all_is_small, "cli/x.py", GOD),
    (all_is_small, "cli/x.py", "class C:\n" + "    x = 1\n" * 400),
    (modules_are_named_by_a_noun, "core/utils.py", ""),
    (modules_are_named_by_a_noun, "common/x.py", ""),
    (messages_are_named_once, "protocols/a/messages.py", "MESSAGES: Final = (Said, Heard)"),
    (messages_are_named_once, "protocols/a/calls.py", "REQUESTS = (Ask, calls.Tell)"),
    (messages_are_named_once, "protocols/a/messages.py", "MESSAGES = (*REQUESTS, Said)"),
]


@pytest.mark.parametrize(("law", "file", "text"), SAMPLES)
def test_the_law_finds_what_breaks_it(law, file, text):
    assert list(law(file, ast.parse(text)))


INNOCENT = [
    (messages_are_named_once, "protocols/a/messages.py", "MESSAGES = (*get_args(Message), Claim)"),
    (messages_are_named_once, "protocols/a/__init__.py", "MESSAGES = (*_BETWEEN, *CALLS)"),
    (messages_are_named_once, "lab/x.py", "MESSAGES: Final = 9"),
    (machines_know_no_world, "runtime/x.py", "import time"),
    (machines_know_no_world, "core/x.py", "from snowmelt.core import time"),
    (chance_is_handed_in, "world/x.py", "from random import Random\nRandom(1).random()"),
    (no_order_by_address, "world/planted.py", "hash(x)"),
    (no_order_by_address, "world/explore/value.py", "id(x) in met"),
    (no_walk_over_sets, "core/x.py", "for x in sorted({1, 2}): pass"),
    (no_walk_over_sets, "core/x.py", "sorted(x for x in {1, 2})"),
    (no_walk_over_sets, "core/x.py", "seen = set(x)\nseen.add(1)\nlen(seen | {2})"),
    (all_is_small, "core/x.py", 'def f():\n    """' + "a\n" * 80 + '"""\n    return 1'),
]


@pytest.mark.parametrize(("law", "file", "text"), INNOCENT)
def test_the_law_leaves_the_innocent_alone(law, file, text):
    assert list(law(file, ast.parse(text))) == []


SHARED = {
    "Backup": "of a queue, which people hold, and the message that saves a baton's value",
    "Command": "one with a baton, and Django's name for what `manage.py` runs",
    "End": "the last record of a backup, and the message that ends a queue",
    "Head": "the first record of a backup, and a copy's last step",
    "Read": "a piece of a backup, and a call of etcd",
    "Row": "an item of a backup, and a key of etcd with its value",
    "Rows": "those of a backup, and Spark's",
    "SnowmeltBroker": "Dramatiq's, and Taskiq's: a program imports one of them",
}
"""Class names that mean more than one thing in the product, each with the two meanings."""
SHARED_MAX = 60


def shared_names(trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Class names with several meanings. A blocking face is the same class as its async twin."""
    places: dict[str, set[str]] = {}
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, set()).add(file.replace("_async.py", ".py"))
    return {name: sorted(files) for name, files in places.items() if len(files) > 1}


def test_a_class_name_means_one_thing():
    product = {file: tree_of(file) for file in FILES if not file.startswith(("world/", "lab/"))}
    shared = shared_names(product)
    assert {name: files for name, files in shared.items() if name not in SHARED} == {}
    assert set(SHARED) <= set(shared), "a name that is not shared any more needs no reason"
    assert sum(map(len, shared.values())) <= SHARED_MAX


def test_a_name_with_two_meanings_is_found_and_a_face_with_its_twin_is_one():
    one = ast.parse("class Held: ...")
    assert shared_names({"wire/a.py": one, "wire/b.py": one}) == {
        "Held": ["wire/a.py", "wire/b.py"]
    }
    assert shared_names({"client/a.py": one, "client/a_async.py": one}) == {}
