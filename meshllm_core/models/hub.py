"""The hub: what a repository holds, and its files, through huggingface_hub.

Names, tokens, addresses and errors are the library's. The transfer itself is ours (`transfer.py`), because
the library drops a partial file when a download ends early, and a model may be 40 GB.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from meshllm_core.errors import DownloadFailed, HubUnreachable, ModelError, ModelNotFound
from meshllm_core.models.hub_search import ANSWER_LIMIT, QUERY_LIMIT, RESULTS, FoundModel, read_search
from meshllm_core.models.quants import RemoteFile
from meshllm_core.models.units import printable

# The libraries of the network are imported when it is first used: a node whose models are here never pays.
if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.hf_api import RepoSibling

    from meshllm_core.models.ranges import Ranges
    from meshllm_core.models.transfer import Transfer

MAX_FILES = 20_000
"""Most files of one repository that are looked at."""
MAX_FILE_BYTES = 1 << 42
"""A size beyond this is not believed."""

_SAFE_NAME = re.compile(r"[^/\\:*?\"<>|]{1,255}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class RemoteRepo:
    """A repository at one commit."""

    repo: str
    commit: str
    files: tuple[RemoteFile, ...]


class Hub:
    """A hub at one address. All methods block; safe to use from any thread."""

    def __init__(
        self,
        *,
        endpoint: str | None = None,
        token: str | None = None,
        connect_timeout: float = 10.0,
        read_timeout: float = 10.0,
        retry_wait: float = 0.5,
    ) -> None:
        """`endpoint` None: $HF_ENDPOINT, else the public hub; `token` None: as `hf auth login` stored it.

        Times in seconds. `retry_wait` doubles with each try that brought no byte.
        """
        # The library reads it when it is imported, and it is imported nowhere else.
        os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
        self._endpoint = endpoint or os.environ.get("HF_ENDPOINT") or None
        self._token = token
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        self._retry_wait = retry_wait

    @property
    def address(self) -> str:
        """Base address, for messages."""
        from huggingface_hub import constants

        return (self._endpoint or constants.ENDPOINT).rstrip("/")

    def list_files(self, repo: str, revision: str = "main") -> RemoteRepo:
        """The files of a repository. Raises ModelNotFound, HubUnreachable, DownloadFailed."""
        from huggingface_hub import HfApi

        api = HfApi(endpoint=self.address, token=self._token)
        with self._translated(repo, revision):
            info = api.model_info(repo, revision=revision, files_metadata=True, timeout=self._connect_timeout)
        siblings = info.siblings or []
        if not info.sha or not _COMMIT.fullmatch(info.sha) or len(siblings) > MAX_FILES:
            raise DownloadFailed(
                f"The hub's answer about {repo} cannot be used.", hint=f"Is {self.address} really a hub?"
            )
        files = tuple(file for sibling in siblings if (file := _remote_file(sibling)) is not None)
        return RemoteRepo(repo, info.sha, files)

    def search(self, query: str, limit: int = RESULTS) -> tuple[FoundModel, ...]:
        """Repositories with GGUF models, most downloaded first. Raises HubUnreachable, DownloadFailed."""
        import httpx2
        from huggingface_hub import get_session, get_token, hf_raise_for_status

        asked: dict[str, str | int | tuple[str, ...]] = {
            "search": query[:QUERY_LIMIT],
            "filter": "gguf",
            "sort": "downloads",
            "limit": min(limit, RESULTS),
            "expand": ("gguf", "downloads", "likes", "gated", "siblings"),
        }
        token = self._token or get_token()
        headers = {"User-Agent": "meshllm"} | ({"Authorization": f"Bearer {token}"} if token else {})
        times = httpx2.Timeout(self._read_timeout, connect=self._connect_timeout)
        url, what = f"{self.address}/api/models", f"the search for {printable(query, 60)!r}"
        with (
            self._translated(what, "main"),
            get_session().stream("GET", url, params=asked, headers=headers, timeout=times) as response,
        ):
            if response.status_code == 404:
                raise ValueError("it has no search")
            hf_raise_for_status(response)
            data = bytearray()
            for chunk in response.iter_bytes():
                data += chunk
                if len(data) > ANSWER_LIMIT:
                    raise ValueError(f"it is longer than {ANSWER_LIMIT} bytes")
            return read_search(bytes(data))[:limit]

    def download(
        self,
        repo: str,
        commit: str,
        file: RemoteFile,
        target: Path,
        *,
        on_progress: Callable[[int], None],
        cancelled: Callable[[], bool],
    ) -> None:
        """Fetches one file to `target`, going on where an earlier try stopped.

        `on_progress` gets the bytes of this file so far. Raises DownloadFailed, HubUnreachable, StorageError.
        """
        with self._translated(repo, commit):
            self._transfer(repo, commit, file).run(file, target, on_progress=on_progress, cancelled=cancelled)

    def ranges(self, repo: str, commit: str, file: RemoteFile) -> "Ranges":
        """A file that is read in parts: nothing is asked for yet."""
        from meshllm_core.models.ranges import Ranges

        return Ranges(
            file, lambda: self._transfer(repo, commit, file), lambda: self._translated(repo, commit)
        )

    def _transfer(self, repo: str, commit: str, file: RemoteFile) -> "Transfer":
        import httpx2
        from huggingface_hub import get_session, get_token, hf_hub_url, hf_raise_for_status

        from meshllm_core.models.transfer import Transfer

        headers = {"Accept-Encoding": "identity", "User-Agent": "meshllm"}
        if token := self._token or get_token():
            headers["Authorization"] = f"Bearer {token}"
        return Transfer(
            client=get_session(),
            url=hf_hub_url(repo, file.path, revision=commit, endpoint=self.address),
            headers=headers,
            check=hf_raise_for_status,
            timeout=httpx2.Timeout(self._read_timeout, connect=self._connect_timeout),
            retry_wait=self._retry_wait,
        )

    @contextmanager
    def _translated(self, repo: str, revision: str) -> Iterator[None]:
        import httpx2
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

        try:
            yield
        except HfHubHTTPError as error:
            raise self._refusal(error, repo, revision) from error
        except HFValidationError as error:
            raise ModelNotFound(
                f"{repo!r} cannot be the name of a repository.", hint="Write owner/repo."
            ) from error
        except OfflineModeIsEnabled as error:
            raise HubUnreachable(
                f"{repo} is not here, and offline mode is on.", hint="Unset HF_HUB_OFFLINE to download it."
            ) from error
        except (httpx2.TransportError, httpx2.InvalidURL, httpx2.TooManyRedirects) as error:
            from meshllm_core.models.transfer import reason_of

            raise HubUnreachable(
                f"The hub at {self.address} cannot be reached: {reason_of(error)}.",
                hint="Check the network, a proxy, or HF_ENDPOINT. Models that are here already still load.",
            ) from error
        except ValueError as error:
            raise DownloadFailed(
                f"The hub's answer about {repo} cannot be read: {printable(str(error)).rstrip('.')}.",
                hint=f"Is {self.address} really a hub?",
            ) from error

    def _refusal(self, error: "HfHubHTTPError", repo: str, revision: str) -> ModelError:
        from huggingface_hub import errors

        status = error.response.status_code
        login = "Make a token at the hub and set HF_TOKEN, or run `hf auth login`."
        if isinstance(error, errors.GatedRepoError):
            return DownloadFailed(
                f"{repo} is gated: its owner wants its terms accepted first.",
                hint=f"Accept them at {self.address}/{repo}. {login}",
            )
        if isinstance(error, errors.RevisionNotFoundError):
            return ModelNotFound(f"{repo} has no revision {revision!r}.", hint="Leave it away to use main.")
        if isinstance(error, errors.EntryNotFoundError):
            return ModelNotFound(f"{repo} no longer has that file.", hint="Start the download again.")
        if isinstance(error, errors.RepositoryNotFoundError) or status == 404:
            return ModelNotFound(
                f"The hub has no repository {repo}, or it is private.", hint=f"Check the spelling. {login}"
            )
        if status in (401, 403):
            return DownloadFailed(
                f"The hub refused access to {repo} ({status}).",
                hint=f"It may not exist, be private, or the token may be wrong. {login}",
            )
        if status == 429:
            return DownloadFailed(
                "The hub asks for patience: too many requests.", hint=f"Wait some minutes. {login}"
            )
        detail = f": {printable(error.server_message).rstrip('.')}" if error.server_message else ""
        return DownloadFailed(f"The hub answered {status} about {repo}{detail}.", hint="Try again later.")


def _remote_file(sibling: "RepoSibling") -> RemoteFile | None:
    """A listed file if its name can be used on any disk and its size be believed."""
    name = PurePosixPath(sibling.rfilename).name
    size = sibling.size
    if not _SAFE_NAME.fullmatch(name) or not sibling.rfilename.isprintable() or name.startswith("."):
        return None
    if not isinstance(size, int) or not 0 <= size <= MAX_FILE_BYTES:
        return None
    if {"", ".", ".."} & set(sibling.rfilename.split("/")):
        return None
    lfs = sibling.lfs
    sha256 = str(lfs.sha256).lower() if lfs is not None else ""
    return RemoteFile(sibling.rfilename, size, sha256, str(sibling.blob_id or "").lower())
