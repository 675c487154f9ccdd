"""Prompt-based tool calling over a plain chat model: AirgapChat.

`chat` (the model with tools) · `rounds` (the loop) · `blocks` (results as delimited text) · `reply` · `stream` ·
`tools` · `compat` (the original, rule for rule).
"""
