"""One value's way through a queue, as far as the history shows it."""

import msgspec

from snowmelt.check.history import Operation, Value


class Passage(msgspec.Struct, frozen=True, gc=False):
    """When a value may have been put and got.

    It was put at an instant of [put_called, put_returned] and got at one of [got_called,
    got_returned], and put_returned is never after got_returned. A value that was never got has its
    get far in the future.
    """

    value: Value
    put: Operation
    get: Operation | None
    put_called: int
    put_returned: int
    got_called: int
    got_returned: int

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Its put, and its get if there was one."""
        return (self.put,) if self.get is None else (self.put, self.get)
