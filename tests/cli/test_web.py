"""`meshllm web`: who is let in, what a tab shows, that it ends; tried by a real client and a real browser."""

import asyncio
import base64
import contextlib
import inspect
import json
import os
import shutil
import signal
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import psutil
import pytest
from PIL import Image

from meshllm_core.paths import Paths
from meshllm_tui.first_run import mark_seen
from tests.api.manage.conftest import Node
from tests.cli.conftest import COMMAND, run_here

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SECONDS = 30.0


@dataclass
class Web:
    """A running `meshllm web`."""

    process: Process
    url: str
    """As it was printed."""

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return self.url.partition("/?")[0]


@contextlib.asynccontextmanager
async def serving(*arguments: str) -> AsyncIterator[Web]:
    """The command, until it is ended as Ctrl+C ends it."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        "web",
        "--port",
        "0",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), SECONDS)
        yield Web(process, line.decode().strip())
    finally:
        process.send_signal(signal.SIGINT)
        rest, said = await asyncio.wait_for(process.communicate(), SECONDS)
        assert rest == b"", "one line, and no more, on stdout"
        assert b"Traceback" not in said, said.decode()
        assert process.returncode == 0


@pytest.fixture
async def web(node: Node, paths: Paths) -> AsyncIterator[Web]:
    """It serves the dashboard of the node that the test plays."""
    mark_seen(paths.welcome_marker)
    async with serving() as served:
        yield served


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    # A jar for addresses too: the server is one.
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield session


async def until(socket: aiohttp.ClientWebSocketResponse, words: str) -> str:
    """Read what is drawn until `words` are in it."""
    seen = ""
    async with asyncio.timeout(SECONDS):
        async for message in socket:
            if message.type is aiohttp.WSMsgType.BINARY:
                seen += str(message.data, "utf-8", "replace")
                if words in seen:
                    return seen
    raise AssertionError(f"{words!r} was not drawn: {seen[-2000:]!r}")


def socket_url(web: Web, size: str = "width=100&height=30") -> str:
    """Where a tab's keys and lines go."""
    return f"{web.origin.replace('http', 'ws')}/ws?{size}"


async def test_the_address_lets_in_and_a_tab_shows_the_node(web: Web, client: aiohttp.ClientSession) -> None:
    assert urlsplit(web.url).hostname == "127.0.0.1"
    async with client.get(web.url) as answer:
        assert answer.status == 200
        assert "token" not in str(answer.url), "it does not stay in the address bar"
        page = await answer.text()
        assert f'data-session-websocket-url="{web.origin.replace("http", "ws")}/ws"' in page
        assert "://" not in page.replace("ws://127.0.0.1", ""), "nothing is fetched from elsewhere"
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Referrer-Policy"] == "no-referrer"
    for path in ("/page.js", "/page.css", "/static/js/textual.js", "/static/css/xterm.css"):
        async with client.get(web.origin + path) as answer:
            assert answer.status == 200, path
    async with client.ws_connect(socket_url(web), origin=web.origin) as socket:
        await until(socket, "attic")
        await socket.send_json(["ping", 7])
        await socket.send_json(["resize", {"width": 80, "height": 24}])
        for nonsense in ('"', "[]", '["resize", {"width": 1e9, "height": 2}]', "7", '["stdin", 5]'):
            await socket.send_str(nonsense)
        await socket.send_json(["stdin", "l"])
        await until(socket, "Load a model")
        await socket.send_json(["stdin", "\x1b"])
        await socket.send_json(["stdin", "\x11"])
        await until(socket, "Leave it running")
        await socket.send_json(["stdin", "\r"])
        async with asyncio.timeout(SECONDS):
            async for _ in socket:
                pass
        assert socket.closed, "the tab is told that its dashboard has ended"


async def test_without_the_token_nothing_is_answered(web: Web, client: aiohttp.ClientSession) -> None:
    for path in ("/", "/?token=wrong", "/page.js", "/static/js/textual.js", "/download/x", "/ws", "/nowhere"):
        async with client.get(web.origin + path, allow_redirects=False) as answer:
            assert answer.status == 401, path
            assert "meshllm web" in await answer.text()
            assert "Set-Cookie" not in answer.headers
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await client.ws_connect(socket_url(web), origin=web.origin)
    assert refused.value.status == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
    ],
    ids=["rebound name", "other port", "other site", "sandboxed page", "other port's page"],
)
async def test_with_the_cookie_but_from_elsewhere(
    web: Web, client: aiohttp.ClientSession, headers: dict[str, str], status: int
) -> None:
    async with client.get(web.url) as answer:
        assert answer.status == 200
    (cookie,) = client.cookie_jar
    mine = {"Cookie": f"{cookie.key}={cookie.value}", **headers}
    for path in ("/", "/static/js/textual.js"):
        async with client.get(web.origin + path, headers=mine) as answer:
            assert answer.status == status
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await client.ws_connect(socket_url(web), headers=mine)
    assert refused.value.status == (403 if status == 403 else 421)


async def test_a_socket_must_name_its_origin_and_a_size(web: Web, client: aiohttp.ClientSession) -> None:
    async with client.get(web.url):
        pass
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await client.ws_connect(socket_url(web))
    assert refused.value.status == 403
    for size in ("width=100000&height=24", "width=0&height=24", "width=a&height=24"):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect(socket_url(web, size), origin=web.origin)
        assert refused.value.status == 400


