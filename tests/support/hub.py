"""A small hub on loopback: the routes that meshllm uses, with faults that can be switched on.

with serve_hub() as hub:
    hub.add("owner/name", {"model-Q4_K_M.gguf": data})
    Hub(endpoint=hub.address)
"""

import hashlib
import json
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Faults:
    """What goes wrong, until it is reset."""

    cut_at: float = 1.0
    """Share of each answer after which the connection is dropped."""
    cuts: int = 1 << 30
    """How many answers are cut."""
    corrupt: bool = False
    """One byte of the content is changed."""
    ignore_range: bool = False
    """Every answer is the whole file."""
    seconds_per_chunk: float = 0.0
    chunk: int = 1 << 16
    refusals: list[int] = field(default_factory=list)
    """Status codes for the next requests of content, one each."""
    retry_after: str = ""
    """Header of each of these refusals."""
    location: str = ""
    """Where every content is said to be; "/loop" leads to itself."""
    linked_etag: str = ""
    """Sent in place of the true hash."""
    listed_sha256: str = ""
    """Listed in place of the true hash."""
    content_range: str = ""
    """Sent in place of the true Content-Range; {start}, {end} and {total} are filled in."""
    extra_bytes: int = 0
    """Sent behind each answer, and announced."""
    search: tuple[int, bytes] | None = None
    """Status and body of every answer to a search."""
    encoding: str = ""
    """Said to be the answer's Content-Encoding."""


@dataclass
class Repository:
    """Files at one commit; `status` other than 200 refuses them all."""

    files: dict[str, bytes]
    commit: str = COMMIT
    status: int = 200
    error_code: str = ""
    downloads: int = 0
    parameters: int = 0
    large: bool = True
    """Whether files are stored by SHA-256 (as all big ones) or in git."""


