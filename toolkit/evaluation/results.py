"""Turn the rows of a run into tables: Result, Comparison.

A rate is k/n with a Wilson interval over the cases. n counts the replies that were judged; overflow, degenerate and
server_fault stand apart in `left_out`, never silently against a recipe.
Not here: the verdict itself (`toolkit.evaluation.scoring`), plots (`toolkit.evaluation.plots`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from math import isnan
from pathlib import Path
from typing import Any

from toolkit.errors import ConfigError, did_you_mean
from toolkit.evaluation.probes import Probe
from toolkit.evaluation.saving import PROBES, save_run
from toolkit.evaluation.scoring import LEFT_OUT, OUTCOMES
from toolkit.evaluation.statistics import ALPHA, NAN, Comparison, Rate, compare_pairs, holm
from toolkit.recipes import Recipe
from toolkit.traces.json_text import MOST_SHOWN, frame_html, parsed, read_text, writable
from toolkit.traces.text import printable


class Result:
    """Hold one row for each reply or run, and the recipes that led to them.

    Attributes:
        rows: DataFrame; one line a (recipe, case, repeat) with outcome, raw text, calls, tokens and seconds.
        recipes: the recipes, in order.
        probes: what `tk.probe` had found of their models, where the store holds it.
    """

    def __init__(
        self, rows: Iterable[Mapping[str, Any]] | Any, recipes: Iterable[Recipe] = (), probes: Iterable[Probe] = ()
    ) -> None:
        import pandas as pd

        self.rows = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))
        self.recipes = list(recipes)
        self.probes = list(probes)

    @cached_property
    def names(self) -> list[str]:
        """Return the recipes' names, in order."""
        return list(dict.fromkeys(self.rows["recipe"])) if len(self.rows) else []

    def table(self, by: str | None = None) -> Any:
        """Return one line for each recipe: k, n, rate and interval, and what it cost.

        Args:
            by: another column to split by, such as "domain" or "arm".

        Returns:
            DataFrame with right, judged, cases, rate, low, high (0 to 1); right ones among the cases where a call, and
            where none was right, and false calls among the latter; left_out as text; mean tokens and seconds a
            reply; tokens read and written for each success; of whole runs, the mean number of model calls, and how
            those ended that did not come to an answer.

        Raises:
            ConfigError: no such column.
        """
        import pandas as pd

        keys = ["recipe", by] if by else ["recipe"]
        if by and by not in self.rows:
            raise ConfigError(f"Results have no column {by!r}. {did_you_mean(by, self.rows.columns)}")
        groups = self.rows.groupby(keys, sort=False)
        return pd.DataFrame([{**dict(zip(keys, key, strict=True)), **summarise(rows)} for key, rows in groups])

    def compare(self, a: str, b: str) -> Comparison:
        """Compare two recipes on the cases that both were judged on.

        Raises:
            ConfigError: no such recipe.
        """
        for name in (a, b):
            if name not in self.names:
                raise ConfigError(f"No recipe {name!r} in these results. {did_you_mean(name, self.names)}")
        judged, cases = self._judged
        return compare_pairs(a, b, judged[a].to_numpy(), judged[b].to_numpy(), cases)

    def comparisons(self) -> Any:
        """Return every pair of recipes as a DataFrame, with Holm's correction over all of them."""
        import pandas as pd

        pairs = [(a, b) for i, a in enumerate(self.names) for b in self.names[i + 1 :]]
        found = [self.compare(a, b) for a, b in pairs]
        table = pd.DataFrame([asdict(comparison) for comparison in found])
        if len(table):
            table["p_holm"] = holm(list(table["p"]))
        return table

    def failures(self, recipe: str | None = None) -> Any:
        """Return the rows that were not right, raw replies beside the verdict."""
        wrong = self.rows[~self.rows["right"]]
        if recipe is not None:
            wrong = wrong[wrong["recipe"] == recipe]
        wanted = [
            "recipe", "case", "tags", "outcome", "detail", "question", "expects_call", "expected", "calls", "text"
        ]  # fmt: skip
        return wrong.reindex(columns=wanted).reset_index(drop=True)

    def outcomes(self) -> Any:
        """Return how often each outcome came, one line a recipe, one column an outcome."""
        import pandas as pd

        counts = pd.crosstab(self.rows["recipe"], self.rows["outcome"])
        return counts.reindex(index=self.names, columns=list(OUTCOMES), fill_value=0)

    def readings(self) -> Any:
        """Return how often the calls of the chat and of the model's own text agree (`transport = "both"`).

        One line a recipe; columns `same`, `differ`, `chat only`, `text only`. `failures` and `rows` have the cases.
        """
        import pandas as pd

        asked = self.rows[self.rows["readings"].fillna("") != ""] if "readings" in self.rows else self.rows[:0]
        counts = pd.crosstab(asked["recipe"], asked["readings"]) if len(asked) else pd.DataFrame()
        return counts.reindex(columns=["same", "differ", "chat only", "text only"], fill_value=0)

    def best(self) -> Best:
        """Return the recipe with the highest rate, ties to the one that spends fewer tokens for each success.

        Raises:
            ConfigError: no reply was judged.
        """
        table = self.table().dropna(subset=["rate"])
        if not len(table):
            raise ConfigError("No reply was judged: all were overflow, degenerate or server_fault. See outcomes().")
        top = table.sort_values(["rate", "tokens_per_success"], ascending=[False, True]).iloc[0]
        return Best(str(top["recipe"]), Rate.of(*map(int, top[_COUNTS])))

    def answer(self) -> str:
        """Say which recipe did best or which are level, on how many replies, and how sure that is."""
        return printable(self._answer())

    def _answer(self) -> str:
        try:
            best = self.best()
        except ConfigError as error:
            return str(error)
        rate = f"{best.rate} of the judged replies right (95 % Wilson interval)"
        table = self.table().dropna(subset=["rate"]).sort_values("rate", ascending=False)
        others = {name: rate for name, rate in zip(table["recipe"], table["rate"], strict=True) if name != best.name}
        if not others:
            return f"{best.name} leads: {rate}."
        second = next(iter(others))
        pairs = self.comparisons()
        pair = pairs[(pairs["a"].isin(rest := {best.name, second})) & (pairs["b"].isin(rest))].iloc[0]
        gap, p = self.compare(best.name, second), float(pair["p_holm"])
        level = [name for name, other in others.items() if other == best.rate.rate]
        if level:
            return f"No recipe leads: {best.name}, {rate}, is level with {', '.join(level)}. {gap!r}."
        corrected = f", {p:.3g} after Holm's correction over {len(pairs)} comparisons" if len(pairs) > 1 else ""
        # the best was picked after looking, so every pair counts as a comparison made
        surely = gap.difference > 0 and p < ALPHA
        sure = "and the data separate it from" if surely else "but the data do not separate it from"
        return f"{best.name} leads: {rate}, {sure} {second}: {gap.describe()}{corrected}."

    def best_against_rest(self) -> list[Comparison]:
        """Compare the best recipe with each other one; nothing where there is no other, or no reply was judged."""
        if len(self.names) < 2 or not self.table()["judged"].any():
            return []
        best = self.best().name
        return [self.compare(best, name) for name in self.names if name != best]

    def plot(self) -> Any:
        """Draw rates with intervals beside outcomes; return a matplotlib Figure."""
        from toolkit.evaluation.plots import plot_rates

        return plot_rates(self.table(), self.outcomes())

    def save(self, folder: str | Path) -> Path:
        """Write table and rows (CSV and Parquet), probes and one TOML a recipe into a folder, and return it.

        Raises:
            ConfigError: the folder cannot be written.
        """
        return save_run(folder, self.table(), self.rows, self.recipes, self.probes)

    @classmethod
    def load(cls, folder: str | Path) -> Result:
        """Read what `save` wrote.

        Raises:
            ConfigError: there is no result in the folder.
        """
        import pandas as pd

        path = Path(folder) / "rows.parquet"
        if not path.is_file():
            raise ConfigError(f"There is no result in {str(folder)!r}: rows.parquet is missing.")
        rows = pd.read_parquet(path)
        place = {name: at for at, name in enumerate(dict.fromkeys(rows["recipe"]))}
        recipes = [Recipe.load(file) for file in sorted((Path(folder) / "recipes").glob("*.toml"))]
        probed = Path(folder) / PROBES
        probes = parsed(read_text(probed), repr(str(probed))) if probed.is_file() else []
        recipes.sort(key=lambda recipe: place.get(recipe.name, len(place)))
        return cls(rows, recipes, map(Probe.from_dict, probes))

    @cached_property
    def _judged(self) -> tuple[Any, Any]:
        """Return one line for each case and repeat: 1 or 0 for each recipe, NaN where not judged; and its case."""
        import pandas as pd

        rows = self.rows.assign(right=self.rows["right"].astype(float).mask(self.rows["outcome"].isin(LEFT_OUT)))
        table = rows.pivot_table(values="right", index=["case", "repeat"], columns="recipe", dropna=False)
        return table.reindex(columns=self.names), pd.factorize(table.index.get_level_values("case"))[0]

    def to_text(self) -> str:
        """Return the table as lines for a terminal, with the reasons why replies were left out."""
        shown = display_table(self.table()).map(lambda value: printable(value) if isinstance(value, str) else value)
        left = self.rows[self.rows["outcome"].isin(LEFT_OUT)].groupby(["recipe", "outcome", "detail"], sort=False)
        counts = left.size().reset_index(name="count").to_dict("records")
        lines = [f"Left out of {r['recipe']}: {r['count']} × {r['outcome']}, {r['detail']}" for r in counts]
        for name, counts in self.readings().iterrows():
            told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
            lines.append(f"Calls of {name} as the server read them and in the model's own text: {told}")
        broken = [f"{one.model}, {what}" for one in self.probes if (what := one.says_broken)]
        return "\n".join([str(shown.to_string(index=False)), *map(printable, lines + broken)])

    __str__ = to_text

    def __repr__(self) -> str:
        return f"Result({len(self.names)} recipes × {self.rows['case'].nunique() if len(self.rows) else 0} cases)"

    def _repr_html_(self) -> str:
        shown = display_table(self.table())
        for column in ("recipe", "right [95 %]", "left out"):  # narrow notebooks must not break these
            shown[column] = shown[column].str.replace(" ", "\u00a0")
        return frame_html(shown)


