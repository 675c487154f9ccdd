"""Test what talks to a model server against servers that behave as the real ones do, on this machine.

`FakeOllama` and `FakeLlamaServer` are HTTP servers on loopback with scripted models behind them. What they
answer (status, keys and their order, error texts, endings) is checked against recordings of real servers.

Not here: a model without a server (`toolkit.ScriptedModel`), weights that run (`toolkit.models.embedded`).
"""

from toolkit.testing.llama_server import FakeLlamaServer
from toolkit.testing.models import FakeModel
from toolkit.testing.ollama import FakeOllama
from toolkit.testing.script import ScriptedReply

__all__ = ["FakeLlamaServer", "FakeModel", "FakeOllama", "ScriptedReply"]
