"""Tools of a real MCP server process, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import inspect
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolkit.errors import (
    ConfigError,
    ToolArgumentsError,
    ToolInvocationError,
    ToolkitError,
    ToolTimeoutError,
    UserError,
)
from toolkit.execution.invoker import ToolInvoker
from toolkit.execution.mcp import McpSession, _tool
from toolkit.execution.toolset import Toolset
from toolkit.messages import ChatMessage, ToolCall
from toolkit.secrets import Secret
from toolkit.tools import Tool

pytest.importorskip("mcp")
SERVER = [sys.executable, str(Path(__file__).with_name("mcp_server.py"))]
ROGUE = [sys.executable, str(Path(__file__).with_name("rogue_mcp_server.py"))]


@pytest.fixture(scope="module")
def tools() -> Iterator[Toolset]:
    with Toolset.from_mcp(SERVER, timeout_s=30) as found:
        yield found


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with subprocess.Popen([*SERVER, "--http"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        yield f"http://127.0.0.1:{port}/mcp"
        process.terminate()


def test_tools_have_name_text_schema_and_effect(tools: Toolset) -> None:
    add = tools["add"]
    assert (add.description, add.required, add.effect) == ("Add two numbers.", ["a"], "reads")
    assert (tools["greet"].effect, tools["fail"].effect) == ("writes", "dangerous")


def test_call(tools: Toolset) -> None:
    assert tools["add"](a=3) == "4"
    assert tools["greet"](name="Ö") == "Grüß dich, Ö!"
    assert tools["stock"]() == {"coats": 3}


def test_with_the_invoker(tools: Toolset) -> None:
    calls = [ToolCall("add", {"a": 1, "b": n}, str(n)) for n in range(3)]
    out = ToolInvoker(tools).run(messages=[ChatMessage.from_assistant(tool_calls=calls)])
    assert [message.tool_call_result.result for message in out["tool_messages"]] == ["1", "2", "3"]
    with pytest.raises(ToolArgumentsError, match="a: expected integer"):
        ToolInvoker(tools).invoke(ToolCall("add", {"a": "x"}))


def test_inside_a_running_loop(tools: Toolset) -> None:
    async def cell() -> Any:
        return tools["add"](a=1)

    assert asyncio.run(cell()) == "2"


def test_error_of_a_tool_is_a_tool_error(tools: Toolset) -> None:
    with pytest.raises(ToolInvocationError, match="MCP tool 'fail' reported an error"):
        tools["fail"](reason="no")
    assert tools["add"](a=1) == "2"


@pytest.mark.slow
def test_prefix_and_allow_list_avoid_clashes(tools: Toolset) -> None:
    with Toolset.from_mcp(SERVER, prefix="b_", allowed_tools=["add", "greet"]) as others:
        assert others.names == ["b_add", "b_greet"]
        assert (tools + others)["b_add"](a=1) == "2"
        with pytest.raises(ConfigError, match="unique"):
            tools + tools


@pytest.mark.slow
def test_unknown_allowed_tool() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'add'"):
        Toolset.from_mcp(SERVER, allowed_tools=["addd"])


@pytest.mark.slow
def test_time_limit() -> None:
    with Toolset.from_mcp(SERVER, timeout_s=5) as found:
        found.connection.timeout_s = 0.3
        start = time.monotonic()
        with pytest.raises(ToolTimeoutError, match=r"within 0\.3 s"):
            found["slow"](seconds=2)
        assert time.monotonic() - start < 2


@pytest.mark.slow
def test_a_stalled_server_is_named_and_can_be_reopened() -> None:
    with Toolset.from_mcp(SERVER, timeout_s=20) as found:
        found.connection.timeout_s = 0.3
        with pytest.raises(ToolTimeoutError, match=r"'stall' did not finish within 0\.3 s\.$"):
            found["stall"](seconds=30)
        for _ in range(2):
            with pytest.raises(ToolTimeoutError, match=r"nothing since its 'stall' ran out of time.*reopen\(\)"):
                found["add"](a=1)
        found.connection.timeout_s = 20
        found.reopen()
        assert found["add"](a=1) == "2"


@pytest.mark.slow
def test_a_session_goes_on_once_the_server_answers_again() -> None:
    with Toolset.from_mcp(SERVER, timeout_s=20) as found:
        found["add"](a=1)
        found.connection.timeout_s = 0.3
        with pytest.raises(ToolTimeoutError):
            found["stall"](seconds=1)
        found.connection.timeout_s = 20
        assert found["add"](a=1) == "2"
        found.connection.timeout_s = 0.3
        with pytest.raises(ToolTimeoutError, match=r"0\.3 s\.$"):
            found["stall"](seconds=1)


@pytest.mark.parametrize("given", [None, 0, float("inf")], ids=repr)
def test_every_session_has_a_finite_limit(given: Any) -> None:
    assert 0 < inspect.signature(McpSession).parameters["timeout_s"].default < 120
    with pytest.raises(ConfigError, match="finite number of seconds"):
        Toolset.from_mcp(SERVER, timeout_s=given)


def test_crash_is_a_clear_error() -> None:
    with Toolset.from_mcp(SERVER, timeout_s=20) as found:
        for name, arguments in (("crash", {}), ("add", {"a": 1})):
            with pytest.raises(ToolInvocationError, match=r"is gone.*out of cheese"):
                found[name](**arguments)


def test_closing_ends_thread_and_process() -> None:
    found = Toolset.from_mcp(SERVER)
    thread = found.connection._thread
    found.close()
    found.close()
    assert not thread.is_alive()
    with pytest.raises(ToolInvocationError, match="is gone"):
        found["add"](a=1)


@pytest.mark.parametrize(
    "command",
    [["/no/such/program"], [sys.executable, "-c", "import sys; sys.exit('boom')"]],
    ids=["missing", "ends_at_once"],
)
def test_server_that_does_not_start(command: list[str]) -> None:
    before = threading.active_count()
    with pytest.raises(UserError, match="cannot be used"):
        Toolset.from_mcp(command, timeout_s=10)
    assert threading.active_count() <= before


def test_server_that_says_nothing() -> None:
    with pytest.raises(UserError, match="did not answer in time"):
        Toolset.from_mcp([sys.executable, "-c", "import sys; sys.stdin.read()"], timeout_s=0.5)


@pytest.mark.slow
def test_secret_reaches_the_server_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLKIT_TEST_KEY", "s3cret-value")
    secret = Secret.from_env_var("TOOLKIT_TEST_KEY")
    with Toolset.from_mcp(SERVER, env={"API_KEY": secret}) as found:
        assert found["environment_length"](name="API_KEY") == str(len("s3cret-value"))
        assert found["environment"](name="API_KEY") == "[hidden]"
        assert found["environment_data"](name="API_KEY") == {"values": ["[hidden]", "x"]}
        with pytest.raises(ToolInvocationError, match=r"bad value \[hidden\]") as caught:
            found["fail_with_environment"](name="API_KEY")
        assert caught.value.__context__ is None
        result = ToolInvoker(found, raise_on_failure=False).invoke(
            ToolCall("fail_with_environment", {"name": "API_KEY"})
        )
        assert (result.error, "s3cret" in repr(result) + str(result.traceback)) == (True, False)
        assert found["environment"](name="TOOLKIT_TEST_KEY") == ""
        assert "s3cret" not in repr(found) + repr(found.connection)
    code = "import os, sys; sys.exit('bad key ' + os.environ['API_KEY'])"
    with pytest.raises(UserError, match=r"bad key \[hidden\]"):
        Toolset.from_mcp([sys.executable, "-c", code], env={"API_KEY": secret}, timeout_s=10)


@pytest.mark.slow
def test_http(address: str) -> None:
    with Toolset.from_mcp(url=address, headers={"X-Key": Secret.from_token("s3cret-value")}) as found:
        assert found["add"](a=3) == "4"
        with pytest.raises(ToolInvocationError, match="reported an error"):
            found["fail"](reason="no")


def test_nobody_at_the_url() -> None:
    with pytest.raises(UserError, match=r"'http://127\.0\.0\.1:9/mcp' cannot be used"):
        Toolset.from_mcp(url="http://127.0.0.1:9/mcp?key=s3cret", timeout_s=5)


@pytest.mark.parametrize("given", [{}, {"command": ["x"], "url": "http://x"}], ids=["neither", "both"])
def test_one_of_command_and_url(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="not both or neither"):
        Toolset.from_mcp(**given)


def test_missing_package_names_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(UserError, match="pip install 'mcp>=2'"):
        Toolset.from_mcp(SERVER)


def test_schema_that_refers_outside_is_refused() -> None:
    schema = {"properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}
    listed = SimpleNamespace(name="t", description="", title="T", input_schema=schema, annotations=None)
    with pytest.raises(ConfigError, match="leads out of the schema"):
        _tool(object.__new__(McpSession), listed, "")


def test_tools_are_ordinary_tools(tools: Toolset) -> None:
    assert all(isinstance(tool, Tool) for tool in tools)


def _rogue(seed: int) -> list[str]:
    """Use all tools of a server that answers as a seed says; return what came of it."""
    try:
        with Toolset.from_mcp([*ROGUE, str(seed)], timeout_s=1) as found:
            invoker = ToolInvoker(found, raise_on_failure=False)
            return [str(invoker.invoke(ToolCall(name, {"a": "x"})).result) for name in found.names]
    except ToolkitError as error:
        return [str(error)]


@pytest.mark.parametrize("seed", range(8))
def test_a_rogue_server_raises_nothing_raw(seed: int) -> None:
    assert not [text for text in _rogue(seed) if " failed with " in text or "\n  " in text]


@pytest.mark.slow
def test_a_rogue_server_raises_nothing_raw_for_long() -> None:
    for seed in range(100, 300):
        assert not [text for text in _rogue(seed) if " failed with " in text or "\n  " in text], seed


def test_no_session_is_left_open_where_two_tools_share_a_name() -> None:
    before = {thread for thread in threading.enumerate() if thread.name == "toolkit-mcp"}
    with pytest.raises(ConfigError, match="must be unique"):
        Toolset.from_mcp([*ROGUE, "3"], timeout_s=5)
    assert {thread for thread in threading.enumerate() if thread.name == "toolkit-mcp"} <= before


def test_a_key_in_the_address_is_hidden(address: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with Toolset.from_mcp(url=f"{address}?api_key=s3cret-key") as found:
        assert found["greet"](name="s3cret-key") == "Grüß dich, [hidden]!"
    assert "api_key=[hidden]" in caplog.text
    assert "api_key=s3cret" not in caplog.text
    with pytest.raises(UserError) as caught:
        Toolset.from_mcp(url="http://ann:s3cret-pw@127.0.0.1:9/mcp?token=s3cret-key", timeout_s=2)
    assert "s3cret" not in repr([caught.value, caught.value.__cause__, caught.value.__context__])
