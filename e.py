import pathlib
P=pathlib.Path
def cutb(t,start,end,new=""):
    a=t.index(start); b=t.index(end,a); return t[:a]+new+t[b:]
def rep(t,*pairs):
    for o,n in pairs:
        assert o in t,o
        t=t.replace(o,n)
    return t
t=P('llama.py').read_text()
t=cutb(t,'@dataclass\nclass Shared','_registry =','''@dataclass
class Shared:
    """Hold one loaded server; it unloads when the last one who holds this lets go."""

    key: ServerKey
    lock: threading.Lock = field(default_factory=threading.Lock)
    server: Any = None


_servers: weakref.WeakValueDictionary[ServerKey, Shared] = weakref.WeakValueDictionary()
''')
t=cutb(t,'def acquire','def _load','''def shared_server(key: ServerKey) -> tuple[Shared, float]:
    """Return the server of `key`, loading it if nobody has, and the seconds that took.

    Raises:
        UserError: the extra is not installed.
        WeightsError: llama.cpp cannot load the file.
    """
    import_llama()  # before the lock, which a thread that a fork left behind may hold
    with _registry:
        shared = _servers.setdefault(key, Shared(key))
    with shared.lock:
        if shared.server is not None:
            return shared, 0.0
        started = time.perf_counter()
        try:
            shared.server = _load(key)
        except BaseException:
            _abandon(shared)
            raise
        return shared, time.perf_counter() - started


''')
t=cutb(t,'class Hold','def pieces')
t=rep(t,('''    """Yield the pieces of a streamed answer and give up one use of the server at its end.
''','''    """Yield the pieces of a streamed answer; the server stays loaded until its end.
'''),('''            yield piece
    except TimeoutError:''','''            yield piece
        thread.join()  # it is at its end, and holds the server until then
    except TimeoutError:'''),
('''        finally:
            _running.discard(left)
            release(shared)
''','''        finally:
            _running.discard(left)
'''),
('import time\n','import time\nimport weakref\n'),
('''    """Let the next request load anew: this server hangs within one token and would hold up all others."""''','''    """Let the next request load anew: this server never loaded, or hangs and would hold up all others."""'''))
P('llama.py').write_text(t)
t=P('embedded.py').read_text()
a=t.index('    def _ask('); b=t.index('    def fingerprint')
t=t[:a]+'''    def _ask(self, route: str, body: dict[str, Any]) -> dict[str, Any]:
        import httpx

        shared, _ = self._server(self.defaults)
        url, timeout = shared.server.listening_address + route, self.defaults.timeout_s
        try:
            # a proxy set in the environment has no business on loopback
            answer = httpx.post(url, json=sendable(body), timeout=timeout, trust_env=False)
            return dict(answer.raise_for_status().json())
        except httpx.HTTPError as error:
            raise ModelError(f"llama.cpp did not answer {route}: {error}") from None

'''+t[b:]
t=rep(t,('''        shared, _ = self._server(self.defaults)
        try:
            return f"{shared.server.listening_address}/v1"
        finally:
            llama.release(shared)
''','''        return f"{self._server(self.defaults)[0].server.listening_address}/v1"
'''),
('''        """Return the loaded server with one use more, and the seconds spent loading."""
        path = self.path
        read_head(path)  # says what is wrong; llama.cpp would not
        return self._held.use(llama.ServerKey(path.resolve(), options.num_ctx, self.threads))
''','''        """Return the loaded server, and the seconds spent loading; it is held until another window is asked for."""
        path = self.path
        read_head(path)  # says what is wrong; llama.cpp would not
        shared, seconds = llama.shared_server(llama.ServerKey(path.resolve(), options.num_ctx, self.threads))
        self._held = shared
        return shared, seconds
'''),('self._held = llama.Hold()','self._held: llama.Shared | None = None'),('self._held.drop()','self._held = None'),
('import json\n',''))
P('embedded.py').write_text(t)
