"""Prompt-based tool calling over a plain chat model: AirgapChat.

`chat` (the model with tools, and its stream) · `rounds` (the loop, its reply) · `blocks` (results as delimited text);
the original, rule for rule: `toolkit.agents.originals.airgap`.
"""
