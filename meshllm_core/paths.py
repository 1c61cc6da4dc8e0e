"""Where things live on disk. Read once, passed on; MESHLLM_HOME moves everything into one folder."""

import os
from dataclasses import dataclass
from pathlib import Path

from platformdirs import PlatformDirs


@dataclass(frozen=True)
class Paths:
    """Folders of one user's meshllm. None of them need exist yet."""

    config: Path
    """Holds config.toml."""
    data: Path
    """Holds the management token and the record of the running node."""
    cache: Path
    """Holds downloaded models and built wheels; may be deleted at any time."""
    logs: Path
    """Holds the node's and the engines' logs."""

    @property
    def config_file(self) -> Path:
        """The default config.toml."""
        return self.config / "config.toml"

    @property
    def models(self) -> Path:
        """Downloaded models."""
        return self.cache / "models"

    @property
    def certificates(self) -> Path:
        """Measurements of codecs, signed."""
        return self.cache / "certificates"

    @property
    def stages(self) -> Path:
        """Files of stages that were made or fetched."""
        return self.cache / "stages"

    @property
    def token_file(self) -> Path:
        """Bearer token of the management API (mode 0600)."""
        return self.data / "management-token"

    @property
    def chats_file(self) -> Path:
        """SQLite file of the dashboard's conversations (mode 0600)."""
        return self.data / "chats.sqlite"

    @property
    def welcome_marker(self) -> Path:
        """Is there once the questions of the first run were answered or skipped."""
        return self.data / "welcome-seen"

    @property
    def node_file(self) -> Path:
        """JSON record of the running node: pid, addresses."""
        return self.data / "node.json"

    @property
    def pace_file(self) -> Path:
        """JSON record of how fast this machine computes."""
        return self.data / "pace.json"

    @property
    def node_key_file(self) -> Path:
        """The node's private key (mode 0600), where no keyring keeps it."""
        return self.data / "node.key"

    @property
    def identity_file(self) -> Path:
        """JSON record of the node's id, without secrets: where the key is, how often the node started."""
        return self.data / "identity.json"


def default_paths(environ: "os._Environ[str] | dict[str, str]" = os.environ) -> Paths:
    """Paths of this user by the platform's conventions, or all below $MESHLLM_HOME."""
    home = environ.get("MESHLLM_HOME")
    if home:
        base = Path(home).expanduser()
        return Paths(base / "config", base / "data", base / "cache", base / "logs")
    dirs = PlatformDirs("meshllm", appauthor=False)
    return Paths(
        Path(dirs.user_config_dir),
        Path(dirs.user_data_dir),
        Path(dirs.user_cache_dir),
        Path(dirs.user_log_dir),
    )
