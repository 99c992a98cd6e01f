"""One turn of a counter, as steps (`connection.steps`), once its baton is held."""

from contextlib import suppress

from snowmelt.client.baton.steps import BatonHold
from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.steps import Steps
from snowmelt.client.counter.state import advance
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.interval import Interval


def take(hold: BatonHold, count: int) -> Steps[Interval]:
    """Takes so many numbers and gives the baton up; they are the caller's once that is known.

    When something fails they are nobody's, and the value goes on as it came, or was last saved.
    """
    try:
        step = advance(hold.value, hold.made, count)
        if step.reserves:
            yield from hold.save(step.value, TIMEOUT)
        hold.set_value(step.value)
    except SnowmeltError:
        if not hold.over:
            with suppress(SnowmeltError):  # the first failure is the one to raise
                yield from hold.release(changed=False)
        raise
    yield from hold.release()
    return step.numbers
