"""Procrastinate: a task, deferred into PostgreSQL; `procrastinate worker`."""

from benchmarks.peers.programs.counting import BROKER, done, enqueue
from procrastinate import App, PsycopgConnector

app = App(connector=PsycopgConnector(conninfo=BROKER))


@app.task(name="nothing")
async def nothing() -> None:
    """The job."""
    done()


def main() -> None:
    """Enqueues them."""
    with app.open():
        enqueue(nothing.defer)
