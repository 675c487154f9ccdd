"""Compute on small data tables and keep a lab notebook: Lab.

What changes is `timers`, `notes` and `plots`.
Not here: the tools' descriptions (`data/cases/lab.tools.json`), the usual start (`data/cases/worlds/lab.json`).
"""

from __future__ import annotations

import operator
import statistics
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any, ClassVar

from toolkit.tools import Effect
from toolkit.worlds.world import DictWorld, WorldError, pick

Json = dict[str, Any]

_MOST_MINUTES = 24 * 60
_SHOWN = 20  # rows in one answer: a small model loses the thread in a longer list
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_TO_BASE: dict[str, tuple[str, Callable[[float], float], Callable[[float], float]]] = {
    "celsius": ("heat", lambda x: x, lambda x: x),
    "fahrenheit": ("heat", lambda x: (x - 32) / 1.8, lambda x: x * 1.8 + 32),
    "kelvin": ("heat", lambda x: x - 273.15, lambda x: x + 273.15),
    "gram": ("mass", lambda x: x, lambda x: x),
    "milligram": ("mass", lambda x: x / 1000, lambda x: x * 1000),
    "litre": ("volume", lambda x: x, lambda x: x),
    "millilitre": ("volume", lambda x: x / 1000, lambda x: x * 1000),
}


