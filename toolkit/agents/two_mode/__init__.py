"""Tool mode and chat mode over one history: TwoModeAgent.

`agent` (one message) · `reading` (what tool mode wanted) · `actions` (running it) · `prompts` (templates, examples and
the turns they show) · `turn` (what happened); the published rule: `toolkit.agents.originals.two_mode`.
"""
