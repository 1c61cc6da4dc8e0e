"""Reads parts of a file of the hub over HTTP, without fetching the rest.

Only the hash of the whole file is known, so a part cannot be checked against it: what is checked is that the
hub sends the part that was asked for, of the file that was listed, whole.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import httpx2

from meshllm_core.errors import DownloadFailed
from meshllm_core.models.quants import RemoteFile
from meshllm_core.models.transfer import (
    CONTENT_RANGE,
    TRIES,
    NoNewBytes,
    Transfer,
    damaged,
    pause,
    reason_of,
    same_file,
    stop_if,
    stop_passing,
    wait,
)


class Ranges:
    """One file of the hub; not safe to use from several threads at once."""

    def __init__(
        self,
        file: RemoteFile,
        transfer: Callable[[], Transfer],
        translated: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`transfer` says where the file is; `translated` turns the network's errors into ours."""
        self.file = file
        self.received = 0
        """Bytes of content that came over the network."""
        self._transfer = transfer
        self._translated = translated

    def stream(
        self, offset: int, length: int, *, cancelled: Callable[[], bool] = lambda: False
    ) -> Iterator[bytes]:
        """Exactly `length` bytes from `offset` on, in parts; an answer that is cut is continued.

        Raises DownloadFailed, HubUnreachable.
        """
        if not (offset >= 0 and 0 < length <= self.file.size - offset):
            raise damaged(
                self.file, f"bytes {offset} to {offset + length} are not all in its {self.file.size}"
            )
        with self._translated():
            transfer = self._transfer()
            at, end, failures = offset, offset + length, 0
            while at < end:
                before = at
                try:
                    for chunk in self._request(transfer, at, end):
                        stop_if(cancelled, self.file)
                        at += len(chunk)
                        self.received += len(chunk)
                        yield chunk
                except (httpx2.TransportError, NoNewBytes) as error:
                    failures = 1 if at > before else failures + 1
                    if failures >= TRIES:
                        raise DownloadFailed(
                            f"The download of {self.file.path} stopped at byte {at}: {reason_of(error)}.",
                            hint="Run the command again to go on from there.",
                        ) from error
                    wait(pause(error, failures, transfer.retry_wait), cancelled, self.file)

    def _request(self, transfer: Transfer, start: int, end: int) -> Iterator[bytes]:
        headers = {**transfer.headers, "Range": f"bytes={start}-{end - 1}"}
        with transfer.client.stream(
            "GET", transfer.url, headers=headers, timeout=transfer.timeout
        ) as response:
            stop_passing(self.file, response)
            if response.status_code == 416:
                raise damaged(self.file, "the hub has a shorter one")
            transfer.check(response)
            same_file(self.file, response)
            self._check(response, start, end)
            left = end - start
            for chunk in response.iter_raw():
                if len(chunk) > left:
                    raise damaged(self.file, "the hub sent more bytes than it announced")
                left -= len(chunk)
                yield chunk
            if left:
                raise NoNewBytes("the connection ended early")

    def _check(self, response: httpx2.Response, start: int, end: int) -> None:
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise damaged(self.file, "the hub packed it although it was asked not to")
        if response.status_code == 200 and (start, end) != (0, self.file.size):
            raise DownloadFailed(
                f"{self.file.path} cannot be read in parts: the hub sends all of it.",
                hint="Download the whole model instead: `meshllm models download`.",
            )
        found = CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if response.status_code == 206 and (
            found is None
            or (int(found[1]), int(found[2])) != (start, end - 1)
            or found[3] not in ("*", str(self.file.size))
        ):
            raise damaged(self.file, "the hub sent another part of it than was asked for")
        announced = response.headers.get("Content-Length", str(end - start))
        if announced != str(end - start):
            raise damaged(self.file, f"the hub announced {announced[:20]} bytes instead of {end - start}")
