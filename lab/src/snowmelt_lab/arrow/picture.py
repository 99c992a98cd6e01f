"""Steps drawn side by side, as plain SVG: arrows thick, finds as dots, observers as small squares.

An edge that is not legal is red. Who points at itself, a sink, has a ring.
"""

from html import escape
from math import hypot
from pathlib import Path
from typing import Final

from snowmelt.core.errors import BadOption
from snowmelt_lab.arrow.plan import Plan
from snowmelt_lab.arrow.tracing import OnTheWay, Step, Traced

INK: Final = "#1f2933"
PALE: Final = "#9aa5b1"
FIND: Final = "#0b6e4f"
WRONG: Final = "#c1121f"

COLUMNS: Final = 4
WIDTH: Final = 300
HEIGHT: Final = 250
CAPTION: Final = 46
MARGIN: Final = 26
NODE: Final = 9
HEAD: Final = 60

Point = tuple[float, float]


def draw(told: Traced, path: Path) -> None:
    try:
        path.write_text(drawn(told))
    except OSError as error:
        raise BadOption("--draw", str(path), f"a file that can be written ({error})") from error


def drawn(told: Traced) -> str:
    """The picture as text.

    >>> from snowmelt_lab.arrow.options import ArrowOptions
    >>> from snowmelt_lab.arrow.tracing import traced
    >>> drawn(traced(ArrowOptions(nodes=2, corrupt=()))).count("<g")
    3
    """
    points = _layout(told.plan)
    columns = min(COLUMNS, len(told.steps))
    rows = -(-len(told.steps) // columns)
    width, height = columns * WIDTH, HEAD + rows * HEIGHT
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    text = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="DejaVu Sans, sans-serif">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _legend(told.left_out, wide=columns > 2),
    ]
    for place, step in enumerate(told.steps):
        x, y = place % columns * WIDTH, HEAD + place // columns * HEIGHT
        panel = _caption(place, step) + _state(step, told.plan, points)
        text.append(f'<g transform="translate({x},{y})">{panel}</g>')
    return "\n".join([*text, "</svg>", ""])


def _layout(plan: Plan) -> list[Point]:
    """Leaves evenly spread, each parent over the middle of its children; the long side across."""
    children = plan.children
    across: dict[int, float] = {}
    down: dict[int, int] = {0: 0}
    leaves = 0
    order = [0]
    for node in order:  # it grows while it is walked
        down.update((child, down[node] + 1) for child in children[node])
        order += children[node]
    waiting = [0]
    while waiting:
        node = waiting.pop()
        if not children[node]:
            across[node] = leaves
            leaves += 1
        waiting += reversed(children[node])
    for node in reversed(order):
        if children[node]:
            across[node] = sum(across[child] for child in children[node]) / len(children[node])
    raw = [(across[node], float(down[node])) for node in range(len(children))]
    if plan.depth > leaves:
        raw = [(y, x) for x, y in raw]
    return _scaled(raw)


def _scaled(raw: list[Point]) -> list[Point]:
    wide, high = (max(1.0, *(point[axis] for point in raw)) for axis in (0, 1))
    room_x, room_y = WIDTH - 2 * MARGIN, HEIGHT - CAPTION - 2 * MARGIN - 12
    flat = all(point[1] == 0 for point in raw)
    return [
        (MARGIN + room_x * x / wide, CAPTION + MARGIN + (room_y / 2 if flat else room_y * y / high))
        for x, y in raw
    ]


def _caption(place: int, step: Step) -> str:
    words = "".join(
        f'<text x="10" y="{18 + 15 * row}" font-size="11.5" fill="{INK}">{escape(line)}</text>'
        for row, line in enumerate(_wrapped(f"{place}. {step.sentence}")[:2])
    )
    return (
        f'<rect x="4" y="3" width="{WIDTH - 8}" height="{HEIGHT - 6}" rx="6" fill="none" '
        f'stroke="#e4e7eb"/>{words}<text x="{WIDTH - 12}" y="{HEIGHT - 8}" font-size="10.5" '
        f'text-anchor="end" fill="{PALE}">{step.at:.2f} R</text>'
    )


