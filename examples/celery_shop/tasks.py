"""Tasks as any Celery program has them; what changed is the line of the broker, and an import."""

import os

import snowmelt_doors.celery  # noqa: F401  kombu knows snowmelt:// from here on
from celery import Celery, Task

URL = os.environ.get("SNOWMELT_URL", "snowmelt://127.0.0.1:4410")

# It was amqp://shop@rabbit, and redis://redis for the results.
app = Celery("celery_shop.tasks", broker=URL, backend=URL)
app.conf.task_acks_late = True
app.conf.task_reject_on_worker_lost = True


@app.task
def price(article: str) -> int:
    """What an article costs, in cents."""
    return 100 + sum(article.encode()) % 900


@app.task
def total(prices: list[int]) -> int:
    """What all of them cost."""
    return sum(prices)


@app.task(bind=True, max_retries=5)
def send(self: Task, bill: int) -> str:
    """Sends a bill; the first try fails."""
    if not self.request.retries:
        raise self.retry(countdown=0.5)
    return f"sent a bill of {bill / 100:.2f}"
