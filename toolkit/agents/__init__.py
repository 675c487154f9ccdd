"""Run models with tools: the agent loop and its middleware, AirgapChat, the two-mode agent.

Names load from `toolkit` itself; ready middleware is in `toolkit.agents.builtin`.
"""
