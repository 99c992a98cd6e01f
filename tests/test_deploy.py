"""The files of `deploy/` say what is true: options, limits, ports, paths, names and the version."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import snowmelt
from snowmelt.cli.main import program
from snowmelt.cli.node import DEFAULTS
from snowmelt.cli.options import DEFAULT_URL
from snowmelt.cli.page import PAGE_PORT
from snowmelt.runtime.http.pages import Pages
from snowmelt.runtime.http.queue_metrics import STATES
from snowmelt.store.stamp import STAMP_NAME

HOUSE = Path(__file__).parents[1]
DEPLOY = HOUSE / "deploy"
FILES = sorted(one for one in DEPLOY.rglob("*") if one.is_file())
TEXTS = {one.relative_to(DEPLOY).as_posix(): one.read_text() for one in FILES}
COMPOSE, NODES = TEXTS["compose.yaml"], TEXTS["kubernetes/nodes.yaml"]
UNIT, WORKERS = TEXTS["systemd/snowmelt.service"], TEXTS["systemd/snowmelt-worker@.service"]
PORT = int(DEFAULT_URL.rpartition(":")[2])
ROUTES = Pages(None, None, 1).routes  # type: ignore[arg-type]  # no node: only the paths are asked for


def said(text: str) -> Iterator[list[str]]:
    """The commands of ours in a file, in whichever of its forms they stand."""
    bare = re.sub(r"(^|\s)#.*", "", text).replace("\\\n", " ")
    for found in re.finditer(r"snowmelt ((?:node|found|worker|page) [^\n\"|]*)", bare):
        yield shlex.split(found[1])
    for found in re.finditer(r"\[((?:snowmelt, )?(?:node|worker), [^\]]*)\]", bare):
        yield [one for one in re.split(r",\s*", found[1].replace('"', "")) if one != "snowmelt"]
    for found in re.finditer(r"(?:- node|command:) *\n((?:\s+- --\S+ *\n)+)", bare):
        yield ["node", *re.findall(r"- (\S+)", found[1])]


SAID = [(name, one) for name, text in TEXTS.items() for one in said(text)]


def options(words: list[str]) -> list[str]:
    return [one.partition("=")[0] for one in words if one.startswith("--")]


@pytest.mark.parametrize(("name", "words"), SAID, ids=lambda given: str(given)[:40])
def test_each_option_is_one_of_its_command(name: str, words: list[str]) -> None:
    group: Any = get_command(program([words[0]]))
    known = {option for one in group.commands[words[0]].params for option in one.opts}
    assert set(options(words)) <= known, name


def test_nodes_workers_and_foundings_are_all_looked_at() -> None:
    seen = [(name.partition("/")[0], words[0]) for name, words in SAID]
    assert seen.count(("compose.yaml", "node")) == 4  # three entry points, and what they share
    for one in ("compose.yaml", "kubernetes", "systemd"):
        assert (one, "node") in seen
        assert (one, "worker") in seen
    assert ("compose.yaml", "found") in seen
    assert ("kubernetes", "found") in seen


@pytest.mark.parametrize(
    ("text", "patience"),
    [
        (COMPOSE, r"stop_grace_period: (\d+)s # more than twice"),
        (NODES, r"terminationGracePeriodSeconds: (\d+)"),
        (UNIT, r"TimeoutStopSec=(\d+)"),
    ],
    ids=["compose", "kubernetes", "systemd"],
)
def test_a_node_has_the_time_to_leave(text: str, patience: str) -> None:
    (limit,), (given,) = re.findall(r"drain_seconds=(\d+)", text), re.findall(patience, text)
    assert "drain_seconds" in DEFAULTS
    assert int(given) > 2 * int(limit)


@pytest.mark.parametrize(
    ("text", "patience"),
    [
        (COMPOSE, r"stop_grace_period: (\d+)s # more than --grace"),
        (TEXTS["kubernetes/worker/worker.yaml"], r"terminationGracePeriodSeconds: (\d+)"),
        (WORKERS, r"TimeoutStopSec=(\d+)"),
    ],
    ids=["compose", "kubernetes", "systemd"],
)
def test_a_worker_has_the_time_to_end_what_is_in_hand(text: str, patience: str) -> None:
    grace, given = re.search(r"--grace[= ](\d+)", text), re.search(patience, text)
    assert grace is not None
    assert given is not None
    assert int(given[1]) > int(grace[1])


def test_ports_paths_and_versions_are_ours() -> None:
    whole = "\n".join(TEXTS.values())
    addresses = r"(?:[\d.]{7,}|n[1-3]|snowmelt|\)\.svc):(\d{4})\b|[pP]ort: (\d+)"
    ports = {one or other for one, other in re.findall(addresses, whole)}
    assert ports == {str(PORT), str(PAGE_PORT)}
    paths = re.findall(r"path: (/\w+), port|http://127\.0\.0\.1:\d+(/\w+)", whole)
    assert {one or other for one, other in paths} == {"/livez", "/readyz"} <= set(ROUTES)
    versions = re.findall(r"snowmelt:(\d+\.[\d.]*\d)|newTag: (\S+)|image\.version=\"(\S+)\"", whole)
    assert {"".join(one) for one in versions} == {snowmelt.__version__}


def test_kubernetes_names_fit() -> None:
    (count,) = re.findall(r"replicas: (\d+)", NODES)
    ids = [f"snowmelt-{at}" for at in range(int(count))]
    assert re.findall(r"--join=([\w-]+)\.", NODES) == ids
    assert f"dnsNames: [{', '.join(ids)}]" in TEXTS["kubernetes/certificate.yaml"]
    assert f"[ -e /data/node/{STAMP_NAME} ]" in NODES
    for name in ("services", "disruption", "nodes"):
        assert f"  - {name}.yaml\n" in TEXTS["kubernetes/kustomization.yaml"]
    scaling = TEXTS["kubernetes/worker/scaling.yaml"]
    (states,) = re.findall(r'snowmelt_queue_items\{.*state=~"([a-z|]+)"', scaling)
    assert set(states.split("|")) <= set(STATES)


def test_the_image_has_what_the_build_needs_and_one_user_everywhere() -> None:
    docker = TEXTS["Dockerfile"]
    copied = [
        one
        for line in re.findall(r"^COPY ([^-].*)$", docker, re.MULTILINE)
        for one in line.split()[:-1]
    ]
    let_in = re.findall(r"^!(.*)$", TEXTS["Dockerfile.dockerignore"], re.MULTILINE)
    assert sorted(copied) == sorted(let_in)
    assert all((HOUSE / one).exists() for one in copied)
    (user,) = re.findall(r"^USER (\d+):\d+$", docker, re.MULTILINE)
    for name in ("nodes", "worker/worker"):
        assert (
            re.findall(r"(?:runAsUser|runAsGroup|fsGroup): (\d+)", TEXTS[f"kubernetes/{name}.yaml"])
            == [user] * 3
        )
