"""A setting that is wrong is refused at start, with its name and without its value if that may be a
secret; it is not found in the log of the first delivery."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest
from click.testing import CliRunner

from tickwork.cli import app
from tickwork.errors import InvalidInput
from tickwork.settings import SECRETS, Settings, load_settings

SHORT_KEY, KEY = (b64encode(bytes(size)).decode() for size in (31, 32))
WRONG: dict[str, tuple[str, ...]] = {
    "host": (" ", "a b", "a\nb"),
    "port": ("-1", "65536", "x", "1.5"),
    "http_host": ("a b",),
    "http_port": ("65536",),
    "database": ("tickwork.db", "sqlite://", "mysql://x/y", "postgresql://"),
    "database_direct": ("sqlite:///x.db", "postgresql://"),
    "roles": ("boss", ",", "api,"),
    "min_interval_seconds": ("0", "nan", "86401"),
    "log_format": ("xml",),
    "log_level": ("loud",),
    "log_successes_per_second": ("-1",),
    "version_grace_seconds": ("-1", "x"),
    "owner_min_interval_seconds": ("0", "x"),
    "key_requests_per_second": ("0", "x"),
    "tenant_requests_per_second": ("0", "x"),
    "connections_max": ("0", "x"),
    "request_header_seconds": ("0", "x"),
    "request_body_seconds": ("0", "x"),
    "keep_alive_seconds": ("0", "x"),
    "wait_seconds": ("-1", "x"),
    "metrics_host": ("a b",),
    "metrics_port": ("99999",),
    "loop_blocked_seconds": ("0",),
    "processes": ("0", "257", "many", "1.5"),
    "drain_seconds": ("-1", "nan", "inf"),
    "allow_targets": ("10.0.0.0/99", "a b", "http://x", "10.0.0.1,[::", "*"),
    "delivery_concurrency": ("0",),
    "delivery_tenant_concurrency": ("0",),
    "host_concurrency": ("0",),
    "host_rate_per_second": ("0", "nan"),
    "smtp_url": ("mail.example.com", "smtp://", "smtp://x:99999", "http://x", "smtp://a b"),
    "email_from": ("nobody", "a@b, c@d"),
    "email_provider": ("pigeon",),
    "email_key": ("naïve", "a\nb"),
    "email_url": ("mail", "ftp://x/y", "http://", "https://x:y/", "https://u:p@x/", "http://a b"),
    "email_rate_per_second": ("0",),
    "secret_key": ("abc", SHORT_KEY, f"{KEY},", f"{KEY},{SHORT_KEY}", f"{KEY[:-1]}!", "é" * 44),
    "admin_key": ("short", "tw_" + "x" * 40),
    "public_url": ("jobs.example.com", "https://", "https://x:y", "https://x?a=1", "https://u@x",
                   "ftp://x", "https://x:0"),
    "trusted_proxies": ("proxy", "10.0.0.0/99", "10.0.0.1,x"),
    "owner_targets": ("no:such",),
    "archive_directory": (" ", __file__),
    "tracing": ("maybe",),
    "unknown_types": ("maybe",),
}  # fmt: skip
EVERY_WRONG = [(name, value) for name, values in WRONG.items() for value in values]


def test_each_setting_has_a_wrong_value_here() -> None:
    assert WRONG.keys() == {*Settings.__struct_fields__} - {"jwt"}


@pytest.mark.parametrize(("name", "value"), EVERY_WRONG)
def test_a_wrong_setting_is_refused_by_its_name(tmp_path: Path, name: str, value: str) -> None:
    variable = f"TICKWORK_{name.upper()}"
    with pytest.raises(InvalidInput) as raised:
        load_settings({}, environ={variable: value}, folder=tmp_path)
    assert {fault.field for fault in raised.value.errors} == {variable}
    if name in SECRETS:
        assert value not in str(raised.value).replace("smtp://user", "")


@pytest.mark.parametrize(
    "url", ["https://", "https:///keys", "https://u@x/", "http://x/", "https://x:y"]
)
def test_the_url_of_keys_that_names_no_host_is_refused(tmp_path: Path, url: str) -> None:
    environ = {
        "TICKWORK_JWT_ISSUER": "https://issuer.example",
        "TICKWORK_JWT_AUDIENCE": "jobs",
        "TICKWORK_JWT_JWKS_URL": url,
    }
    with pytest.raises(InvalidInput, match="TICKWORK_JWT_JWKS_URL: must begin with https://"):
        load_settings({}, environ=environ, folder=tmp_path)


@pytest.mark.parametrize("command", ["up", "queues list"])
def test_a_process_does_not_start_with_a_malformed_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TICKWORK_SECRET_KEY", SHORT_KEY)
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 2
    assert "TICKWORK_SECRET_KEY: must be 32 random bytes in base64" in result.stderr
    assert SHORT_KEY not in result.stderr
    assert [*tmp_path.iterdir()] == []
