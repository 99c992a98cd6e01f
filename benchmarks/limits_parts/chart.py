"""The ladders as a picture."""

from pathlib import Path

from benchmarks.limits_parts.rungs import Rung

COLOURS = {"bare": "#9aa0a6", "ours": "#0b6fb8", "peer": "#b06000"}
Found = dict[tuple[str, str], float]
"""A figure by cell and rung."""


def draw(rungs: list[Rung], clients: Found, servers: Found, path: Path) -> None:
    """A panel for each cell, a bar for each rung: what client and servers worked for an item."""
    # Imported here, since the clients' processes import this module's neighbours and draw nothing.
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    cells = list(dict.fromkeys(one.cell for one in rungs))
    heights = [sum(one.cell == cell for one in rungs) for cell in cells]
    figure = Figure(figsize=(8.6, 0.3 * sum(heights) + 0.6 * len(cells) + 0.5), dpi=110)
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(cells), 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel, cell in zip(panels, cells, strict=True):
        own = [one for one in rungs if one.cell == cell]
        client = [clients[cell, one.name] for one in own]
        server = [servers[cell, one.name] for one in own]
        colours = [COLOURS[one.kind] for one in own]
        panel.barh(range(len(own)), client, color=colours, height=0.7)
        panel.barh(range(len(own)), server, left=client, color=colours, height=0.7, alpha=0.45)
        panel.set_yticks(range(len(own)), [one.name for one in own], fontsize=8.5)
        panel.invert_yaxis()
        sums = [left + right for left, right in zip(client, server, strict=True)]
        panel.set_xlim(0, 1.14 * max(sums))
        for at, both in enumerate(sums):
            panel.text(
                both,
                at,
                f" {both:,.0f}" if both >= 100 else f" {both:.3g}",
                va="center",
                fontsize=8,
            )
        panel.set_title(cell, fontsize=10, loc="left")
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(axis="x", labelsize=7.5)
    figure.suptitle(
        "Processor time an item, in microseconds: client dark, servers light\n"
        "grey: bare programs    blue: Snowmelt    brown: Redis",
        fontsize=10,
    )
    figure.tight_layout()
    figure.savefig(path)
