"""Downloads against a real local server: whole, cut, resumed, wrong, refused, slow."""

import errno
import hashlib
import os
import threading
import time
from email.utils import formatdate
from pathlib import Path

import pytest

from meshllm_core.errors import DownloadFailed, HubUnreachable, MeshError, ModelNotFound, StorageError
from meshllm_core.models import transfer
from meshllm_core.models.hub import Hub, RemoteRepo
from meshllm_core.models.quants import RemoteFile
from meshllm_core.models.storage import PARTIAL_SUFFIX, storing
from tests.support.hub import COMMIT, LocalHub

REPO = "owner/model-GGUF"
CONTENT = hashlib.shake_128(b"content").digest(500_000)
NAME = "model-Q4_K_M.gguf"


@pytest.fixture
def listed(local_hub: LocalHub, hub: Hub) -> RemoteRepo:
    local_hub.add(REPO, {NAME: CONTENT, "README.md": b"hello"})
    local_hub.faults.chunk = 20_000
    return hub.list_files(REPO)


def fetch(hub: Hub, listed: RemoteRepo, target: Path, seen: list[int] | None = None) -> None:
    file = next(file for file in listed.files if file.path == NAME)
    hub.download(
        listed.repo,
        listed.commit,
        file,
        target,
        on_progress=(seen if seen is not None else []).append,
        cancelled=lambda: False,
    )


def test_a_listing_names_sizes_and_hashes(listed: RemoteRepo) -> None:
    assert listed.commit == COMMIT
    file = listed.files[0]
    assert (file.path, file.size) == (NAME, len(CONTENT))
    assert file.sha256 == hashlib.sha256(CONTENT).hexdigest()


def test_a_file_arrives_whole_and_is_reported(hub: Hub, listed: RemoteRepo, tmp_path: Path) -> None:
    seen: list[int] = []
    target = tmp_path / "deep" / NAME
    fetch(hub, listed, target, seen)
    assert target.read_bytes() == CONTENT
    assert seen[0] == 0 and seen[-1] == len(CONTENT) and seen == sorted(seen)
    assert [path.name for path in target.parent.iterdir()] == [NAME]


def test_a_cut_answer_is_continued_at_once(
    hub: Hub, listed: RemoteRepo, local_hub: LocalHub, tmp_path: Path
) -> None:
    local_hub.faults.cut_at, local_hub.faults.cuts = 0.4, 2
    fetch(hub, listed, tmp_path / NAME)
    assert (tmp_path / NAME).read_bytes() == CONTENT
    starts = [request[2].split("=")[1].split("-")[0] for request in local_hub.content_requests()]
    assert starts == ["0", "200000", "320000"]


def test_a_failed_download_goes_on_after_a_restart(
    hub: Hub, listed: RemoteRepo, local_hub: LocalHub, tmp_path: Path
) -> None:
    local_hub.faults.cut_at, local_hub.faults.cuts = 0.4, 1
    local_hub.faults.refusals = []
    target = tmp_path / NAME

    def after_the_cut(done: int) -> None:
        if done >= 200_000:
            local_hub.faults.refusals = [503] * 20

    file = listed.files[0]
    with pytest.raises(DownloadFailed, match="stopped at 200000 of 500000") as caught:
        hub.download(
            REPO, COMMIT, file, target, on_progress=after_the_cut, cancelled=lambda: _full(target, local_hub)
        )
    assert "go on" in caught.value.hint
    partial = target.with_name(NAME + PARTIAL_SUFFIX)
    assert partial.stat().st_size == 200_000
    local_hub.faults.refusals = []
    local_hub.requests.clear()
    seen: list[int] = []
    fetch(hub, listed, target, seen)
    assert target.read_bytes() == CONTENT
    assert seen[0] == 200_000
    assert [request[2] for request in local_hub.content_requests()] == ["bytes=200000-499999"]


@pytest.mark.parametrize("ranged", [False, True])
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("dated", [False, True])
def test_a_hub_is_asked_again_when_it_said(
    hub: Hub, listed: RemoteRepo, local_hub: LocalHub, tmp_path: Path, ranged: bool, status: int, dated: bool
) -> None:
    local_hub.faults.refusals = [status]
    local_hub.faults.retry_after = formatdate(time.time() + 2, usegmt=True) if dated else "1"
    began = time.monotonic()
    if ranged:
        assert b"".join(hub.ranges(REPO, COMMIT, listed.files[0]).stream(5, 10)) == CONTENT[5:15]
    else:
        fetch(hub, listed, tmp_path / NAME)
    assert time.monotonic() - began > 0.9
    assert len(local_hub.content_requests()) == 2


