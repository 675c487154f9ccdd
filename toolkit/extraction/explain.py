"""Tell which syntaxes and repairs saved which model's replies, and which ones invent calls: a rescue matrix.

Not here: scoring against a case's expectation (`toolkit.evaluation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from toolkit.extraction.pipeline import extract
from toolkit.extraction.resolve import ToolIndex, tool_index

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.extraction.types import Extraction

COLUMNS = ("model", "kind", "code", "replies", "calls", "invented", "example")


def explain(replies: Iterable[Any], tools: Iterable[Any] | None = None, protocol: Any = "auto") -> pd.DataFrame:
    """Read many stored replies anew and count what reading them took; no model is asked.

    One row for each model and each `syntax`, `repair`, `confidence`, `status` or `rejected` reason. `calls` would be
    lost without that syntax or repair; `invented` counts those in replies that should call nothing, and is NaN where no
    reply says what was expected.

    >>> frame = explain([{"model": "m", "text": 'TOOL_CALL: f {"a": 1,}'}], tools=[{"name": "f"}])
    >>> frame[frame.kind == "repair"][["model", "code", "calls"]].values.tolist()
    [['m', 'trailing_comma', 1]]

    Args:
        replies: texts, or mappings with `text` and perhaps `model`, `tools`, `finish_reason` and `expected` (a list of
            calls, empty if the reply should call nothing).
        tools: the tools of replies that do not bring their own.
        protocol: as for `extract`.
    """
    import pandas as pd

    counts: dict[tuple[str, str, str], list[Any]] = {}
    shared = tool_index(tools)
    judged = False
    for reply in replies:
        item = reply if isinstance(reply, Mapping) else {"text": reply}
        found = _read(item, shared, protocol)
        unwanted = "expected" in item and not item["expected"]
        judged = judged or "expected" in item
        for kind, code, calls in _marks(found):
            row = counts.setdefault((str(item.get("model", "")), kind, code), [0, 0, 0, (item.get("text") or "")[:120]])
            row[0] += 1
            row[1] += calls
            row[2] += calls if unwanted else 0
    rows = [(*key, row[0], row[1], row[2] if judged else float("nan"), row[3]) for key, row in counts.items()]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.sort_values(["kind", "calls", "replies"], ascending=[True, False, False], ignore_index=True)


def rescue_matrix(frame: pd.DataFrame, kind: str = "repair", value: str = "calls") -> pd.DataFrame:
    """Return `explain`'s rows of one kind with a line for each code and a column for each model."""
    chosen = frame[frame["kind"] == kind]
    return chosen.pivot_table(index="code", columns="model", values=value, aggfunc="sum", fill_value=0)


def _read(item: Mapping[str, Any], shared: ToolIndex, protocol: Any) -> Extraction:
    tools = item["tools"] if item.get("tools") is not None else shared
    return extract(item.get("text"), tools, protocol, finish_reason=item.get("finish_reason"))


def _marks(found: Extraction) -> Iterator[tuple[str, str, int]]:
    """Yield (kind, code, calls) once for each thing that a reply shows."""
    yield "status", found.status, len(found.calls)
    for code in dict.fromkeys(call.syntax for call in found.calls):
        yield "syntax", code, sum(call.syntax == code for call in found.calls)
    for code in dict.fromkeys(call.confidence for call in found.calls):
        yield "confidence", code, sum(call.confidence == code for call in found.calls)
    for code in dict.fromkeys(found.repairs):
        yield "repair", code, sum(code in call.repairs for call in found.calls)
    for code in dict.fromkeys(one.reason for one in found.rejected):
        yield "rejected", code, 0
