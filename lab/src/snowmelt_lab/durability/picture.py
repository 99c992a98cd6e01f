"""Loss over time drawn, the paper's figures beside the right ones. Needs matplotlib."""

from pathlib import Path

from matplotlib.axes import Axes

from snowmelt_lab.drawing import INK, RIGHT, WRONG, canvas, save
from snowmelt_lab.durability.curves import Curve
from snowmelt_lab.durability.paper import CLAIMS, Claim, percent

TITLE = "Items are lost sooner than the paper says: its own model, worked out again"


def draw(curves: list[Curve], path: Path) -> None:
    """A panel for each curve; the paper's figures marked where it gave one."""
    figure, panels = canvas(len(curves), TITLE)
    for axes, curve in zip(panels, curves, strict=True):
        _draw_losses(axes, curve)
        claims = [(one.model, one.hours) for one in CLAIMS]
        if (curve.model, curve.hours[-1]) in claims:
            _draw_claim(axes, CLAIMS[claims.index((curve.model, curve.hours[-1]))])
        else:
            _mark_right(axes, curve.hours[-1], curve.by_windows[-1], "")
        axes.legend(loc="lower right" if _is_high(curve.by_windows[-1]) else "upper left")
    save(figure, path)


def _is_high(loss: float) -> bool:
    """Whether the curve ends flat under the top, so that there is room below it."""
    return loss > 0.8


def _draw_losses(axes: Axes, curve: Curve) -> None:
    model = curve.model
    windows = [100 * loss for loss in curve.by_windows]
    continuous = [100 * loss for loss in curve.continuous]
    label = f"the paper's model: windows of {model.window:g} s"
    axes.plot(curve.hours, windows, color=INK, linewidth=2.2, label=label)
    label = f"time not cut: repair takes {model.window:g} s"
    axes.plot(curve.hours, continuous, color=INK, linewidth=1.5, linestyle="--", label=label)
    title = f"{model.fail_per_second * 100:g} % of nodes fail each second, {model.replicas} copies"
    axes.set_title(title)
    axes.set_xlabel("time (hours)")
    axes.set_ylabel("chance that an item is lost (%)")
    axes.set_xlim(0, curve.hours[-1] * 1.04 or 1)
    axes.set_ylim(0, max(continuous[-1], windows[-1]) * 1.12 or 1)


def _draw_claim(axes: Axes, claim: Claim) -> None:
    verdict = "true, but far too mild" if claim.holds else "wrong"
    text = f"the paper: {claim.printed}\n({verdict})"
    _mark(axes, (claim.hours, claim.loss), "X", text, (-10, 0))
    _mark_right(axes, claim.hours, claim.model.loss(claim.hours), "right: ")
    half = claim.model.hours_until(0.5)
    if half < claim.hours:
        _mark(axes, (half, 0.5), "o", f"right: 50 % after\n{half * 60:.0f} minutes", (10, -10))


def _mark_right(axes: Axes, hours: float, loss: float, word: str) -> None:
    """Beside the curve, where it leaves room: below a high end, above one that still climbs."""
    beside = (-2, -16) if _is_high(loss) else (-12, 6)
    _mark(axes, (hours, loss), "o", word + percent(loss), beside)


def _mark(
    axes: Axes, spot: tuple[float, float], sign: str, text: str, beside: tuple[int, int]
) -> None:
    color = WRONG if sign == "X" else RIGHT
    at = (spot[0], 100 * spot[1])
    axes.plot(*at, sign, color=color, markersize=9, clip_on=False)
    side = "right" if beside[0] < 0 else "left"
    axes.annotate(
        text,
        at,
        xytext=beside,
        textcoords="offset points",
        ha=side,
        va="center",
        color=color,
        fontweight="bold",
    )
