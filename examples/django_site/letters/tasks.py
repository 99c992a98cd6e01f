"""What is done outside of a request."""

import django

if django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task


@task(priority=10)
def post(name: str) -> str:
    """Posts a letter."""
    if not name:
        raise ValueError("to whom?")
    return f"posted to {name}"


@task(queue_name="bulk", takes_context=True)
async def advertise(context, names):  # type: ignore[no-untyped-def]  # Django's tasks have no types here
    """Posts the same to many; an async function is a task as well."""
    return f"{len(names)} posted, attempt {context.attempt}"
