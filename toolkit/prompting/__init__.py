"""Build prompts: protocols (how tools are shown, how calls are asked for) and the templates they are written in."""
