"""Keep every reply, so that no question is asked twice and a run can be replayed without any model.

Not here: the file itself (`database`), the key of a request (`keys`), recordings (`recordings`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, Literal, Self, get_args

from toolkit.errors import ConfigError, ReplayMissError, StoreError, UserError, did_you_mean
from toolkit.models.base import ChatModel, ChatRequest, Chunk, Options, Reply
from toolkit.models.claims import claim
from toolkit.models.connection import public_name
from toolkit.models.database import explained, open_database
from toolkit.models.keys import as_json, differences, digest, nearest, reply_key, text_digest
from toolkit.models.roads import Transport
from toolkit.traces.json_text import loads

Mode = Literal["record", "replay", "off"]

# a server that was away or slow may answer next time, so these are asked again
_NOT_KEPT = ("server", "timeout")
_MEND = "Move it aside and run again; what a .jsonl recording holds can be read back with import_jsonl."
_RECORD = "mode='record' (--mode record on the command line)"


class Store:
    """Hold the replies of one file, safe for many threads and processes at once.

    A path that ends in `.jsonl` is opened as a committed recording: it can be replayed, not recorded to.

    >>> from toolkit.models.scripted import ScriptedModel
    >>> with Store(":memory:") as store:
    ...     model = store.wrap(ScriptedModel(["Hello!"]))
    ...     first, second = model.chat("Hi"), model.chat("Hi")
    >>> second.text, second.from_store
    ('Hello!', True)

    Args:
        path: the file; made with its folders if missing. `":memory:"` keeps nothing.
        must_exist: refuse a missing file, such as the mistyped name of one to replay, and make nothing.

    Raises:
        StoreError: the file is damaged, is something else, cannot be written, or is missing and must exist.
    """

    def __init__(self, path: str | Path, must_exist: bool = False) -> None:
        self.path = str(path)
        self.is_recording = self.path.endswith(".jsonl")
        self._claims = Path(f"{self.path}-claims")
        self._lock = threading.RLock()
        if must_exist and self.path != ":memory:" and not Path(self.path).exists():
            raise StoreError(_missing(Path(self.path)))
        with explained(self.path):
            self._connection = open_database(":memory:" if self.is_recording else self.path)
        if self.is_recording:
            self.import_jsonl(self.path)

    def wrap(self, model: ChatModel | str | None, mode: Mode = "record", repeat: int = 0) -> ChatModel:
        """Return a model that answers from this store.

        Args:
            model: the model; in replay its name is enough, and None stands for the only model in the store.
            mode: `record` answers from the store or asks the model and keeps the reply; `replay` never asks;
                `off` gives the model back as it is.
            repeat: index of the repetition; each has replies of its own (Source: promptfoo#360).

        Raises:
            ConfigError: unknown mode, or a mode that needs the model itself.
            UserError: recording to a `.jsonl` file.
        """
        if mode not in get_args(Mode):
            raise ConfigError(f"Unknown mode {mode!r} of a store. {did_you_mean(mode, get_args(Mode))}")
        if mode == "replay":
            if isinstance(model, ChatModel):
                return StoredModel(self, None, model.name, repeat, model.defaults)
            return StoredModel(self, None, self._name(model), repeat, Options())
        if not isinstance(model, ChatModel):
            raise ConfigError(
                f"Mode {mode!r} needs a model to ask, not {model!r}. Give load_model({model!r}), or mode='replay'."
            )
        if mode == "off":
            return model
        if self.is_recording:
            raise UserError(
                f"{self.path!r} is a recording and only replays. Record to a .sqlite file, then export_jsonl."
            )
        return StoredModel(self, model, model.name, repeat, model.defaults)

    def replay_model(self, name: str | None = None, repeat: int = 0) -> ChatModel:
        """Return a model that answers from this store only: no server, no weights."""
        return self.wrap(name, "replay", repeat)

    def _name(self, name: str | None) -> str:
        if name is not None:
            return public_name(name)
        models = self.models()
        if len(models) != 1:
            raise UserError(f"{self.path!r} holds replies of {models or 'no model'}: name the one to replay.")
        return models[0]

    def models(self) -> list[str]:
        """Return the names of the models with replies here."""
        return [str(name) for (name,) in self._all("SELECT DISTINCT model FROM replies ORDER BY model")]

    def newest_fingerprint(self, model: str) -> dict[str, Any]:
        """Return what was last known of a model beside its name; nothing where no reply of it is here."""
        query = "SELECT fingerprint FROM replies WHERE model = ? ORDER BY created DESC LIMIT 1"
        return next((self._held(text) for (text,) in self._all(query, model)), {})

    def __len__(self) -> int:
        return int(self._all("SELECT count(*) FROM replies")[0][0])

    def find(self, request: dict[str, Any], fingerprint: Mapping[str, Any], repeat: int = 0) -> Reply | None:
        """Return the reply that this very model gave to a request, or None."""
        return self._kept(reply_key(digest(request), fingerprint, repeat))

    def _kept(self, key: str) -> Reply | None:
        rows = self._all("SELECT reply FROM replies WHERE key = ?", key)
        return self._reply(rows[0][0]) if rows else None

    def replay(self, request: dict[str, Any], model: str, repeat: int = 0) -> Reply:
        """Return the newest reply of a model of that name.

        Raises:
            ReplayMissError: there is none; says what differs from the nearest stored request.
        """
        rows = self._all(
            "SELECT reply FROM replies WHERE request_digest = ? AND model = ? AND repeat = ? "
            "ORDER BY created DESC, key LIMIT 1",
            digest(request), model, repeat,
        )  # fmt: skip
        if not rows:
            raise ReplayMissError(self.explain_miss(request, model, repeat))
        return self._reply(rows[0][0])

    def explain_miss(self, request: dict[str, Any], model: str, repeat: int) -> str:
        """Say which part of a key differs from the nearest stored request."""
        start = f"{self.path!r} holds no reply of {model!r} to this request"
        end = f"Record it: wrap the model with {_RECORD}."
        same = self._all("SELECT model, repeat FROM replies WHERE request_digest = ?", digest(request))
        if any(name == model for name, _ in same):
            return f"{start} as repeat {repeat}; it has repeats {sorted(n for m, n in same if m == model)}. {end}"
        if same:
            return f"{start}; models with one: {', '.join(sorted({repr(name) for name, _ in same}))}. {end}"
        rows = self._all("SELECT request FROM replies WHERE model = ? ORDER BY created DESC LIMIT 2000", model)
        if not rows:
            return f"{start}, nor to any other. It holds replies of: {', '.join(self.models()) or 'none'}. {end}"
        parts = differences(nearest(request, [self._held(row[0]) for row in rows]), request)
        more = f"; and {len(parts) - 4} more places" if len(parts) > 4 else ""
        return f"{start}. The nearest stored request differs in {'; '.join(parts[:4])}{more}. {end}"

    def claim(
        self, request: dict[str, Any], fingerprint: Mapping[str, Any], repeat: int, wait_s: float
    ) -> AbstractContextManager[None]:
        """Hold a request while it is put, so that nobody else who shares the file puts it too; see `claims`."""
        return self._claimed(reply_key(digest(request), fingerprint, repeat), wait_s)

    def _claimed(self, key: str, wait_s: float) -> AbstractContextManager[None]:
        return nullcontext() if self.path == ":memory:" else claim(self._claims, key, wait_s)

    def keep(
        self, request: dict[str, Any], fingerprint: Mapping[str, Any], reply: Reply, repeat: int = 0, model: str = ""
    ) -> bool:
        """Keep a reply, unless one is there already; tell whether it was kept.

        Faults that may pass (server away, timeout) are not kept, so that the next run asks again.
        """
        return self._keep(as_json(request), fingerprint, reply, repeat, model or reply.model)

    def _keep(self, asked: str, fingerprint: Mapping[str, Any], reply: Reply, repeat: int, model: str) -> bool:
        if reply.fault and reply.fault.kind in _NOT_KEPT:
            return False
        return self._insert([_row(asked, fingerprint, reply.to_dict(), repeat, model)]) == 1

    def _insert(self, rows: Iterable[tuple[Any, ...]]) -> int:
        with self._lock, explained(self.path):
            before = self._connection.total_changes
            with self._connection:
                self._connection.executemany("INSERT OR IGNORE INTO replies VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            return self._connection.total_changes - before

    def _all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock, explained(self.path):
            return self._connection.execute(query, values).fetchall()

    def _held(self, text: Any) -> dict[str, Any]:
        """Return what a column holds; a file may be sound and its content not."""
        try:
            if isinstance(value := loads(text), dict):
                return value
        except (ValueError, TypeError, AttributeError):
            pass
        raise StoreError(f"The store {self.path!r} holds a damaged row, {text!r:.100}. {_MEND}")

    def _reply(self, text: Any) -> Reply:
        try:
            return Reply.from_dict({**self._held(text), "from_store": True})
        except ConfigError as error:
            raise StoreError(f"The store {self.path!r} holds a damaged row: {error} {_MEND}") from None

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield every reply with its request: model, repeat, fingerprint, request, reply; oldest first."""
        query = "SELECT model, repeat, fingerprint, request, reply FROM replies ORDER BY created, key"
        for model, repeat, fingerprint, request, reply in self._all(query):
            if not isinstance(repeat, int):
                raise StoreError(f"The store {self.path!r} holds a damaged row, repeat {repeat!r:.100}. {_MEND}")
            kept = {"fingerprint": fingerprint, "request": request, "reply": reply}
            yield {"model": str(model), "repeat": repeat, **{name: self._held(text) for name, text in kept.items()}}

    def export_jsonl(self, path: str | Path) -> int:
        """Write the replies as a recording to commit, and return how many; see `recordings`."""
        from toolkit.models.recordings import write_recording

        return write_recording(self.rows(), Path(path))

    def import_jsonl(self, path: str | Path) -> int:
        """Read a recording into this store and return how many replies were new.

        Raises:
            UserError: the file is missing or one of its lines is damaged; nothing is read then.
        """
        from toolkit.models.recordings import read_recording

        lines = read_recording(Path(path))
        return self._insert(
            [
                _row(as_json(line["request"]), line["fingerprint"], line["reply"], line["repeat"], line["model"])
                for line in lines
            ]
        )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()
        with suppress(OSError):  # there is none, or others hold claims
            self._claims.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Store, (self.path,)  # another process opens the same file

    def __repr__(self) -> str:
        return f"Store({self.path!r}, {len(self)} replies)"


def _row(
    request: str, fingerprint: Mapping[str, Any], reply: Mapping[str, Any], repeat: int, model: str
) -> tuple[Any, ...]:
    asked = text_digest(request)
    key = reply_key(asked, fingerprint, repeat)
    return key, model, asked, repeat, as_json(fingerprint), request, as_json(reply), time.time()


def _missing(path: Path) -> str:
    near = [*path.parent.glob("*.sqlite"), *path.parent.glob("*.jsonl")] if path.parent.is_dir() else []
    hint = f" {did_you_mean(path.name, sorted(item.name for item in near))}" if near else ""
    return f"There is no store of replies {str(path)!r}.{hint} Check the path, or record it: {_RECORD}."


class StoredModel(ChatModel):
    """Answer from a store, and ask the model behind it (if there is one) for what is missing."""

    def __init__(self, store: Store, model: ChatModel | None, name: str, repeat: int, defaults: Options) -> None:
        self.store, self.model, self.repeat = store, model, repeat
        self.name, self.defaults = name, defaults

    @property
    def supports_tools(self) -> bool:  # type: ignore[override]
        """Tell what the model behind can; a replay takes whatever was recorded."""
        return self.model.supports_tools if self.model else True

    def answer(self, request: ChatRequest) -> Iterator[Chunk]:
        """Yield the stored reply in one piece, or the model's own stream, which is kept once it is whole."""
        asked = request.sent_as(self.transport(request)).to_dict()
        if self.model is None:
            yield from _played(self.store.replay(asked, self.name, self.repeat))
            return
        fingerprint, text = self.model.fingerprint(), as_json(asked)
        key = reply_key(text_digest(text), fingerprint, self.repeat)
        known = self.store._kept(key)
        if known is not None:
            yield from _played(known)
            return
        with self.store._claimed(key, request.options.timeout_s):
            known = self.store._kept(key)  # another one may have asked meanwhile
            for chunk in _put(request, self.model) if known is None else _played(known):
                if chunk.reply is not None and known is None:
                    self.store._keep(text, fingerprint, chunk.reply, self.repeat, self.name)
                yield chunk

    def transport(self, request: ChatRequest) -> Transport:
        """Return how a request goes to the model behind; of a replay, how it went to the one that was recorded."""
        if self.model is not None:
            return self.model.transport(request)
        if request.transport != "auto":
            return super().transport(request)
        seen = self.store.newest_fingerprint(self.name)
        return request.lossless(str(seen.get("road", "")), str(seen.get("parser", "")))

    def render(self, request: ChatRequest) -> str:
        """Return the prompt that the server behind makes of a conversation."""
        return self.model.render(request) if self.model else super().render(request)

    def tools_as_kept(self, specs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return tools as they reach the template of the model behind."""
        return self.model.tools_as_kept(specs) if self.model else super().tools_as_kept(specs)

    def fingerprint(self) -> dict[str, Any]:
        """Return the model's fingerprint; of a replay, the back end and name."""
        return self.model.fingerprint() if self.model else {"backend": "replay", "name": self.name}

    def check(self) -> None:
        """Raise ReplayMissError now if this is a replay, and the store holds no reply of this model."""
        if self.model is not None:
            self.model.check()
        elif self.name not in self.store.models():
            raise ReplayMissError(
                f"{self.store.path!r} holds no reply of {self.name!r}. {did_you_mean(self.name, self.store.models())}"
            )

    def close(self) -> None:
        """Free what the model holds; the store stays open."""
        if self.model is not None:
            self.model.close()


def _played(reply: Reply) -> Iterator[Chunk]:
    if reply.text or reply.thinking:
        yield Chunk(reply.text, reply.thinking)
    yield Chunk(reply=reply)


def _put(request: ChatRequest, model: ChatModel) -> Iterator[Chunk]:
    settings: dict[str, Any] = {"schema": request.schema, "options": request.options}
    if request.prompt is not None:
        return model.complete_stream(request.prompt, **settings)
    tools, choice = request.tools or None, request.tool_choice
    return model.stream(request.messages, tools=tools, tool_choice=choice, **settings)
