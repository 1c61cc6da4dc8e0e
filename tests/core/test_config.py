"""The configuration: sources, ranges, typos, and that one table feeds everything."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshllm_core.config import KEYS, KEYS_BY_NAME, Key, Settings, base_url, is_loopback, load_settings
from meshllm_core.config_text import example, literal
from meshllm_core.errors import ConfigError, ExitCode
from meshllm_core.paths import Paths

ASCII = st.characters(min_codepoint=33, max_codepoint=126)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "config").mkdir()
    return Paths(tmp_path / "config", tmp_path / "data", tmp_path / "cache", tmp_path / "logs")


def write(paths: Paths, text: str | bytes) -> None:
    paths.config_file.write_bytes(text if isinstance(text, bytes) else text.encode())


def refused(paths: Paths, **sources: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_settings(paths, **sources)
    assert caught.value.exit_code is ExitCode.USAGE
    assert caught.value.hint
    return caught.value


def test_without_anything_all_values_are_defaults(paths: Paths) -> None:
    settings = load_settings(paths)
    assert settings == Settings()
    assert (settings.port, settings.console_port, settings.models) == (9337, 3131, ("default",))
    assert {settings.source(row.name).kind for row in KEYS} == {"default"}


def test_later_sources_win_and_each_is_remembered(paths: Paths) -> None:
    write(paths, '# mine\nport = 1001\nlanes = 2\n\nctx_size = 4096\nmodels = ["a/b", "auto"]\n')
    environ = {"MESHLLM_LANES": "3", "MESHLLM_CTX_SIZE": "512", "HOME": "/x"}
    settings = load_settings(paths, flags={"ctx_size": 1024, "threads": None}, environ=environ)
    assert (settings.port, settings.lanes, settings.ctx_size) == (1001, 3, 1024)
    assert settings.models == ("a/b", "auto")
    assert str(settings.source("port")) == f"{paths.config_file}:2"
    assert str(settings.source("models")) == f"{paths.config_file}:6"
    assert str(settings.source("lanes")) == "MESHLLM_LANES"
    assert str(settings.source("ctx_size")) == "--ctx-size"
    assert str(settings.source("threads")) == "default"


@pytest.mark.parametrize(
    ("text", "words", "hint", "param"),
    [
        ("prot = 1", ":1: there is no key 'prot'", "Did you mean port?", "prot"),
        ("\n\nctx-size = 1", ":3: there is no key 'ctx-size'", "Did you mean ctx_size?", "ctx-size"),
        ("[server]\nport = 1", ":1: there is no key 'server'", "", "server"),
        ("server.port = 1", ":1: there is no key 'server'", "", "server"),
        ("zzzzzz = 1", "no key 'zzzzzz'", "meshllm config", "zzzzzz"),
        ('lanes = 1\nport = "9337"', ":2: port is '9337'", "whole number from 0 to 65,535", "port"),
        ("port = 1.5", "port is 1.5", "whole number", "port"),
        ("port = true", "port is True", "whole number", "port"),
        ("port = 65536", "outside its range", "65,535", "port"),
        ("ctx_size = 99999999", "ctx_size is 99999999, outside its range", "4,194,304", "ctx_size"),
        ("port = -1", "outside its range", "65,535", "port"),
        ("lanes = 0", "outside its range", "from 1 to 64", "lanes"),
        ("keep_alive_seconds = nan", "outside its range", "from 1 to 300", "keep_alive_seconds"),
        ("max_vram = inf", "outside its range", "", "max_vram"),
        ('kv_type = "q8"', "kv_type is 'q8'", "f16 | q8_0 | q4_0", "kv_type"),
        ('mmap = "yes"', "mmap is 'yes'", "true or false", "mmap"),
        ('models = "a/b"', "models is 'a/b'", "list of texts", "models"),
        ("models = [1]", "models is [1]", "list of texts", "models"),
        ('models = [" "]', "empty entry", "Remove", "models"),
        ('host = "http://x"', "host is", "without scheme", "host"),
        ('host = "a\\u0000b"', "control characters", "", "host"),
        ('hub_endpoint = "ftp://x"', "hub_endpoint is", "http", "hub_endpoint"),
        ("lanes = 1\nport = ", ":2: Invalid value", "quotes", None),
        ("lanes = 1\nlanes = 2", ":2: Cannot overwrite", "each key once", None),
        ('api_key = "a b"', "api_key has a wrong value", "without spaces", "api_key"),
        ("a = [1\nb = 2", ":2: Unclosed array (at line 2, column 1)", "quotes", None),
        ("\n\nmodel = default", ":3: ", "quotes", None),
    ],
)
def test_mistakes_in_the_file_are_named(
    paths: Paths, text: str, words: str, hint: str, param: str | None
) -> None:
    write(paths, text)
    error = refused(paths)
    assert words in error.message
    assert str(paths.config_file) in error.message
    assert hint in error.hint
    assert error.param == param


def test_a_secret_is_never_repeated(paths: Paths) -> None:
    write(paths, 'api_key = "two words"')
    assert "two words" not in str(refused(paths))
    write(paths, 'api_key = "s3cret-value"')
    assert "s3cret-value" not in repr(load_settings(paths))


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"\xff\xfe", "not UTF-8"),
        (b"port = 1\nhost = '\xff'", ":2: not UTF-8"),
        (b"# " + b"x" * (1 << 20), "larger than 1 MiB"),
        (b"a = " + b"[" * 5000, ""),
    ],
)
def test_files_that_are_no_configuration_are_refused(paths: Paths, raw: bytes, words: str) -> None:
    write(paths, raw)
    assert words in refused(paths).message


def test_a_byte_order_mark_is_fine(paths: Paths) -> None:
    write(paths, b"\xef\xbb\xbfport = 4")
    assert load_settings(paths).port == 4


def test_a_file_that_was_named_must_exist(paths: Paths, tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.toml"
    assert "nowhere.toml" in refused(paths, config_file=missing).message
    assert "nowhere.toml" in refused(paths, environ={"MESHLLM_CONFIG": str(missing)}).message
    assert "Cannot read" in refused(paths, config_file=tmp_path).message


def test_a_named_file_replaces_the_usual_one(paths: Paths, tmp_path: Path) -> None:
    write(paths, "port = 1")
    other = tmp_path / "other.toml"
    other.write_text("lanes = 7")
    settings = load_settings(paths, config_file=other)
    assert (settings.port, settings.lanes) == (9337, 7)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("PORT", " 8080 ", 8080),
        ("MLOCK", "1", True),
        ("MLOCK", "Off", False),
        ("MODELS", "a/b:Q4_K_M, auto,", ("a/b:Q4_K_M", "auto")),
        ("MAX_VRAM", "7.5", 7.5),
        ("API_KEY", "", ""),
        ("PORT", "", 9337),
    ],
)
def test_environment_values_are_read_as_their_key_wants(
    paths: Paths, name: str, text: str, value: object
) -> None:
    settings = load_settings(paths, environ={f"MESHLLM_{name}": text})
    assert getattr(settings, name.lower()) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PORT", "x"),
        ("PORT", "1e3"),
        ("PORT", "70000"),
        ("PORT", "9" * 5000),
        ("MMAP", "maybe"),
        ("MAX_VRAM", "nan"),
    ],
)
def test_mistakes_in_the_environment_are_named(paths: Paths, name: str, text: str) -> None:
    error = refused(paths, environ={f"MESHLLM_{name}": text})
    assert error.message.startswith(f"MESHLLM_{name}:")


def test_strange_variables_of_ours_are_pointed_out(paths: Paths) -> None:
    settings = load_settings(paths, environ={"MESHLLM_PROT": "1", "MESHLLM_HOME": "/x", "OTHER": "1"})
    assert settings.warnings == ("MESHLLM_PROT is not a variable of meshllm and was ignored.",)


def test_flags_that_do_not_exist_are_refused(paths: Paths) -> None:
    assert "command line" in refused(paths, flags={"prot": 1}).message


def test_beyond_loopback_there_must_be_a_key(paths: Paths) -> None:
    error = refused(paths, flags={"host": "0.0.0.0"})
    assert (error.param, "api_key" in error.hint) == ("host", True)
    assert load_settings(paths, flags={"host": "0.0.0.0", "api_key": "k"}).host == "0.0.0.0"


def test_the_two_ports_differ(paths: Paths) -> None:
    assert "both 5000" in refused(paths, flags={"port": 5000, "console_port": 5000}).message
    assert load_settings(paths, flags={"port": 0, "console_port": 0}).port == 0


def test_every_row_of_the_table_is_complete() -> None:
    flags = [row.flag for row in KEYS if row.flag]
    assert len(set(flags)) == len(flags)
    for row in KEYS:
        assert row.help.endswith("."), row.name
        assert row.section and row.allowed
        assert re.fullmatch(r"(--[a-z-]+)?", row.flag)
        if row.kind in ("integer", "number"):
            assert row.minimum is not None and row.maximum is not None
    expected = {"port": "--port", "console_port": "--console", "models": "--model", "max_vram": "--max-vram"}
    assert {name: KEYS_BY_NAME[name].flag for name in expected} == expected


def test_example_documents_every_key_and_changes_nothing(paths: Paths) -> None:
    write(paths, example())
    assert load_settings(paths) == Settings()
    uncommented = re.sub(r"^# ([a-z_]+ = )", r"\1", example(), flags=re.MULTILINE)
    table = tomllib.loads(uncommented)
    assert list(table) == [row.name for row in KEYS]
    write(paths, uncommented)
    settings = load_settings(paths)
    assert settings == Settings()
    assert {settings.source(row.name).kind for row in KEYS} == {"file"}


def values(row: Key) -> st.SearchStrategy[Any]:
    """Values that a key takes."""
    match row.kind:
        case "integer":
            return st.integers(int(row.minimum or 0), int(row.maximum or 0))
        case "number":
            return st.floats(row.minimum, row.maximum)
        case "boolean":
            return st.booleans()
        case "text":
            return st.sampled_from(row.choices) if row.choices else st.just(row.default)
        case "list":
            if row.pattern:
                return st.lists(st.from_regex(row.pattern, fullmatch=True, alphabet=ASCII), max_size=4)
            return st.lists(st.sampled_from(["auto", "a/b:Q4", 'with "quotes"', "ü\\n"]), max_size=4)


@given(data=st.data())
def test_whatever_is_allowed_survives_being_written_and_read(
    data: st.DataObject, tmp_path_factory: Any
) -> None:
    row = data.draw(
        st.sampled_from([row for row in KEYS if row.name not in ("host", "port", "console_port")])
    )
    value = data.draw(values(row))
    folder = tmp_path_factory.mktemp("c")
    paths = Paths(folder, folder, folder, folder)
    written = tuple(value) if isinstance(value, list) else value
    write(paths, f"{row.name} = {written if row.kind == 'number' else literal(written)}")
    assert getattr(load_settings(paths), row.name) == written


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.2", False),
        ("attic.lan", False),
        ("", False),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:1"),
        ("0.0.0.0", "http://127.0.0.1:1"),
        ("::", "http://[::1]:1"),
        ("fe80::1", "http://[fe80::1]:1"),
        ("attic", "http://attic:1"),
    ],
)
def test_base_url(host: str, url: str) -> None:
    assert base_url(host, 1) == url