async def test_the_cookie_is_for_this_server_and_no_script(web: Web, client: aiohttp.ClientSession) -> None:
    async with client.get(web.url, allow_redirects=False) as answer:
        assert answer.status == 303
        cookie = answer.headers["Set-Cookie"]
    for word in ("HttpOnly", "SameSite=Strict", "Path=/", "meshllm-"):
        assert word in cookie
    assert web.url.partition("token=")[2] not in cookie


async def test_a_closed_tab_ends_its_process(web: Web, client: aiohttp.ClientSession) -> None:
    async with client.get(web.url):
        pass
    async with client.ws_connect(socket_url(web), origin=web.origin) as socket:
        await until(socket, "attic")
        assert len(children(web.process.pid)) == 1
    await until_true(lambda: not children(web.process.pid))


async def test_the_ninth_tab_is_refused(web: Web, client: aiohttp.ClientSession) -> None:
    async with client.get(web.url):
        pass
    async with contextlib.AsyncExitStack() as tabs:
        for _ in range(8):
            await tabs.enter_async_context(client.ws_connect(socket_url(web), origin=web.origin))
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect(socket_url(web), origin=web.origin)
        assert refused.value.status == 503


async def test_json_and_a_public_address(node: Node) -> None:
    process = await asyncio.create_subprocess_exec(
        *[*COMMAND, "web", "--port", "0", "--json", "--public-url", "https://box.example:8443"],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    text = await asyncio.wait_for(process.stdout.readuntil(b"\n}\n"), SECONDS)
    told = json.loads(text)
    assert told["url"].startswith("https://box.example:8443/?token=")
    assert Path(told["log"]).name == "web-output.log"
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), SECONDS) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--host", "0.0.0.0"), "--public-url"),
        (("--public-url", "box.example"), "is no address of a browser's"),
        (("--public-url", "https://user:pw@box.example"), "is no address of a browser's"),
        (("--public-url", "https://box.example/path"), "is no address of a browser's"),
        (("--host", "192.0.2.77", "--public-url", "https://box.example"), "cannot be listened on"),
    ],
)
def test_what_cannot_be_is_refused_with_the_next_step(arguments: tuple[str, ...], words: str) -> None:
    done = run_here(("web", *arguments))
    assert done.code in (2, 6)
    assert words in done.err
    assert done.out == ""


async def until_true(look: Callable[[], Any], wanted: Callable[[Any], bool] = bool) -> None:
    """Look again and again until it is as wanted."""
    end = time.monotonic() + SECONDS
    seen = None
    while time.monotonic() < end:
        seen = look()
        if inspect.isawaitable(seen):
            seen = await seen
        if wanted(seen):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"it did not come: {seen!r}")


def children(pid: int) -> list[int]:
    """Processes that a process started."""
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


class Browser:
    """A headless Chromium, driven by its own protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._asked = 0
        self._session: dict[str, str] = {}

    async def ask(self, method: str, **parameters: Any) -> Any:
        """Ask for something; its answer."""
        self._asked += 1
        await self._socket.send_json(
            {"id": self._asked, "method": method, "params": parameters, **self._session}
        )
        async with asyncio.timeout(SECONDS):
            while True:
                answer = await self._socket.receive_json()
                if answer.get("id") == self._asked:
                    assert "error" not in answer, answer
                    return answer["result"]

    async def open(self, url: str) -> None:
        """A tab with that address."""
        target = await self.ask("Target.createTarget", url="about:blank")
        attached = await self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        await self.ask("Page.navigate", url=url)

    async def state(self) -> str:
        """The classes of the page's body: what textual-serve's script says of the tab."""
        got = await self.ask("Runtime.evaluate", expression="document.body ? document.body.className : ''")
        return str(got["result"]["value"])

    async def until_state(self, word: str) -> None:
        """Wait for a class of the body."""
        await until_true(self.state, lambda classes: word in classes)

    async def type(self, text: str) -> None:
        """Type characters."""
        for character in text:
            key = "Enter" if character == "\r" else character
            code = ord(character.upper())
            for kind in ("keyDown", "keyUp"):
                words = {"text": character} if kind == "keyDown" else {}
                await self.ask(
                    "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **words
                )

    async def picture(self) -> Image.Image:
        """What the tab shows."""
        got = await self.ask("Page.captureScreenshot", format="png")
        return Image.open(BytesIO(base64.b64decode(got["data"]))).convert("RGB")


@contextlib.asynccontextmanager
async def browser(client: aiohttp.ClientSession) -> AsyncIterator[Browser]:
    """A browser with a profile of its own."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            CHROMIUM,
            *(
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--window-size=1200,800",
                "--remote-debugging-port=0",
            ),
            f"--user-data-dir={profile}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            told = Path(profile) / "DevToolsActivePort"
            await until_true(lambda: told.exists() and len(told.read_text().split()) == 2)
            port, path = told.read_text().split()
            async with client.ws_connect(f"ws://127.0.0.1:{port}{path}", max_msg_size=0) as socket:
                yield Browser(socket)
        finally:
            process.kill()
            await process.wait()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a POSIX system")
async def test_in_a_real_browser(web: Web, client: aiohttp.ClientSession) -> None:
    async with browser(client) as shown:
        await shown.open(web.url)
        await shown.until_state("-first-byte")
        await asyncio.sleep(1.0)
        first = await shown.picture()
        colours = first.getcolors(1 << 20)
        assert colours is not None
        assert len(colours) > 50, "the dashboard is drawn"
        await shown.type("9")
        await until_true(shown.picture, lambda now: now.tobytes() != first.tobytes())
        await shown.type("q")
        await asyncio.sleep(0.5)
        await shown.type("\r")
        await shown.until_state("-closed")
