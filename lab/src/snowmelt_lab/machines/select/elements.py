"""Elements in one order, and windows of it (rules 1 and 2)."""

from typing import Annotated, Final

import msgspec

PRIORITY_MIN: Final = -(1 << 63)
PRIORITY_MAX: Final = (1 << 63) - 1

Priority = Annotated[int, msgspec.Meta(ge=PRIORITY_MIN, le=PRIORITY_MAX)]
Id = Annotated[int, msgspec.Meta(ge=0, le=PRIORITY_MAX)]


class Element(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """A priority, and a number that no other element has.

    >>> Element(1, 7) < Element(2, 3) < Element(2, 4)
    True
    """

    priority: Priority
    id: Id


def after(element: Element) -> Element:
    """The next that could be: what is less than it is not greater than `element`."""
    return Element(element.priority, element.id + 1)


class Window(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Elements from `start` on, up to `stop` without it; None where there is no bound."""

    start: Element | None = None
    stop: Element | None = None

    def before(self, cut: "Window") -> "Window":
        """What lies in this one before another.

        >>> Window().before(Window(Element(3, 1), Element(5, 1)))
        Window(start=None, stop=Element(priority=3, id=1))
        """
        return Window(self.start, cut.start)

    def behind(self, cut: "Window") -> "Window":
        """What lies in this one behind another."""
        return Window(cut.stop, self.stop)

    def narrowed(self, start: Element | None, stop: Element | None) -> "Window":
        """With new bounds, where there are any.

        >>> Window(Element(3, 1)).narrowed(None, Element(5, 1))
        Window(start=Element(priority=3, id=1), stop=Element(priority=5, id=1))
        """
        return Window(self.start if start is None else start, self.stop if stop is None else stop)
