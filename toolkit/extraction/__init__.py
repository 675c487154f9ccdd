"""Read tool calls out of any local model's text: `extract`, `StreamExtractor`.

The pipeline in ten lines:

1.  `scan` finds the next place where something may begin; plain prose is only scanned.
2.  `walk` reads what begins there, left to right; the outermost construct wins, and what is in a call is data.
3.  `syntaxes/` say what may begin there: a table of `wrappers`, a table of `marks` (thoughts, echoes, leaked tokens),
    and a small module for each call syntax with a logic of its own.
4.  `bodies`, `parameters`, `python_calls` read what stands in a wrapper: JSON, Python calls, tagged values.
5.  `lenient_json` decodes strictly first; `values` and `quoted` mend, record each repair, and refuse what is cut.
6.  `shapes` finds name and arguments in a decoded value, under every key that models use.
7.  `places` turns down what stands quoted, hedged or in a sentence, if no marker announces it; `negatives` schema
    echoes, placeholders and signatures.
8.  `settle` resolves the name (`resolve`) and fits the arguments to the schema (`coerce`), losing nothing.
9.  `pipeline` drops doubles and cut calls and says `called`, `abstained`, `broken` or `truncated`.
10. `stream` does the same on a growing text; `html` shows what was done.

Not here: running the calls (`toolkit.execution`), writing prompts (`toolkit.prompting.protocols`).
"""

from toolkit.extraction.pipeline import extract
from toolkit.extraction.stream import StreamEvent, StreamExtractor
from toolkit.extraction.types import ExtractedCall, Extraction, Rejected

__all__ = ["ExtractedCall", "Extraction", "Rejected", "StreamEvent", "StreamExtractor", "extract"]