@dataclass(frozen=True, slots=True)
class Best:
    """Name the recipe that did best, with its rate."""

    name: str
    rate: Rate


def summarise(rows: Any) -> dict[str, Any]:
    """Return k, n, rate, interval and cost of some rows of a result."""
    judged = rows[~rows["outcome"].isin(LEFT_OUT)]
    rate = Rate.of(int(judged["right"].sum()), len(judged), judged["case"].nunique())
    calls, quiet = judged[judged["expects_call"]], judged[~judged["expects_call"]]
    spent = _total(rows, "prompt_tokens") + _total(rows, "completion_tokens")
    return {
        "right": rate.k,
        "judged": rate.n,
        "cases": rate.cases,
        "rate": rate.rate,
        "low": rate.low,
        "high": rate.high,
        "calls_right": int(calls["right"].sum()),
        "calls_judged": len(calls),
        "abstentions_right": int(quiet["right"].sum()),
        "false_calls": int((quiet["outcome"] == "wrong_call").sum()),
        "abstentions_judged": len(quiet),
        "broken": int((judged["outcome"] == "broken_call").sum()),
        "left_out": _counted(rows["outcome"][rows["outcome"].isin(LEFT_OUT)]),
        "prompt_tokens": _mean(rows, "prompt_tokens"),
        "completion_tokens": _mean(rows, "completion_tokens"),
        "seconds": _mean(rows, "seconds"),
        "tokens_per_success": spent / rate.k if rate.k else NAN,
        **(_of_runs(rows) if "requests" in rows else {}),
    }