class LocalHub:
    """The server's state; change it while it runs."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.faults = Faults()
        self.requests: list[tuple[str, str, str]] = []
        """(method, path, Range header) in order."""
        self.authorizations: list[str] = []
        self.served: Counter[str] = Counter()
        """Bytes of content sent, by the token that the client showed."""
        self.address = ""

    def add(self, name: str, files: dict[str, bytes], **more: object) -> Repository:
        """A repository, or a new state of one."""
        self.repositories[name] = Repository(files, **more)  # type: ignore[arg-type]
        return self.repositories[name]

    def content_requests(self) -> list[tuple[str, str, str]]:
        """Those that asked for bytes of a file."""
        return [request for request in self.requests if request[1].startswith("/cdn/")]


@contextmanager
def serve_hub() -> Iterator[LocalHub]:
    """A hub on a free port of loopback."""
    hub = LocalHub()
    server = _Server(hub)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, hub: LocalHub) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hub = hub
        hub.address = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves in the middle is what some tests are about."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._route(body=False)

    def do_GET(self) -> None:
        self._route(body=True)

    def _route(self, *, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.hub.requests.append((self.command, path, self.headers.get("Range", "")))
        self.server.hub.authorizations.append(self.headers.get("Authorization", ""))
        if listing := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path):
            self._list(listing[1], listing[2] or "main")
        elif path == "/loop":
            self._answer(302, b"", {"Location": path})
        elif path == "/api/models":
            self._search()
        elif resolved := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._resolve(resolved[1], resolved[2], resolved[3])
        elif content := re.fullmatch(r"/cdn/([^/]+/[^/]+)/(.+)", path):
            self._send_content(self.server.hub.repositories[content[1]].files[content[2]], body=body)
        else:
            self._answer(404, b"")

    def _known(self, name: str, revision: str) -> Repository | None:
        repository = self.server.hub.repositories.get(name)
        if repository is None:
            self._answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif repository.status != 200:
            self._answer(repository.status, b"{}", {"X-Error-Code": repository.error_code})
        elif revision not in ("main", repository.commit):
            self._answer(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        else:
            return repository
        return None

    def _list(self, name: str, revision: str) -> None:
        repository = self._known(name, revision)
        if repository is None:
            return
        siblings = []
        for path, data in repository.files.items():
            entry: dict[str, object] = {"rfilename": path, "size": len(data), "blobId": _git_id(data)}
            if repository.large:
                sha256 = self.server.hub.faults.listed_sha256 or hashlib.sha256(data).hexdigest()
                entry["lfs"] = {"sha256": sha256, "size": len(data), "pointerSize": 134}
            siblings.append(entry)
        document = {"id": name, "sha": repository.commit, "private": False, "siblings": siblings}
        self._answer(200, json.dumps(document).encode(), {"Content-Type": "application/json"})

    def _search(self) -> None:
        hub = self.server.hub
        if hub.faults.search:
            status, body = hub.faults.search
            self._answer(status, body, {"Content-Type": "application/json"})
            return
        asked = parse_qs(urlsplit(self.path).query)
        assert asked["filter"] == ["gguf"]
        wanted, limit = asked["search"][0].lower(), int(asked["limit"][0])
        found = [
            {
                "id": name,
                "downloads": repository.downloads,
                "likes": 3,
                "gated": False,
                "gguf": {"total": repository.parameters, "architecture": "llama"},
                "siblings": [{"rfilename": path} for path in repository.files],
            }
            for name, repository in hub.repositories.items()
            if wanted in name.lower() and any(path.endswith(".gguf") for path in repository.files)
        ]
        found.sort(key=lambda each: -int(str(each["downloads"])))
        self._answer(200, json.dumps(found[:limit]).encode(), {"Content-Type": "application/json"})

    def _resolve(self, name: str, revision: str, path: str) -> None:
        repository = self._known(name, revision)
        if repository is None:
            return
        if path not in repository.files:
            self._answer(404, b"{}", {"X-Error-Code": "EntryNotFound"})
            return
        data = repository.files[path]
        etag = self.server.hub.faults.linked_etag or hashlib.sha256(data).hexdigest()
        headers = {
            "Location": self.server.hub.faults.location or f"/cdn/{name}/{quote(path)}",
            "X-Repo-Commit": repository.commit,
            "X-Linked-Etag": f'"{etag}"',
            "X-Linked-Size": str(len(data)),
        }
        self._answer(302, b"", headers)

    def _send_content(self, data: bytes, *, body: bool) -> None:
        faults = self.server.hub.faults
        if faults.refusals:
            headers = {"Retry-After": faults.retry_after} if faults.retry_after else {}
            self._answer(faults.refusals.pop(0), b"", headers)
            return
        total, start, end = len(data), 0, len(data) - 1
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        headers = {"Accept-Ranges": "bytes"}
        status = 200
        if asked and not faults.ignore_range:
            start = int(asked[1])
            end = min(end, int(asked[2] or end))
            if start >= total:
                self._answer(416, b"", {"Content-Range": f"bytes */{total}"})
                return
            status = 206
            said = faults.content_range or "bytes {start}-{end}/{total}"
            headers["Content-Range"] = said.format(start=start, end=end, total=total)
        if faults.corrupt:
            data = data[:-1] + bytes([data[-1] ^ 1])
        if faults.encoding:
            headers["Content-Encoding"] = faults.encoding
        self._stream(status, data[start : end + 1] + bytes(faults.extra_bytes), headers, body=body)

    def _stream(self, status: int, data: bytes, headers: dict[str, str], *, body: bool) -> None:
        faults = self.server.hub.faults
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if not body:
            return
        limit = len(data)
        client = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if faults.cut_at < 1 and faults.cuts > 0:
            faults.cuts -= 1
            limit = int(limit * faults.cut_at)
            self.close_connection = True
        try:
            for at in range(0, limit, faults.chunk):
                piece = data[at : min(limit, at + faults.chunk)]
                self.wfile.write(piece)
                self.wfile.flush()
                self.server.hub.served[client] += len(piece)
                if faults.seconds_per_chunk:
                    time.sleep(faults.seconds_per_chunk)
        except ConnectionError:
            # The client left; that is what some tests are about.
            self.close_connection = True

    def _answer(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _git_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
