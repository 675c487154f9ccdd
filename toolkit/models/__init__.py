"""Reach models: one string names any of them, and all give the same `Reply`.

`base` (ChatModel, Reply) · `options` · `registry` (load_model, list_models) · `backend` (the road of a request: pieces
into a Reply), `call_pieces`, `wire` (parts and errors) · `connection` (HTTP) · `ollama` · `openai` (any
OpenAI-compatible server, and the format) · `embedded` (in-process llama.cpp), `llama`, `weights`, `gguf` (its server
and file) · `scripted` (tests) · `catalogue` (show, pull, running), `roads`
(what an Ollama server does with a chat) · `store`, `database`, `claims`, `keys`, `recordings` (record and replay).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = [
    "ChatModel", "Chunk", "Fault", "ModelCard", "Options", "Reply", "ScriptedModel", "Store", "list_models",
    "load_model", "model_table", "pull_model", "running_models", "show_model",
]  # fmt: skip

if TYPE_CHECKING:
    from toolkit.models.base import ChatModel, Chunk, Fault, Options, Reply
    from toolkit.models.catalogue import ModelCard, model_table, pull_model, running_models, show_model
    from toolkit.models.registry import list_models, load_model
    from toolkit.models.scripted import ScriptedModel
    from toolkit.models.store import Store

_HOMES = {
    "catalogue": ("ModelCard", "model_table", "pull_model", "running_models", "show_model"),
    "registry": ("list_models", "load_model"),
    "scripted": ("ScriptedModel",),
    "store": ("Store",),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'toolkit.models' has no attribute {name!r}")
    import importlib

    home = next((home for home, names in _HOMES.items() if name in names), "base")
    return getattr(importlib.import_module(f"toolkit.models.{home}"), name)
