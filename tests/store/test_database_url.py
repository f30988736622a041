"""A database is named without its password."""

from __future__ import annotations

import pytest

from tickwork.store.shared.database_url import migrate_command, without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///shop.db", "sqlite:///shop.db"),
        ("sqlite:////tmp/a:b@c/shop.db", "sqlite:////tmp/a:b@c/shop.db"),
        ("postgresql://ada@host/shop", "postgresql://ada@host/shop"),
        ("postgresql://ada:secret@host:5433/shop", "postgresql://ada@host:5433/shop"),
        ("postgresql://ada:se:cr@et@host/shop", "postgresql://ada@host/shop"),
        ("postgresql://host/shop?password=secret", "postgresql://host/shop"),
        (
            "postgresql://host/shop?user=ada&password=secret&sslpassword=other&ssl=on",
            "postgresql://host/shop?user=ada&ssl=on",
        ),
    ],
)
def test_a_url_is_shown_without_passwords(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_the_command_can_be_pasted_into_a_shell() -> None:
    assert migrate_command("sqlite:////my shop/a.db") == (
        "`tickwork migrate --database 'sqlite:////my shop/a.db'`"
    )
