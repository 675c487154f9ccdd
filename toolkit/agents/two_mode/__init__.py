"""Tool mode and chat mode over one history: TwoModeAgent.

`agent` (the conversation) · `steps` (one message) · `reading` (what tool mode wanted) · `actions` (running it) ·
`prompts` · `history` · `turn` (what happened) · `faithful` (the published rule).
"""