@pytest.mark.parametrize(
    ("asked", "words"),
    [("900", "asks to wait 15 minutes"), ("9" * 4000, "to wait for hours"), ("tomorrow", "answered 429")],
)
def test_a_hub_that_wants_long_patience_is_not_waited_for(
    hub: Hub, listed: RemoteRepo, local_hub: LocalHub, tmp_path: Path, asked: str, words: str
) -> None:
    local_hub.faults.refusals, local_hub.faults.retry_after = [429] * 20, asked
    for act in (
        lambda: fetch(hub, listed, tmp_path / NAME),
        lambda: list(hub.ranges(REPO, COMMIT, listed.files[0]).stream(5, 10)),
    ):
        with pytest.raises(DownloadFailed, match=words) as caught:
            act()
        assert "again" in caught.value.hint


def _full(target: Path, local_hub: LocalHub) -> bool:
    """Lets the server refuse everything once the first part has been written."""
    if local_hub.faults.cuts == 0:
        local_hub.faults.refusals = [503] * 20
    return False


def test_a_server_without_resume_is_started_over(
    hub: Hub, listed: RemoteRepo, local_hub: LocalHub, tmp_path: Path
) -> None:
    (tmp_path / (NAME + PARTIAL_SUFFIX)).write_bytes(CONTENT[:1000])
    local_hub.faults.ignore_range = True
    fetch(hub, listed, tmp_path / NAME)
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_a_server_without_resume_that_always_cuts_is_given_up(
    hub: Hub, listed: RemoteRepo, local_hub: LocalHub, tmp_path: Path
) -> None:
    local_hub.faults.ignore_range, local_hub.faults.cut_at = True, 0.4
    with pytest.raises(DownloadFailed, match="stopped at"):
        fetch(hub, listed, tmp_path / NAME)
    assert len(local_hub.content_requests()) <= 6


def test_damaged_content_is_removed_and_said(
    hub: Hub, listed: RemoteRepo, local_hub: LocalHub, tmp_path: Path
) -> None:
    local_hub.faults.corrupt = True
    with pytest.raises(DownloadFailed, match="damaged"):
        fetch(hub, listed, tmp_path / NAME)
    assert list(tmp_path.iterdir()) == []
    local_hub.faults.corrupt = False
    fetch(hub, listed, tmp_path / NAME)


def test_another_version_is_noticed_before_it_is_fetched(
    hub: Hub, listed: RemoteRepo, local_hub: LocalHub, tmp_path: Path
) -> None:
    local_hub.faults.linked_etag = "f" * 64
    seen: list[int] = []
    with pytest.raises(DownloadFailed, match="another version"):
        fetch(hub, listed, tmp_path / NAME, seen)
    assert max(seen) == 0


def test_a_partial_file_longer_than_the_whole_starts_over(
    hub: Hub, listed: RemoteRepo, tmp_path: Path
) -> None:
    (tmp_path / (NAME + PARTIAL_SUFFIX)).write_bytes(b"x" * (len(CONTENT) + 5))
    fetch(hub, listed, tmp_path / NAME)
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_small_files_are_checked_by_their_git_id(local_hub: LocalHub, hub: Hub, tmp_path: Path) -> None:
    local_hub.add(REPO, {NAME: b"tiny"}, large=False)
    listing = hub.list_files(REPO)
    assert listing.files[0].sha256 == ""
    fetch(hub, listing, tmp_path / NAME)
    local_hub.faults.corrupt = True
    with pytest.raises(DownloadFailed, match="damaged"):
        fetch(hub, listing, tmp_path / "other.gguf")


def test_a_cancelled_download_stops_soon_and_keeps_what_came(
    hub: Hub, listed: RemoteRepo, local_hub: LocalHub, tmp_path: Path
) -> None:
    local_hub.faults.seconds_per_chunk = 0.05
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    started = time.monotonic()
    with pytest.raises(DownloadFailed, match="cancelled"):
        hub.download(
            REPO,
            COMMIT,
            listed.files[0],
            tmp_path / NAME,
            on_progress=lambda done: None,
            cancelled=stop.is_set,
        )
    assert time.monotonic() - started < 1.0
    assert 0 < (tmp_path / (NAME + PARTIAL_SUFFIX)).stat().st_size < len(CONTENT)


def test_progress_is_reported_at_most_four_times_a_second(
    hub: Hub, listed: RemoteRepo, local_hub: LocalHub, tmp_path: Path
) -> None:
    local_hub.faults.seconds_per_chunk = 0.025
    seen: list[int] = []
    started = time.monotonic()
    fetch(hub, listed, tmp_path / NAME, seen)
    assert 3 <= len(seen) <= 3 + (time.monotonic() - started) / 0.25


@pytest.mark.parametrize(
    ("status", "code", "kind", "says"),
    [
        (401, "RepoNotFound", ModelNotFound, "no repository owner/model-GGUF, or it is private"),
        (401, "", DownloadFailed, "refused access"),
        (403, "GatedRepo", DownloadFailed, "gated"),
        (403, "", DownloadFailed, "refused access"),
        (429, "", DownloadFailed, "too many requests"),
        (500, "", DownloadFailed, "answered 500"),
    ],
)
def test_refusals_have_their_own_words(
    local_hub: LocalHub, hub: Hub, status: int, code: str, kind: type[MeshError], says: str
) -> None:
    local_hub.add(REPO, {NAME: CONTENT}, status=status, error_code=code)
    with pytest.raises(kind, match=says) as caught:
        hub.list_files(REPO)
    assert caught.value.hint


