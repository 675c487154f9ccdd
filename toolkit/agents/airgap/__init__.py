"""Prompt-based tool calling over a plain chat model: AirgapChat.

`chat` (the model with tools, and its stream) · `rounds` (the loop) · `blocks` (results as delimited text) · `reply`;
the original, rule for rule: `toolkit.agents.originals.airgap`.
"""
