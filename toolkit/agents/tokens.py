"""Estimate tokens of messages where no tokenizer is at hand.

Not here: exact counts; servers report them in `Reply.prompt_tokens`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from toolkit.messages import ChatMessage

CHARACTERS = 4  # per token, of English text and JSON in common vocabularies
FRAME = 3  # tokens that a chat template adds to a message


def estimate(messages: Iterable[ChatMessage]) -> int:
    """Return an estimate of the tokens of messages: four characters are one, and each message costs three more.

    >>> estimate([ChatMessage.from_user("four")])
    4
    """
    return sum(FRAME + tokens_of(_text(message)) for message in messages)


def tokens_of(text: str) -> int:
    """Return an estimate of the tokens of a text."""
    return -(-len(text) // CHARACTERS)


def _text(message: ChatMessage) -> str:
    calls = (
        json.dumps(call.arguments, ensure_ascii=False, default=str) + call.tool_name for call in message.tool_calls
    )
    return "".join([*message.texts, *calls, *(str(result.result) for result in message.tool_call_results)])