def test_reasons_of_a_library_end_in_one_full_stop(
    listed: RemoteRepo, local_hub: LocalHub, tmp_path: Path
) -> None:
    hub = Hub(endpoint=local_hub.address, retry_wait=0.001)
    for location, words in (("/loop", "reached"), ("file:///etc/passwd", "protocol"), ("http://[a:b", "URL")):
        local_hub.faults.location = location
        for act in (
            lambda: fetch(hub, listed, tmp_path / NAME),
            lambda: list(hub.ranges(REPO, COMMIT, listed.files[0]).stream(5, 10)),
        ):
            with pytest.raises((DownloadFailed, HubUnreachable), match=words) as caught:
                act()
            assert caught.value.message.endswith(".") and ".." not in caught.value.message


def test_missing_repositories_and_revisions_are_named(listed: RemoteRepo, hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="no repository owner/nothing"):
        hub.list_files("owner/nothing")
    with pytest.raises(ModelNotFound, match="no revision 'v9'"):
        hub.list_files(REPO, "v9")
    with pytest.raises(ModelNotFound, match="no longer"):
        hub.download(
            REPO,
            COMMIT,
            RemoteFile("gone.gguf", 3),
            tmp_path / "gone.gguf",
            on_progress=print,
            cancelled=bool,
        )


def test_a_silent_or_absent_hub_is_unreachable(
    local_hub: LocalHub, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = Hub(endpoint="http://127.0.0.1:9", connect_timeout=1)
    with pytest.raises(HubUnreachable, match=r"http://127.0.0.1:9"):
        nobody.list_files(REPO)
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubUnreachable, match="offline mode"):
        hub.list_files(REPO)


def test_an_answer_that_is_no_hubs_is_named(local_hub: LocalHub, hub: Hub) -> None:
    local_hub.add(REPO, {NAME: CONTENT}, commit="not-a-commit")
    with pytest.raises(DownloadFailed, match="cannot be used"):
        hub.list_files(REPO)


def test_names_that_no_disk_should_get_are_passed_over(local_hub: LocalHub, hub: Hub) -> None:
    local_hub.add(
        REPO,
        {
            "good.gguf": b"1",
            "../.hidden.gguf": b"2",
            "a\\b.gguf": b"3",
            "c:d.gguf": b"4",
            "e\x1b[2J.gguf": b"5",
            "../../other/repo/f.gguf": b"6",
            "a//g.gguf": b"7",
            "./h.gguf": b"8",
            "folder/good.gguf": b"9",
        },
    )
    assert [file.path for file in hub.list_files(REPO).files] == ["good.gguf", "folder/good.gguf"]


def test_the_address_comes_from_the_environment(
    local_hub: LocalHub, listed: RemoteRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", local_hub.address + "/")
    from_environment = Hub()
    assert from_environment.address == local_hub.address
    assert from_environment.list_files(REPO).files == listed.files
    assert os.environ["HF_HUB_DISABLE_TELEMETRY"] == "1"


def test_a_file_beyond_a_window_comes_in_several_answers(
    hub: Hub, listed: RemoteRepo, local_hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "WINDOW", 200_000)
    fetch(hub, listed, tmp_path / NAME)
    assert (tmp_path / NAME).read_bytes() == CONTENT
    ranges = [request[2] for request in local_hub.content_requests()]
    assert ranges == ["bytes=0-199999", "bytes=200000-399999", "bytes=400000-499999"]


def test_a_token_goes_to_the_hub(local_hub: LocalHub, listed: RemoteRepo, tmp_path: Path) -> None:
    local_hub.authorizations.clear()
    fetch(Hub(endpoint=local_hub.address, token="hf_secret"), listed, tmp_path / NAME)
    assert local_hub.authorizations[0] == "Bearer hf_secret"


def test_a_target_that_cannot_be_written_is_named(hub: Hub, listed: RemoteRepo, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot be used"):
        fetch(hub, listed, tmp_path / "file" / NAME)


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "is full"),
        (errno.EROFS, "cannot be written: Read-only file system"),
        (errno.EACCES, "cannot be written: Permission denied"),
        (errno.EIO, "cannot be used"),
    ],
)
def test_what_a_disk_refuses_has_its_own_words(number: int, says: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=says) as caught, storing(tmp_path):
        raise OSError(number, os.strerror(number))
    assert str(tmp_path) in caught.value.message and "MESHLLM_HOME" in caught.value.hint


def test_a_full_disk_is_named(hub: Hub, listed: RemoteRepo, tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.is_char_device():
        pytest.skip("this system has no /dev/full")
    (tmp_path / (NAME + PARTIAL_SUFFIX)).symlink_to(full)
    with pytest.raises(StorageError, match="full") as caught:
        fetch(hub, listed, tmp_path / NAME)
    assert "prune" in caught.value.hint
