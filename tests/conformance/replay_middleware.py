"""Does our agent do what LangChain's and its middleware were seen to do? Replay a file of observed scenarios.

    python tests/conformance/replay_middleware.py FILE.json

The format is described inside such a file (`format`); options and output: see `replay`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import meaning
from middleware_world import play
from replay import Family, main

FAMILY = Family("middleware", play, meaning.middleware)

if __name__ == "__main__":
    main(FAMILY)
