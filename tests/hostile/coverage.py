"""Let atheris look for texts that reach new code: `pip install atheris`, then `python -m tests.hostile.coverage`.

Its own options follow, such as `-max_total_time=600`. Any exception ends it, and so does a text of 4,096 bytes that
takes five seconds, or a stream that gives another reading than the whole.
Not here: texts made from the tables of syntaxes (`extraction`).
"""

from __future__ import annotations

import sys
from typing import Any


def main() -> None:
    """Read texts of whole pieces and of loose characters, for as long as it is wanted."""
    import atheris  # type: ignore[import-not-found] # not among the test packages: it is built for few systems

    with atheris.instrument_imports(include=["toolkit.extraction"]):
        from tests.hostile.extraction import TOOLS, in_a_stream, pieces
    every = pieces()

    def one(data: bytes) -> None:
        given: Any = atheris.FuzzedDataProvider(data)
        text = ""
        while given.remaining_bytes() and len(text) < 4096:
            loose = given.ConsumeBool()
            text += given.ConsumeUnicode(given.ConsumeIntInRange(0, 8)) if loose else given.PickValueInList(every)
        in_a_stream(text, TOOLS, [given.ConsumeIntInRange(1, 40) for _ in range(4)])

    atheris.Setup([*sys.argv, "-timeout=5", "-max_len=512"], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
