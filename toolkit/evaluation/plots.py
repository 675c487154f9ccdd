"""Draw results: rates with intervals beside outcomes, readable in a light notebook, on GitHub and in print.

matplotlib is imported late; it comes with the extra `notebook`.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

from toolkit.errors import UserError, install_hint
from toolkit.evaluation.scoring import OUTCOMES

# right in greens, wrong in reds to yellow, left out in greys; told apart by lightness as well
COLOURS = {
    "right_call": "#1b7837",
    "right_abstention": "#7fbf7b",
    "wrong_call": "#b2182b",
    "broken_call": "#ef8a62",
    "wrong_abstention": "#fddbc7",
    "overflow": "#bdbdbd",
    "degenerate": "#969696",
    "server_fault": "#525252",
}


def plot_rates(table: Any, outcomes: Any) -> Any:
    """Return a Figure: on the left the rate of each recipe with its Wilson interval, on the right its outcomes.

    `table` and `outcomes` are those of a `Result`.

    Raises:
        UserError: matplotlib is not installed.
    """
    figure = _figure(figsize=(10, 1.3 + 0.55 * len(table)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, gridspec_kw={"width_ratios": [2, 3]})
    _draw_rates(left, table)
    _draw_outcomes(right, outcomes)
    figure.legend(*right.get_legend_handles_labels(), loc="outside upper center", ncols=8, frameon=False, fontsize=9)
    left.set_yticks(range(len(table)), table["recipe"])
    left.invert_yaxis()
    return figure


def _figure(**options: Any) -> Any:
    """Return a Figure that shows itself as PNG in a notebook, with no pyplot and no back end behind it."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError(f"Plots need matplotlib. {install_hint('notebook')}") from None

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            out = BytesIO()
            self.savefig(out, format="png", dpi=110, facecolor="white")
            return out.getvalue()

    return NotebookFigure(**options)


def _draw_rates(axes: Any, table: Any) -> None:
    rates, places = table["rate"] * 100, range(len(table))
    errors = [rates - table["low"] * 100, table["high"] * 100 - rates]
    axes.errorbar(rates, places, xerr=errors, fmt="o", color="#222222", capsize=4, markersize=6)
    for place, (k, n, high) in enumerate(zip(table["right"], table["judged"], table["high"], strict=True)):
        if n:
            axes.annotate(
                f"{k}/{n}", (high * 100, place), xytext=(6, 0), textcoords="offset points", va="center", fontsize=9
            )
    axes.set_xlim(-3, 118)
    axes.set_xticks(range(0, 101, 25))
    axes.set_xlabel("right, % of judged (95 % Wilson interval)")
    axes.grid(axis="x", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_outcomes(axes: Any, outcomes: Any) -> None:
    start = [0] * len(outcomes)
    for name in OUTCOMES:
        counts = list(outcomes[name])
        if not any(counts):
            continue
        axes.barh(
            range(len(outcomes)), counts, left=start, color=COLOURS[name], label=name.replace("_", " "), height=0.6
        )
        for place, count in enumerate(counts):
            if count:
                dark = name in ("right_call", "wrong_call", "server_fault")
                axes.text(start[place] + count / 2, place, str(count), ha="center", va="center", fontsize=9,
                          color="white" if dark else "black")  # fmt: skip
        start = [a + b for a, b in zip(start, counts, strict=True)]
    axes.set_xlabel("replies")
    axes.spines[["top", "right"]].set_visible(False)
