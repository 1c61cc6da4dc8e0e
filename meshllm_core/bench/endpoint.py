"""Where a server is: a base URL taken apart once, so that nothing else is ever talked to."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from meshllm_core.errors import ConfigError

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Endpoint:
    """One OpenAI-compatible server."""

    url: str
    """The base URL as it was given."""
    host: str
    """Name or address to connect to."""
    port: int
    tls: bool
    prefix: str
    """Path in front of every route, such as `/v1`; no slash at its end."""
    api_key: str = ""
    """Sent as a bearer token when not empty."""

    @property
    def host_header(self) -> str:
        """Value of the Host header: an IPv6 address in brackets, and the port unless it is the usual one."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        usual = _DEFAULT_PORTS["https" if self.tls else "http"]
        return name if self.port == usual else f"{name}:{self.port}"


def parse_endpoint(url: str, *, api_key: str = "", param: str = "--url") -> Endpoint:
    """The server that `url` names; `/v1` is added to a URL without a path. Raises ConfigError."""
    hint = "Give a base URL such as http://127.0.0.1:9337/v1."
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{param} {url!r} is not a URL: {error}.", hint=hint, param=param) from error
    if parts.scheme not in _DEFAULT_PORTS:
        raise ConfigError(f"{param} {url!r} is neither http nor https.", hint=hint, param=param)
    if not parts.hostname:
        raise ConfigError(f"{param} {url!r} names no host.", hint=hint, param=param)
    if parts.query or parts.fragment or parts.username or parts.password:
        raise ConfigError(
            f"{param} {url!r} has more than scheme, host, port and path.", hint=hint, param=param
        )
    if not url.isascii() or any(c.isspace() or not c.isprintable() for c in url):
        raise ConfigError(f"{param} {url!r} has characters that a URL must escape.", hint=hint, param=param)
    if not api_key.isascii() or any(c.isspace() or not c.isprintable() for c in api_key):
        raise ConfigError("The API key has characters that no header may carry.", param="--api-key")
    return Endpoint(
        url=url,
        host=parts.hostname,
        port=port or _DEFAULT_PORTS[parts.scheme],
        tls=parts.scheme == "https",
        prefix=parts.path.rstrip("/") or "/v1",
        api_key=api_key,
    )
