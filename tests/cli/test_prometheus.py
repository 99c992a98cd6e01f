"""A real Prometheus scrapes real nodes: what it says is what the queues say.

The dashboard and the alerts of docs/how-to/monitor are asked of it, as Grafana would.
"""

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import snowmelt
from runtime.exposition import read
from snowmelt.cli.local import LocalCluster, LocalNode, free_port

ROOT = Path(__file__).parents[2]
MONITOR = ROOT / "docs/how-to/monitor"
PANELS = json.loads((MONITOR / "grafana.json").read_text())["panels"]
EXPRESSIONS = [one["expr"] for panel in PANELS for one in panel.get("targets", ())]
ALERTS = re.findall(r"expr: (.+)", (MONITOR / "alerts.yml").read_text())
NAME = re.compile(r"\b(?:snowmelt|process)_[a-z_]+\b")


def shown_at(node: LocalNode) -> str:
    """Where a node says that it shows its metrics."""
    for line in node.log.read_text().splitlines():
        if '"shows metrics"' in line:
            address: str = json.loads(line)["address"]
            return address
    raise AssertionError("it shows none")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    options = ["--http", "127.0.0.1:0"]
    folder = tmp_path_factory.mktemp("nodes")
    with LocalCluster(2, folder, 0.5, options=options) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture(scope="module")
def texts(nodes: LocalCluster) -> Iterator[list[str]]:
    """What each node shows, with a queue that did everything once."""
    with snowmelt.connect(nodes.url) as cluster:
        tried = cluster.fifo("tried", max_deliveries=1)
        tried.put_many([b"x"] * 10)
        first, second, third, *_ = tried.get_many(5)
        first.ack(wait=True)
        second.nack(reason="no")
        third.release()
        tried.put(b"late", delay=1000)
        yield [fetched(f"http://{shown_at(node)}/metrics") for node in nodes.nodes]


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        text: str = answer.read().decode()
        return text


def test_what_nodes_show_is_prometheus_text(texts: list[str]) -> None:
    told = [read(text) for text in texts]
    assert all(one["snowmelt_node_current"] == 1 for one in told)
    leads = [one for one in told if 'snowmelt_queue_put_total{queue="tried"}' in one]
    assert len(leads) == 1  # its leader alone tells of a queue
    assert leads[0]['snowmelt_queue_died_total{queue="tried"}'] == 1


def test_the_dashboard_and_the_alerts_ask_for_what_is_shown(texts: list[str]) -> None:
    there = {name for text in texts for name in re.findall(r"^(\w+)[ {]", text, re.MULTILINE)}
    for expression in (*EXPRESSIONS, *ALERTS):
        asked = set(NAME.findall(expression))
        assert asked <= there | {"up"}, expression
    page = (ROOT / "docs/reference/metrics.md").read_text()
    kinds = {name for text in texts for name in re.findall(r"# TYPE (\w+) ", text)}
    unsaid = [one for one in kinds if one.startswith("snowmelt_") and f"`{one}" not in page]
    assert not unsaid, "docs/reference/metrics.md has no word of these"


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_promtool_finds_nothing_to_say(texts: list[str]) -> None:
    for text in texts:
        command = ["promtool", "check", "metrics"]
        told = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert (told.returncode, told.stdout + told.stderr) == (0, "")
    command = ["promtool", "check", "rules", str(MONITOR / "alerts.yml")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


# --- Prometheus itself ----------------------------------------------------------------------------

Ask = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def prometheus(nodes: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Asks a Prometheus that scrapes the nodes each second."""
    if not shutil.which("prometheus"):
        pytest.skip("prometheus is not installed")
    folder = tmp_path_factory.mktemp("prometheus")
    targets = json.dumps([shown_at(node) for node in nodes.nodes])
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s}\n"
        f"rule_files: [{json.dumps(str(MONITOR / 'alerts.yml'))}]\n"
        f"scrape_configs: [{{job_name: snowmelt, static_configs: [{{targets: {targets}}}]}}]\n"
    )
    url = f"127.0.0.1:{free_port()}"
    words = ["--config.file", str(folder / "prometheus.yml"), "--web.listen-address", url]
    words += ["--storage.tsdb.path", str(folder / "data"), "--log.level=warn"]
    running = subprocess.Popen(["prometheus", *words], stderr=subprocess.PIPE)

    def ask(expression: str) -> list[dict[str, Any]]:
        query = urllib.parse.urlencode({"query": expression})
        told = json.loads(fetched(f"http://{url}/api/v1/query?{query}"))
        assert told["status"] == "success", told
        result: list[dict[str, Any]] = told["data"]["result"]
        return result

    try:
        end = time.monotonic() + 60
        while True:
            assert running.poll() is None, running.stderr and running.stderr.read()
            assert time.monotonic() < end, "it does not scrape"
            try:
                if len(ask("up == 1")) == 2 and ask('count_over_time(up{job="snowmelt"}[1m]) > 3'):
                    break
            except OSError:
                pass
            time.sleep(0.2)
        yield ask
    finally:
        running.terminate()
        running.communicate(timeout=100)


def value(found: list[dict[str, Any]]) -> float:
    """Of the only series there is."""
    assert len(found) == 1, found
    return float(found[0]["value"][1])


def test_it_says_what_the_queues_say_while_they_work(nodes: LocalCluster, prometheus: Ask) -> None:
    with snowmelt.connect(nodes.url) as cluster:
        busy = cluster.fifo("busy")
        begun = time.monotonic()
        count = 0
        while time.monotonic() - begun < 8:
            busy.put_many([b"x"] * 10)
            busy.get_many(8).ack()
            count += 1
            time.sleep(0.02)
        took = time.monotonic() - begun
        told = busy.stats()
        end = time.monotonic() + 20
        done = 'snowmelt_queue_acknowledged_total{queue="busy"}'
        while value(prometheus(done)) < told.done:
            assert time.monotonic() < end
            time.sleep(0.2)
    assert value(prometheus(f"sum by (queue) ({done})")) == told.done == 8 * count
    assert value(prometheus('snowmelt_queue_items{queue="busy",state="ready"}')) == 2 * count
    puts = 'rate(snowmelt_queue_put_total{queue="busy"}[6s])'
    rate = value(prometheus(f"max_over_time({puts}[8s:1s])"))
    assert rate == pytest.approx(10 * count / took, rel=0.5)


@pytest.mark.usefixtures("texts")
def test_each_panel_and_each_alert_can_be_asked(prometheus: Ask) -> None:
    empty: list[str] = []
    for expression in EXPRESSIONS:
        plain = expression.replace("$__rate_interval", "20s")
        for variable in ("$job", "$queue"):
            plain = plain.replace(variable, ".+")
        if not prometheus(plain):
            empty.append(expression)
    assert empty == []
    for expression in ALERTS:
        prometheus(expression)
    assert not prometheus('ALERTS{alertname="SnowmeltNodeAway"}')
