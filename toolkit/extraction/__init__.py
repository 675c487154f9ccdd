"""Read tool calls out of any local model's text: `extract`, `StreamExtractor`, `explain`.

Not here: running the calls (`toolkit.execution`), writing prompts (`toolkit.protocols`).
"""

from toolkit.extraction.pipeline import extract
from toolkit.extraction.stream import StreamExtractor
from toolkit.extraction.types import ExtractedCall, Extraction, Rejected

__all__ = ["ExtractedCall", "Extraction", "Rejected", "StreamExtractor", "extract"]
