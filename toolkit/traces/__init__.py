"""Keep what happened in a run: Trace (`trace`), its file (`file`), its view in a notebook (`view`)."""

from toolkit.traces.trace import Event, Trace

__all__ = ["Event", "Trace"]
