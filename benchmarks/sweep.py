"""How long does a sweep take beside its model? `python benchmarks/sweep.py`: an instant model, every reply stored.

It prints microseconds a case for a fresh run, for one that finds every reply in the store, and for one without a
store, and seconds for a whole resumed call of `evaluate`.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import toolkit as tk
from toolkit.models.base import ChatModel, Chunk, Reply

TOOL = {
    "name": "weather",
    "description": "Tell the weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}},
        "required": ["city"],
    },
}


class Instant(ChatModel):
    """Answer every request at once with the same call."""

    name = "instant"

    def answer(self, request):
        text = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'
        yield Chunk(reply=Reply(text, prompt_tokens=100, completion_tokens=20, model="instant"))

    def fingerprint(self):
        return {"backend": "instant", "name": "instant", "digest": "1", "server": "1"}


def cases(count):
    """Return cases that share a tool, as those of a file do."""
    folder = Path(tempfile.mkdtemp())
    (folder / "mine.tools.json").write_text(json.dumps([TOOL]))
    calls = [{"name": "weather", "arguments": {"city": "Oslo"}}]
    lines = [
        {"id": f"c{at}", "messages": [{"role": "user", "content": f"Rain in Oslo on day {at}?"}], "tools": ["weather"],
         "expect": {"calls": calls}}
        for at in range(count)
    ]  # fmt: skip
    (folder / "mine.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tk.load_cases(folder / "mine.jsonl")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    asked = cases(given.cases)
    recipe = tk.Recipe("instant", protocol="hermes")
    taken = {"without a store": [], "fresh, stored": [], "resumed": []}
    for _ in range(given.rounds):
        store = Path(tempfile.mkdtemp()) / "replies.sqlite"
        for name, path in (("without a store", None), ("fresh, stored", store), ("resumed", store)):
            start = time.process_time()
            result = tk.evaluate(recipe, asked, store=path, models={"instant": Instant()}, progress=False)
            taken[name].append(time.process_time() - start)
            assert result.rows["right"].all()
    for name, seconds in taken.items():
        best = min(seconds)
        print(f"{name:16} {1e6 * best / given.cases:7.0f} µs a case   {best:.3f} s for {given.cases} cases")


if __name__ == "__main__":
    main()
