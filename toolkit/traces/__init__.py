"""Keep what happened in a run: Trace (`trace`), its file (`file`), its views (`view`, `text`)."""

from toolkit.traces.trace import Event, Trace, unanswered

__all__ = ["Event", "Trace", "unanswered"]
