"""Reach models: one string names any of them, and all give the same `Reply`.

`base` (ChatModel, Reply, Options) · `embedded` (in-process llama.cpp) · `weights` (fetch and check them) ·
`ollama` · `openai` (any OpenAI-compatible server) · `scripted` (tests) · `store` (record and replay).
"""