class Lab(DictWorld):
    """Know five tables and four devices; keep timers, notes and plots."""

    domain = "lab"
    effects: ClassVar[Mapping[str, Effect]] = dict.fromkeys(("plot_histogram", "start_timer", "save_note"), "writes")

    def list_tables(self) -> list[Json]:
        """List the tables with rows and columns."""
        return [{"table": n, "rows": len(rows), "columns": list(rows[0])} for n, rows in self.now["tables"].items()]

    def describe_column(self, table: str, column: str) -> Json:
        """Describe the numbers of a column."""
        name, rows = self._rows(table)
        column, numbers = self._numbers(name, rows, column)
        return {
            "table": name,
            "column": column,
            "count": len(numbers),
            "missing": len(rows) - len(numbers),
            "mean": _short(statistics.mean(numbers)),
            "median": _short(statistics.median(numbers)),
            "sd": _short(statistics.stdev(numbers)) if len(numbers) > 1 else None,
        }

    def plot_histogram(self, table: str, column: str, bins: int = 20) -> Json:
        """Draw a histogram, and tell how many values it shows."""
        name, rows = self._rows(table)
        column, numbers = self._numbers(name, rows, column)
        plot = {"table": name, "column": column, "bins": bins}
        self.now["plots"].append(plot)
        return {"plot": len(self.now["plots"]), **plot, "values": len(numbers)}

    def compare_groups(self, table: str, value: str, group: str, test: str = "t-test") -> Json:
        """Compare the values of the groups, two by two."""
        from scipy import stats

        name, rows = self._rows(table)
        value, _ = self._numbers(name, rows, value)
        group = self._column(name, rows, group)
        groups: dict[str, list[float]] = {}
        for row in rows:
            if row[value] is not None and row[group] is not None:
                groups.setdefault(str(row[group]), []).append(row[value])
        if len(groups) < 2 or min(map(len, groups.values())) < 2:
            raise WorldError(f"Column {group!r} does not make two groups of two or more rows. Choose another column.")
        pairs = []
        for one, other in combinations(groups, 2):
            a, b = groups[one], groups[other]
            found = stats.mannwhitneyu(a, b) if test == "mann-whitney" else stats.ttest_ind(a, b, equal_var=False)
            pairs.append({"groups": [one, other], "p": float(f"{found.pvalue:.3g}")})
        means = {name: _short(statistics.mean(values)) for name, values in groups.items()}
        return {"table": name, "value": value, "test": test, "means": means, "pairs": pairs}

    def correlate(self, table: str, columns: list[str], method: str = "pearson") -> Json:
        """Correlate columns, two by two, on the rows where both are known."""
        from scipy import stats

        name, rows = self._rows(table)
        names = [self._numbers(name, rows, column)[0] for column in columns]
        measure = stats.spearmanr if method == "spearman" else stats.pearsonr
        pairs = []
        for one, other in combinations(names, 2):
            x, y = self._pairs(rows, one, other)
            pairs.append({"columns": [one, other], "r": _short(measure(x, y)[0])})
        return {"table": name, "method": method, "pairs": pairs}

    def filter_rows(self, table: str, conditions: list[Json], limit: int = 100) -> Json:
        """Return how many rows meet all conditions, and the first of them."""
        name, rows = self._rows(table)
        for condition in conditions:
            column = self._column(name, rows, condition["column"])
            rows = [row for row in rows if _meets(row[column], condition["op"], condition["value"])]
        return {"table": name, "count": len(rows), "rows": rows[: min(limit, _SHOWN)]}

    def fit_line(self, table: str, x: str, y: str, through_origin: bool = False) -> Json:
        """Fit y = a·x + b by least squares."""
        name, rows = self._rows(table)
        (x, _), (y, _) = (self._numbers(name, rows, column) for column in (x, y))
        line = statistics.linear_regression(*self._pairs(rows, x, y), proportional=through_origin)
        return {"table": name, "x": x, "y": y, "a": _short(line.slope), "b": _short(line.intercept)}

    def convert_units(self, value: float, from_unit: str, to_unit: str) -> Json:
        """Convert between units of one kind."""
        (kind, to_base, _), (other, _, from_base) = _TO_BASE[from_unit], _TO_BASE[to_unit]
        if kind != other:
            raise WorldError(f"{from_unit} measures {kind} and {to_unit} measures {other}; they cannot be converted.")
        return {"value": _short(from_base(to_base(value))), "unit": to_unit}

    def read_sensor(self, device: str) -> Json:
        """Read a device that is online."""
        if device in self.now["offline"]:
            raise WorldError(f"The sensor of the {device} does not answer. Read another device, or tell the user.")
        return {"device": device, "celsius": self.now["celsius"][device]}

    def plan_dilution(self, stock_molar: float, target_molar: float, final_ml: float) -> Json:
        """Tell the two volumes."""
        if not (0 < target_molar <= stock_molar and final_ml > 0):
            raise WorldError("The target must be above 0 and not stronger than the stock, and final_ml above 0.")
        stock = _short(final_ml * target_molar / stock_molar)
        return {"stock_ml": stock, "solvent_ml": _short(final_ml - stock)}

    def start_timer(self, minutes: float, label: str = "") -> Json:
        """Start a countdown of a day at most."""
        if minutes > _MOST_MINUTES:
            raise WorldError(f"A timer runs for {_MOST_MINUTES} minutes at most, not {minutes:g}.")
        self.now["timers"].append({"minutes": minutes, "label": label})
        return {"minutes": minutes, "label": label, "running": len(self.now["timers"])}

    def save_note(self, text: str, tags: list[str] | None = None) -> Json:
        """Add a note that says something."""
        if not text.strip():
            raise WorldError("The note is empty. Give its text.")
        self.now["notes"].append({"text": text, "tags": tags or []})
        return {"note": len(self.now["notes"]), "text": text, "tags": tags or []}

    def _rows(self, table: str) -> tuple[str, list[Json]]:
        return pick(table, self.now["tables"], "table")

    def _column(self, table: str, rows: list[Json], column: str) -> str:
        return pick(column, rows[0], f"column of table {table!r} named")[0]

    def _numbers(self, table: str, rows: list[Json], column: str) -> tuple[str, list[float]]:
        name = self._column(table, rows, column)
        values = [row[name] for row in rows if row[name] is not None]
        if any(isinstance(value, str) for value in values):
            raise WorldError(f"Column {name!r} of table {table!r} holds words, no numbers. Choose another column.")
        return name, values

    def _pairs(self, rows: list[Json], one: str, other: str) -> tuple[list[float], list[float]]:
        both = [(row[one], row[other]) for row in rows if row[one] is not None and row[other] is not None]
        return [x for x, _ in both], [y for _, y in both]


def _meets(value: Any, op: str, wanted: Any) -> bool:
    """Compare as words where either is one; a missing value meets nothing but `!=`."""
    if value is None:
        return op == "!="
    if isinstance(value, str) or isinstance(wanted, str):
        value, wanted = str(value).casefold(), str(wanted).casefold()
    return _OPERATORS[op](value, wanted)


def _short(number: float) -> float:
    """Round to four places, as a lab book has them; no minus before a zero."""
    return round(float(number), 4) + 0.0