def _state(step: Step, plan: Plan, points: list[Point]) -> str:
    edges = [
        _edge(points[child], points[parent], wrong=child in step.illegal)
        for parent, child in plan.edges
    ]
    pointing = list(enumerate(step.points_at))
    arrows = [_arrow(points[node], points[at]) for node, at in pointing if node != at]
    nodes = [_node(node, points[node], sink=at == node) for node, at in pointing]
    messages = [_message(one, points) for one in step.on_the_way]
    return "".join(edges + arrows + nodes + messages)


def _wrapped(sentence: str, width: int = 44) -> list[str]:
    lines = [""]
    for word in sentence.split():
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] += word + " "
    return lines


def _edge(one: Point, other: Point, *, wrong: bool) -> str:
    color, width = (WRONG, 3) if wrong else ("#cbd2d9", 1.5)
    return (
        f'<line x1="{one[0]:.1f}" y1="{one[1]:.1f}" x2="{other[0]:.1f}" y2="{other[1]:.1f}" '
        f'stroke="{color}" stroke-width="{width}"/>'
    )


def _arrow(start: Point, end: Point) -> str:
    """From the node to two fifths of the way, with a head."""
    dx, dy, length = _direction(start, end)
    reach = min(0.42 * length, 34 + NODE)
    sx, sy = start[0] + dx * NODE, start[1] + dy * NODE
    tx, ty = start[0] + dx * reach, start[1] + dy * reach
    left = tx - 7 * dx - 4.5 * dy, ty - 7 * dy + 4.5 * dx
    right = tx - 7 * dx + 4.5 * dy, ty - 7 * dy - 4.5 * dx
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in ((tx, ty), left, right))
    return (
        f'<line x1="{sx:.1f}" y1="{sy:.1f}" x2="{tx - 5 * dx:.1f}" y2="{ty - 5 * dy:.1f}" '
        f'stroke="{INK}" stroke-width="2.6"/><polygon points="{corners}" fill="{INK}"/>'
    )


def _node(number: int, at: Point, *, sink: bool) -> str:
    x, y = f"{at[0]:.1f}", f"{at[1]:.1f}"
    ring = f'<circle cx="{x}" cy="{y}" r="{NODE + 4}" fill="none" stroke="{INK}" stroke-width="2"/>'
    return (
        (ring if sink else "")
        + f'<circle cx="{x}" cy="{y}" r="{NODE}" fill="white" stroke="{INK}" stroke-width="1.4"/>'
        + f'<text x="{x}" y="{at[1] + 3.6:.1f}" font-size="10" text-anchor="middle" fill="{INK}">'
        + f"{number}</text>"
    )


def _message(one: OnTheWay, points: list[Point]) -> str:
    """Beside the edge, on the right of its way, with a point that says where it goes."""
    start, end = points[one.source], points[one.target]
    dx, dy, length = _direction(start, end)
    along = NODE + (length - 2 * NODE) * one.done
    x, y = start[0] + dx * along - dy * 9, start[1] + dy * along + dx * 9
    if one.is_find:
        tip = x + 9 * dx, y + 9 * dy
        left, right = (x - 3.6 * dy, y + 3.6 * dx), (x + 3.6 * dy, y - 3.6 * dx)
        corners = " ".join(f"{cx:.1f},{cy:.1f}" for cx, cy in (tip, left, right))
        dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{FIND}"/>'
        return dot + f'<polygon points="{corners}" fill="{FIND}"/>'
    return (
        f'<rect x="{x - 2.5:.1f}" y="{y - 2.5:.1f}" width="5" height="5" fill="white" '
        f'stroke="{PALE}" stroke-width="1.2"/>'
    )


def _direction(start: Point, end: Point) -> tuple[float, float, float]:
    length = hypot(end[0] - start[0], end[1] - start[1]) or 1.0
    return (end[0] - start[0]) / length, (end[1] - start[1]) / length, length


def _legend(left_out: int, *, wide: bool) -> str:
    more = f" {left_out} more steps are left out." if left_out else ""
    lines = [
        f"Thick arrows: where nodes point; a ring: at themselves.{more}",
        "Red edges: not legal. Green: finds. Small squares: observers. R: the longest round trip.",
    ]
    size = 13 if wide else 7
    return "".join(
        f'<text x="10" y="{22 + 19 * row}" font-size="{size}" fill="{INK}">{line}</text>'
        for row, line in enumerate(lines)
    )
