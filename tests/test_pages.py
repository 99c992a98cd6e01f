"""What the pages show runs: each block of Python, and each command has the options it is given.

A page's blocks run as they stand, in order and in one folder. Only the address is another, and a
worker that would go on for ever ends when nothing comes.
"""

import asyncio
import contextlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import typer.main

import snowmelt
import snowmelt.aio
from snowmelt.cli import main
from snowmelt.cli.local import LocalCluster
from snowmelt.client.leases.delivered import part_bodies

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
URL = "snowmelt://127.0.0.1:4410"
ELSEWHERE = {
    "README.md": "the ten lines",
    "explanation/partitions.md": "test_docs",
    "explanation/spark.md": "parts of a program, not run as they stand",
    "how-to/asyncio.md": "test_docs and here",
    "how-to/celery.md": "doors/tests/celery, where a worker runs such a program",
    "how-to/checking-on-spark.md": "spark/test_pages",
    "how-to/django.md": "doors/tests/django, in a site of its own",
    "how-to/dramatiq.md": "doors/tests/dramatiq, with such a broker",
    "how-to/inbox.md": "doors/tests/outbox, as examples/outbox_shop",
    "how-to/outbox.md": "doors/tests/outbox, as examples/outbox_shop",
    "how-to/pools-tls.md": "client/test_pool_tls, with files of its own",
    "how-to/priorities.md": "test_docs",
    "how-to/spark-priorities.md": "spark/test_pages",
    "how-to/sqs.md": "doors/tests/sqs, where a door listens",
    "how-to/taskiq.md": "doors/tests/taskiq, with such a broker",
    "how-to/tracing.md": "client/test_tracing, in a program of its own",
    "how-to/users.md": "runtime/test_users, with a file of users",
    "how-to/values.md": "test_docs",
    "reference/queues.md": "test_docs",
    "reference/spark.md": "parts of programs, not run as they stand",
    "research/selection.md": "spark/test_pages",
    "tutorials/spark.md": "spark/test_pages",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(1, tmp_path_factory.mktemp("node"), 0.5) as cluster:
        cluster.start()
        yield cluster


Told = tuple[dict[str, Any], str]


class Page:
    """One page, run in a folder of its own."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._url = url
        self._capsys = capsys
        self.blocks: list[str] = []

    def read(self, name: str) -> None:
        every = BLOCK.findall((DOCS / name).read_text())
        self.blocks = [text.replace(URL, self._url) for kind, text in every if kind == "python"]
        self.outputs = [text for kind, text in every if not kind and "snowmelt" not in text]

    def run(self, number: int, **here: Any) -> Told:
        """The names that it leaves, and what it printed; `run()` of a worker ends by itself."""
        text = re.sub(r"\)\.run\(\)", ").run(timeout=1)", self.blocks[number])
        self._capsys.readouterr()
        exec(compile(text, f"block {number}", "exec"), here)
        return here, self._capsys.readouterr().out


@pytest.fixture
def page(
    cluster: LocalCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Page:
    monkeypatch.chdir(tmp_path)
    return Page(cluster.url, capsys)


@pytest.fixture
def connected(cluster: LocalCluster) -> Iterator[snowmelt.Cluster]:
    with snowmelt.connect(cluster.url) as connected:
        yield connected
        for name in connected.queues():
            connected.delete(name)


@pytest.mark.usefixtures("connected")
def test_ten_lines(page: Page) -> None:
    page.read("tutorials/first-lines.md")
    for number in range(2):
        assert page.run(number)[1] == page.outputs[number]
    page.read("README.md")
    assert page.run(0)[1] == "b'one'\n"


def test_backups_and_exports(page: Page) -> None:
    page.read("how-to/backups.md")
    assert page.run(0)[1] == "2 6 0\n"
    page.read("how-to/export.md")
    assert "b'one' 0" in page.run(0)[1]


def test_a_worker(page: Page, connected: snowmelt.Cluster, cluster: LocalCluster) -> None:
    page.read("tutorials/worker.md")
    Path("shop.py").write_text("\n".join(page.blocks))
    orders = connected.fifo("orders", codec="json")
    orders.put_many([{"id": 7, "count": 2}, {"id": 8, "count": 0}])
    words = "worker shop:handle --queue orders --codec json --threads 8 --retry shop:retry --idle 1"
    assert words.removesuffix(" --idle 1") in (DOCS / "tutorials/worker.md").read_text()
    ended = subprocess.run(
        [sys.executable, "-m", "snowmelt", *words.split(), "--url", cluster.url],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "shipped 7\n"
    assert "ValueError: a count of 0 (shop.py, line 4, in handle)" in ended.stderr
    (dead,) = orders.peek(dead=True)
    assert orders.value(dead.body)["id"] == 8


def test_workers(page: Page, connected: snowmelt.Cluster) -> None:
    page.read("how-to/worker.md")
    shipped: list[int] = []
    orders = connected.fifo("orders", codec="json")
    orders.put({"id": 7})
    here, _ = page.run(0, ship=shipped.append)
    orders.put({"id": 8})
    connected.fifo("letters").create()
    page.run(1, **{**here, "cluster": connected})
    assert shipped == [7, 8]
    page.read("how-to/retries.md")

    def handle(item: snowmelt.Item) -> None:
        raise ValueError(item.body)

    orders.put({"id": 9})
    page.run(0, snowmelt=snowmelt, orders=orders, handle=handle)
    assert orders.stats().dead == 1


def test_a_bad_item_is_dropped_or_moved(page: Page, connected: snowmelt.Cluster) -> None:
    page.read("how-to/bad-item.md")
    shipped: list[int] = []

    def ship(number: int) -> None:
        if number == 3:
            raise ValueError(number)
        shipped.append(number)

    orders, doubtful = connected.fifo("orders", codec="json"), connected.fifo("doubtful")
    here, _ = page.run(0, ship=ship)
    here, _ = page.run(1, **here, doubtful=doubtful)
    orders.put_many([{"id": number} for number in range(5)])
    snowmelt.Worker(orders, here["handle_or_move"]).run(timeout=1)
    assert shipped == [0, 1]  # 2 and 4 are dropped
    with doubtful.get(timeout=5) as moved:
        assert (moved.body, moved.headers["why"]) == (b'{"id":3}', "3")
    assert orders.stats().ready + orders.stats().dead == 0


@pytest.mark.usefixtures("connected")
def test_one_item(page: Page, connected: snowmelt.Cluster) -> None:
    orders = connected.fifo("orders")
    orders.put_many([str(number).encode() for number in range(18)])
    page.read("how-to/one-item.md")
    shown = page.run(0, orders=orders)[1].splitlines()
    assert shown[0].startswith("ready ")
    assert shown[1] == "b'17'"


def test_steps(page: Page, connected: snowmelt.Cluster) -> None:
    page.read("how-to/steps.md")
    connected.fifo("orders").put_many([b"one", b"two"])
    made = {"bill_of": lambda order: b"bill " + order.body, "letter_to": lambda order: order.body}
    here, _ = page.run(0, cluster=connected, **made)
    assert "snowmelt.Worker(orders, handle, step=True).run()" in page.blocks[1]
    page.blocks[1] = page.blocks[1].replace(".run()", ".run(timeout=1)")
    page.run(1, **{**here, "snowmelt": snowmelt})
    assert sorted(one.body for one in here["bills"].get_many(5)) == [b"bill one", b"bill two"]
    assert here["letters"].get().priority == 2


def test_a_program_goes_over_to_the_queue_that_was_moved_to(
    page: Page, connected: snowmelt.Cluster
) -> None:
    page.read("how-to/move-a-queue.md")
    connected.fifo("orders").create()
    connected.fifo("orders-4").put(b"moved")

    def handle(body: bytes) -> None:
        assert body == b"moved"
        raise KeyboardInterrupt

    here, _ = page.run(0, cluster=connected, snowmelt=snowmelt, handle=handle)
    connected.delete("orders", moved_to="orders-4")
    with pytest.raises(KeyboardInterrupt):
        here["run"]("orders")
    connected.delete("orders")  # its name is free


def test_keys(page: Page, connected: snowmelt.Cluster) -> None:
    page.read("how-to/keys.md")
    assert page.run(0, cluster=connected)[1] == "b'tenant-7'\n"


def test_puts_that_come_once(page: Page, connected: snowmelt.Cluster) -> None:
    page.read("how-to/unique.md")
    jobs = connected.fifo("unique-jobs")
    page.run(0, jobs=jobs)
    assert [one.body for one in jobs.get_many(5)] == [b"rebuild the index", b"welcome"]


def test_schedules(page: Page) -> None:
    page.read("how-to/schedules.md")
    shown = page.run(0)[1].splitlines()
    assert [line.split()[0] for line in shown] == ["mornings", "sweep"]


def test_a_worker_of_tasks(page: Page, connected: snowmelt.Cluster) -> None:
    page.read("how-to/asyncio.md")
    shipped: list[int] = []

    async def ship(number: int) -> None:
        shipped.append(number)

    connected.fifo("orders", codec="json").put({"id": 7})
    page.run(1, ship=ship)
    assert shipped == [7]


def test_coming_from_celery(page: Page, connected: snowmelt.Cluster) -> None:
    page.read("how-to/migrating.md")
    here, _ = page.run(0, __name__="__main__")
    queue = connected.priority("mails", codec="json", priorities=10)
    snowmelt.Worker(queue, here["handle"], retry=here["retry"]).run(timeout=3)
    mails = page._capsys.readouterr().out.splitlines()
    assert mails == ["a mail to ann", "a mail to bob", "a mail to eve"]


def test_a_lock(page: Page) -> None:
    page.read("how-to/lock.md")
    first, second = (page.run(0)[1].split() for _ in range(2))
    assert (first[1], second[1]) == ("b''", "b'segment-17'")
    assert int(first[0]) < int(second[0])


def test_large_objects(page: Page, connected: snowmelt.Cluster) -> None:
    page.read("how-to/pool.md")
    giving = Thread(target=exec, args=(page.blocks[0], {}))
    giving.start()
    _, said = page.run(1)
    giving.join()
    bodies = [line.partition(" ")[2] for line in said.splitlines()]
    assert bodies == ["b'a frame'", "b'another'", "b'and one more'"]
    with connected.pool("models") as models:
        models.put(b"model")
        page.run(2, cluster=connected, models=models, improved=lambda body: bytes(body) + b"!")
        with models.get(timeout=5) as model:
            assert model.body == b"model!"
    numpy = pytest.importorskip("numpy")

    class Camera:
        def read(self) -> Any:
            return numpy.full((480, 640), 7, "uint16")

    page.read("reference/pool.md")
    with connected.pool("frames") as frames:
        page.run(0, frames=frames, numpy=numpy, camera=Camera())
        with frames.get(timeout=5) as frame:
            assert numpy.frombuffer(frame.body, "uint16").sum() == 7 * 480 * 640


def test_one_order_for_all(page: Page, cluster: LocalCluster) -> None:
    page.read("explanation/multicast.md")
    with snowmelt.connect(cluster.url) as other:
        heard = other.multicast("prices").subscribe()
        page.run(1)
        told = [next(iter(heard)).body for _ in range(3)]
    assert told == [b"oil 71.20", b"oil 71.30", b"gas 2.90"]
    assert compile(page.blocks[0], "block 0", "exec")


def test_exactly_once(page: Page, connected: snowmelt.Cluster) -> None:
    page.read("how-to/exactly-once.md")
    written: list[tuple[snowmelt.Mark, snowmelt.Mark]] = []
    connected.fifo("orders").put_many([b"one", b"two"])

    def work(reading: Any) -> list[bytes]:
        if len(written) == 1:
            raise InterruptedError
        return [bytes(body).upper() for part in reading.parts for body in part_bodies(part)]

    def read_back() -> tuple[snowmelt.Mark, snowmelt.Mark]:
        return written[-1] if written else (snowmelt.Mark(), snowmelt.Mark())

    def write_down(*marks: snowmelt.Mark) -> None:
        written.append(marks)  # type: ignore[arg-type]  # two

    here = {"cluster": connected, "read_back": read_back, "write_down": write_down, "work": work}
    with pytest.raises(InterruptedError):
        page.run(0, **here)
    for _ in range(2):  # on from what was written down; and once more, when all is done
        page.run(0, **here)
    assert [one.body for one in connected.fifo("bills").peek(count=5)] == [b"ONE", b"TWO"]
    assert page.run(1)[1] in page.outputs


def test_a_history(page: Page) -> None:
    page.read("how-to/checking.md")
    said = page.run(0)[1].splitlines()
    assert [one.partition(":")[2].split()[0].strip(",") for one in said] == ["valid", "valid"]


def test_what_the_architecture_shows(page: Page) -> None:
    page.read("explanation/architecture.md")
    said = page.run(0)[1].splitlines()
    assert "Persist" in said[0]
    assert "Reply" in said[1]
    page.read("explanation/hacking.md")
    said = page.run(0)[1].splitlines()
    found = "Recalled(name='greeting', body=b'hello', damaged=False)"
    assert said == ["Remembered(name='greeting')", found]


def test_a_web_service(page: Page, connected: snowmelt.Cluster) -> None:
    page.read("how-to/web-service.md")
    fastapi = pytest.importorskip("fastapi")
    here, _ = page.run(0)

    async def ask(body: bytes) -> tuple[int, bytes]:
        """One request, as a server hands it to the app."""
        sent: list[dict[str, Any]] = []
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/orders",
            "raw_path": b"/orders",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
            "app": here["app"],
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await here["app"](scope, receive, send)
        return sent[0]["status"], sent[1]["body"]

    async def served() -> list[tuple[int, bytes]]:
        async with here["lifespan"](here["app"]):
            return [await ask(b'{"id": 7}') for _ in range(2)]

    assert isinstance(here["app"], fastapi.FastAPI)
    assert asyncio.run(served()) == [(202, b'{"position":0}'), (202, b'{"position":1}')]
    connected.delete("orders")
    there, _ = page.run(1)
    assert there["view"]({"id": 7}) == {"position": 0}
    there["cluster"].close()


def test_each_block_of_python_is_run_somewhere() -> None:
    text = Path(__file__).read_text()
    for each in sorted(DOCS.rglob("*.md")):
        name = str(each.relative_to(DOCS))
        kinds = [kind for kind, _ in BLOCK.findall(each.read_text())]
        assert "python" not in kinds or name in ELSEWHERE or f'read("{name}")' in text, name


# --- commands -------------------------------------------------------------------------------------

WrongUse: Any = typer.BadParameter.__base__  # typer has a click of its own


def commands(page: Path) -> Iterator[str]:
    """The command lines of a page; a line that ends with a backslash goes on."""
    for kind, block in BLOCK.findall(page.read_text()):
        if kind in {"python", "sql", "json", "yaml", "ini"}:
            continue
        for line in block.replace("\\\n", " ").splitlines():
            found = re.match(r"(?:\$ |[\d*/ ]+ .*/|.*\| )?snowmelt (.*)", line)
            if found and "…" not in line:
                yield found[1]


def parsed(words: list[str]) -> None:
    """Has the command read its options, and does nothing else."""
    command: Any = typer.main.get_command(main.program(words[:1]))
    context: Any = typer.Context(command, info_name="snowmelt")
    while hasattr(command, "commands") and words:
        name, *words = words
        command = command.commands[name]
        context = typer.Context(command, parent=context, info_name=name)
    command.make_context(command.name, words, parent=context)


PAGES = [*sorted(DOCS.rglob("*.md")), DOCS.parent / "README.md"]


def test_each_command_of_the_pages_is_one_with_such_options() -> None:
    seen = 0
    for each in PAGES:
        for line in commands(each):
            words = shlex.split(line, comments=True)
            ends = [at for at, word in enumerate(words) if word in {"|", ">", "&&", "&", "2>"}]
            words = words[: min(ends, default=len(words))]
            if not words or words[0].startswith("-") or not words[0].isalpha():
                continue
            with contextlib.suppress(typer.Exit):
                try:
                    parsed(words)
                except (WrongUse, KeyError, snowmelt.SnowmeltError) as error:
                    pytest.fail(f"{each.name}: snowmelt {line}: {error!r}")
            seen += 1
    assert seen > 80


def test_a_command_with_a_wrong_option_is_found() -> None:
    with pytest.raises(WrongUse, match="lease"):
        parsed(["put", "orders", "--lease", "10"])
