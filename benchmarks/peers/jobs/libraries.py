"""The libraries: what each needs, how its workers are started, and what it promises."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.peers import cores
from benchmarks.peers.comparison import Maker, Peer, Service
from benchmarks.peers.jobs.installing import Environment
from benchmarks.peers.servers.postgres import Postgres
from benchmarks.peers.servers.rabbitmq import RabbitMQ
from benchmarks.peers.servers.redis import PROMISES, Flush, Redis
from benchmarks.peers.servers.snowmelt import Nodes

PROGRAMS: Final = "benchmarks.peers.programs"
TASKIQ: Final = "--workers 1 --max-async-tasks 10 --log-level WARNING"
PROCRASTINATE: Final = f"--app={PROGRAMS}.procrastinate_jobs.app"
HERE: Final = Environment("", ())
"""This program's own."""


@dataclass(kw_only=True)
class JobsPeer(Peer):
    """A library in some setting."""

    environment: Environment
    module: str
    """Its program."""
    worker: tuple[str, ...]
    """The command of its workers, within its environment."""
    broker: Callable[[Any], str]
    """Given the service: what the program is to connect to."""
    before: tuple[str, ...] = ()
    """A command that is to run once."""
    values: tuple[str, ...] = ()
    """What the program is given beside the number of jobs."""

    folder: Path = Path()

    def start(self, folder: Path) -> None:
        self.folder = folder
        self.environment.check()
        super().start(folder)
        version = self.environment.version()
        if version:
            self.service.version = f"{version}, {self.service.version}"


@dataclass(frozen=True)
class Library:
    """How it is used, with any of its servers."""

    environment: Environment
    worker: tuple[str, ...]
    killed: str
    """What becomes of a job whose worker is killed."""
    before: tuple[str, ...] = ()


LIBRARIES: Final = {
    "huey": Library(
        Environment("huey", ("huey", "redis", "hiredis")),
        ("huey_consumer", f"{PROGRAMS}.huey_jobs.huey", "-w", "10", "-q"),
        "lost",
    ),
    "dramatiq": Library(
        Environment("dramatiq", ("dramatiq[redis,rabbitmq]",)),
        ("dramatiq", f"{PROGRAMS}.dramatiq_jobs", "--processes", "2", "--threads", "5"),
        "comes again",
    ),
    "celery": Library(
        Environment("celery", ("celery[redis]",)),
        ("celery", "-A", f"{PROGRAMS}.celery_jobs", "worker", "-c", "10", "-l", "warning"),
        "lost, unless acks_late",
    ),
    "rq": Library(
        Environment("rq", ("rq",)),
        ("rq", "worker-pool", "-n", "10", "-q", "-u", "{broker}"),
        "found as failed",
    ),
    "arq": Library(
        Environment("arq", ("arq",)),
        ("arq", f"{PROGRAMS}.arq_jobs.WorkerSettings"),
        "comes again after its time-out",
    ),
    "taskiq": Library(
        Environment("taskiq", ("taskiq", "taskiq-redis")),
        tuple(f"taskiq worker {PROGRAMS}.taskiq_jobs:broker {TASKIQ}".split()),
        "comes again after ten minutes",
    ),
    "procrastinate": Library(
        Environment("procrastinate", ("procrastinate", "psycopg[binary,pool]")),
        ("procrastinate", PROCRASTINATE, "worker", "--concurrency", "10"),
        "stays, until a task of yours looks for such",
        ("procrastinate", PROCRASTINATE, "schema", "--apply"),
    ),
}


def snowmelt(name: str, queue: str, threads: int) -> Peer:
    """With the worker's defaults, where it has one thread."""
    command: tuple[str, ...] = (
        "python",
        "-m",
        "snowmelt",
        "worker",
        f"{PROGRAMS}.snowmelt_jobs:nothing",
    )
    command += ("--queue", queue, "--url", "{broker}", "--log", "warning")
    command += ("--threads", str(threads)) if threads > 1 else ()
    flushes = "flushes before it answers" if queue == "jobs" else "flushes every 50 ms"
    workers = "one thread" if threads == 1 else f"{threads} threads"
    return JobsPeer(
        name=name,
        promise=f"{flushes}; comes again; {workers}",
        service=Nodes(1, cores.SERVER),
        above=queue == "jobs",
        environment=HERE,
        module=f"{PROGRAMS}.snowmelt_jobs",
        worker=command,
        broker=lambda service: str(service.address),
        values=(queue,),
    )


def with_redis(name: str, library: str, flush: Flush) -> Peer:
    return made(
        name,
        library,
        Redis(flush, cores.SERVER),
        lambda service: f"redis://127.0.0.1:{service.port}/0",
        PROMISES[flush],
        above=flush == "always",
    )


def with_rabbitmq(name: str, library: str) -> Peer:
    return made(
        name,
        library,
        RabbitMQ(cores.SERVER),
        lambda service: f"amqp://guest:guest@127.0.0.1:{service.address}/%2F",
        "a classic queue, on disk in a moment",
        above=False,
    )


def with_postgres(name: str, library: str) -> Peer:
    return made(
        name,
        library,
        Postgres(cores.SERVER),
        lambda service: f"host=127.0.0.1 port={service.address} user=postgres dbname=postgres",
        "flushes before it answers",
        above=True,
    )


def made(
    name: str,
    library: str,
    service: Service,
    broker: Callable[[Any], str],
    flushes: str,
    *,
    above: bool,
) -> Peer:
    used = LIBRARIES[library]
    return JobsPeer(
        name=name,
        promise=f"{flushes}; {used.killed}",
        service=service,
        above=above,
        environment=used.environment,
        module=f"{PROGRAMS}.{library}_jobs",
        worker=used.worker,
        broker=broker,
        before=used.before,
    )


ON_REDIS: Final = ("huey", "dramatiq", "celery", "rq", "arq", "taskiq")
PEERS: Final[dict[str, Maker]] = {
    "snowmelt": ("jobs.libraries", "snowmelt", ("jobs", 1)),
    "snowmelt-10": ("jobs.libraries", "snowmelt", ("jobs", 10)),
    **{f"{one}-always": ("jobs.libraries", "with_redis", (one, "always")) for one in ON_REDIS},
    "procrastinate": ("jobs.libraries", "with_postgres", ("procrastinate",)),
    "snowmelt-50ms": ("jobs.libraries", "snowmelt", ("later", 1)),
    **{one: ("jobs.libraries", "with_redis", (one, "everysec")) for one in ON_REDIS},
    "dramatiq-rabbitmq": ("jobs.libraries", "with_rabbitmq", ("dramatiq",)),
    "celery-rabbitmq": ("jobs.libraries", "with_rabbitmq", ("celery",)),
}
