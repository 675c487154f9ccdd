"""Why does our loop differ where it does on purpose? One line for each row that a verdict may name.

A-W1 to A-W18 are weaknesses of the original that are repaired here; names without a letter W are paragraphs of its
described behaviour from which we depart; D1 and the like are differences by choice that no weakness asks for.
Each row is met by a rule of the model (`middleware_oracle`), which predicts what our run must be then.
"""

from __future__ import annotations

ROWS = {
    "A-W1": "a jump to the tools runs calls without a result only, not those that were answered or denied",
    "A-W2": "a jump to the model works from the first before_model hook too",
    "A-W3": "a jump to a target that is not declared is an error, not lost",
    "A-W4": "a tool's exception is an error result for its call; the other calls keep theirs",
    "A-W5": "what no schema declares is an error, not dropped; so is a Command's update that is no dict",
    "A-W6": "of two writers of a plain field in one step the later wins",
    "A-W7": "requests cannot be changed in place",
    "A-W8": "two middlewares of one class are told apart by numbers",
    "A-W9": "a sync wrapper works in an async run, and an async-only hook is refused before a sync run starts",
    "A-W11": "what a wrapper returns must be a response, or a result for its call",
    "A-W12": "calls that cannot be read are answered with the reason, and the model is asked again",
    "A-W14": "the limit counts model calls, not steps, and a run that ends on it keeps its state",
    "A-W17": "two tools of one name are refused when the agent is built, those of ready-made middleware included",
    "A-W18": "a call of a tool that was not offered is refused, also where no tool was to be called at all",
    "A1.7": "Commands of this loop have an update only; a goto is refused",
    "A3.4": "a field is private if its last declaration says so; there one public declaration makes it public",
    "A12": "a structured answer is made to fit without loss, and several at once are refused",
    "D1": "arguments that would change their meaning are refused: true or 1_000 for a number, yes or 1 for a truth",
    "D2": "a call that its server gave no id gets one, so that its result can refer to it",
    "D3": "an answer's shape that only a wrapper asks for works",
    "D4": "what was removed with all others cannot be removed again; there the marker stays in the history",
    "D5": "a limit of model calls counts those too after which an inner hook jumped",
    "D6": "a tool-error middleware refuses what cannot be called when it is built, not at the first error",
    "D7": "personal data is looked for in all messages, in the arguments of calls, and in some more shapes",
    "D8": "an empty summary leaves the history as it is; there the old part is lost",
    "D9": "a size that is part of the window needs no profile of the model",
    "D10": "a list of todos in the input is kept, since a run hands it on",
    "D11": "a tool that the choosing model made up is passed over",
    "D12": "tools are chosen by the words they share with the question where no model is named for it",
    "D13": "whether results are the answer is decided once for the turn, not by each call in turn",
}