def _of_runs(rows: Any) -> dict[str, Any]:
    """Return what only whole runs have: several requests, and ends that are no answer."""
    stopped = rows["stop_reason"].fillna("error").mask(rows["detail"].str.startswith("limit: "), "limit")
    return {"requests": _mean(rows, "requests"), "stopped": _counted(stopped[~stopped.isin(_ANSWERED)])}


def _counted(words: Any) -> str:
    return ", ".join(f"{count} {word}" for word, count in words.value_counts().items())


def _total(rows: Any, column: str) -> float:
    return float(rows[column].sum()) if column in rows else 0.0


def _mean(rows: Any, column: str) -> float:
    return float(rows[column].astype(float).mean()) if column in rows else NAN


_ANSWERED = ("done", "return_direct")  # ends of a run that gave an answer
_COUNTS = ["right", "judged", "cases"]  # what a rate is made of
_DIGITS = {"prompt_tokens": 0, "completion_tokens": 0, "seconds": 2, "tokens_per_success": 0, "requests": 1}
_OUT_OF = dict.fromkeys(("abstentions_right", "false_calls"), "abstentions_judged") | {"calls_right": "calls_judged"}
_HEADINGS = {
    "right": "right [95 %]",
    "calls_right": "calls right",
    "abstentions_right": "abstained right",
    "false_calls": "false calls",
    "left_out": "left out",
    "prompt_tokens": "tokens in",
    "completion_tokens": "tokens out",
    "tokens_per_success": "tokens/success",
}


def display_table(table: Any) -> Any:
    """Return a result table as people read it: one column "right" with k/n, rate and interval."""
    shown = table.copy()
    for column in _DIGITS.keys() & set(shown):
        shown[column] = ["–" if isnan(value) else f"{value:,.{_DIGITS[column]}f}" for value in shown[column]]
    shown["right"] = [repr(Rate.of(*map(int, counts))) for counts in table[_COUNTS].to_numpy()]
    for column, out_of in _OUT_OF.items():
        shown[column] = [f"{k}/{n}" for k, n in zip(table[column], table[out_of], strict=True)]
    return shown.drop(columns=["judged", "cases", "rate", "low", "high", *set(_OUT_OF.values())]).rename(
        columns=_HEADINGS
    )


def readable(frame: Any, wrap: bool = True) -> Any:
    """Return a DataFrame styled for reading: left-aligned, without index, escaped as hostile text.

    Args:
        frame: any DataFrame.
        wrap: wrap long texts such as replies; else each row keeps to one line.
    """
    look = {"text-align": "left", "vertical-align": "top"}
    look |= {"white-space": "pre-wrap", "max-width": "28em"} if wrap else {"white-space": "nowrap"}
    frame = frame.map(lambda value: writable(value[:MOST_SHOWN]) if isinstance(value, str) else value)
    styled = frame.style.hide(axis="index").format(escape="html", precision=3).format_index(escape="html", axis=1)
    styled = styled.format_index(escape="html", axis=0).set_properties(**look)
    return styled.set_table_styles([{"selector": "th", "props": "text-align: left"}])
