"""Draw the README's picture and table from the committed recording: `python notebooks/batch/make_picture.py`.

The recording holds the embedded model's replies to the demo's cases and recipes, so the figures can be checked
without running a model; a test holds the README equal to what this prints.
"""

from pathlib import Path

import toolkit as tk

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
START, END = "<!-- demo table: notebooks/batch/make_picture.py -->", "<!-- end of demo table -->"


def demo_result() -> tk.Result:
    """Replay the demo: 24 cases, four recipes, the embedded model."""
    store = tk.Store(ROOT / "data" / "recordings" / "evaluate.jsonl")
    cases = tk.load_cases("all", "demo")
    return tk.evaluate(HERE / "recipes", cases, store=store, mode="replay", progress=False)


def table(result: tk.Result) -> str:
    """Return the result as a Markdown table."""
    shown = tk.evaluation.display_table(result.table())
    wanted = [
        "recipe",
        "right [95 %]",
        "calls right",
        "abstained right",
        "false calls",
        "broken",
        "left out",
        "tokens/success",
    ]
    rows = [wanted, ["---"] * len(wanted), *shown[wanted].astype(str).to_numpy().tolist()]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> None:
    """Write the picture and the table."""
    result = demo_result()
    result.plot().savefig(HERE / "demo.png", dpi=150, facecolor="white")
    readme = (ROOT / "README.md").read_text("utf-8")
    before, after = readme.split(START)[0], readme.split(END)[1]
    (ROOT / "README.md").write_text(f"{before}{START}\n{table(result)}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
