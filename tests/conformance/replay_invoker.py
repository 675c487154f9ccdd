"""Do our tool execution and our API calls do what Haystack's were seen to do? Replay a file of observed scenarios.

    python tests/conformance/replay_invoker.py FILE.json

The format is described inside such a file (`format`); options and output: see `replay`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import meaning
from invoker_world import play
from replay import Family, main

FAMILY = Family("invoker", play, meaning.invoker)

if __name__ == "__main__":
    main(FAMILY)
