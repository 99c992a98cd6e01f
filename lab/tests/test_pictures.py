"""The pictures: nothing written on them lies on anything else that is written."""

from itertools import combinations
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from snowmelt_lab import drawing
from snowmelt_lab.durability import picture as loss_picture
from snowmelt_lab.durability.curves import curves
from snowmelt_lab.durability.windows import Windows
from snowmelt_lab.order import picture as order_picture
from snowmelt_lab.order.crew import Crew
from snowmelt_lab.order.grid import runs
from snowmelt_lab.scale import picture as scale_picture
from snowmelt_lab.scale.gates import Times
from snowmelt_lab.scale.grid import Point


def written_over(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts that overlap, legends as wholes."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    boxes = [("title", figure._suptitle.get_window_extent(renderer))]
    for axes in figure.axes:
        boxes += [
            (text.get_text(), text.get_window_extent(renderer))
            for text in (*axes.texts, axes.title, axes.xaxis.label, axes.yaxis.label)
            if text.get_text()
        ]
        legend = axes.get_legend()
        if legend is not None:
            boxes.append(("legend", legend.get_window_extent(renderer)))
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for _, box in boxes)
    return [(one, two) for (one, a), (two, b) in combinations(boxes, 2) if a.overlaps(b)]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    figures: list[Figure] = []
    for module in (loss_picture, order_picture, scale_picture):
        monkeypatch.setattr(module, "save", lambda figure, _: figures.append(figure))
    return figures


@pytest.mark.parametrize("hours", [48, 3])
def test_loss(drawn: list[Figure], hours: float) -> None:
    model = Windows(fail_per_second=0.0001, window=20, replicas=3)
    loss_picture.draw(curves(model, hours), Path("unused.png"))
    assert written_over(drawn[0]) == []
    texts = [text.get_text() for axes in drawn[0].axes for text in axes.texts]
    assert "right: 0.0069 %" in texts
    assert "the paper: under 0.002 %\n(wrong)" in texts
    assert "right: 50 % after\n38 minutes" in texts
    assert len(drawn[0].axes) == (2 if hours == 48 else 3)


def test_order(drawn: list[Figure]) -> None:
    grid = list(runs(Crew(consumers=1, failure=0), [1, 4, 16], [0, 0.01, 0.1], 2000, seed=1))
    order_picture.draw(grid, Path("unused.png"))
    assert written_over(drawn[0]) == []
    own = drawn[0].axes[0]
    assert len(own.get_lines()) == 6  # three curves, each with its theory


def test_scale(drawn: list[Figure]) -> None:
    points = [
        Point(nodes, clients, Times(1, 1, 2.0 / clients + 0.01 * nodes))
        for nodes in (0, 6, 12, 57)
        for clients in (1, 4, 64)
    ]
    scale_picture.draw(points, Path("unused.png"))
    assert written_over(drawn[0]) == []
    scale_picture.draw(points[:3], Path("unused.png"))  # the rival alone


def test_shades_differ() -> None:
    assert len(set(drawing.shades(7))) == 7
    assert len(drawing.shades(1)) == 1
