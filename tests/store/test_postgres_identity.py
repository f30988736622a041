"""Which PostgreSQL URLs name the same database."""

from collections.abc import Mapping

import pytest

from tickwork.store.postgres.engine.identity import identity_of

USUAL = "postgresql://anna@db.example/shop"


@pytest.mark.parametrize(
    ("url", "environ"),
    [
        ("postgresql://db.example/shop", {}),
        ("postgresql://berta:secret@db.example:5432/shop", {}),
        ("postgresql://anna@db.example/shop?sslmode=require&application_name=till", {}),
        ("postgresql://anna@db.example/%73hop", {}),
        ("postgresql://shop@db.example", {}),
        ("postgresql:///shop?host=db.example", {}),
        ("postgresql:///shop?host=db.example&port=5432", {}),
        ("postgresql://db.example?dbname=shop", {}),
        ("postgresql:///shop", {"PGHOST": "db.example"}),
        ("postgresql://anna@db.example", {"PGDATABASE": "shop"}),
    ],
)
def test_spellings_of_one_place_are_equal(url: str, environ: Mapping[str, str]) -> None:
    assert identity_of(url, environ) == identity_of(USUAL, {})


@pytest.mark.parametrize(
    ("url", "environ"),
    [
        ("postgresql://anna@127.0.0.1/shop", {}),
        ("postgresql://anna@db.example:5433/shop", {}),
        ("postgresql://anna@db.example/Shop", {}),
        ("postgresql://anna@db.example", {}),
        ("postgresql://anna@db.example,other.example/shop", {}),
        ("postgresql://anna@db.example/shop?search_path=another", {}),
        ("postgresql://anna@db.example/shop?options=-csearch_path%3Danother", {}),
        ("postgresql://anna@db.example/shop", {"PGPORT": "5433"}),
    ],
)
def test_urls_of_different_databases_have_different_identities(
    url: str, environ: Mapping[str, str]
) -> None:
    assert identity_of(url, environ) != identity_of(USUAL, {})


def test_addresses_of_all_kinds_are_read() -> None:
    hosts = identity_of("postgresql://[::1],[::2]:5433,a.example:5434,%2Frun%2Fpg/shop", {}).hosts
    assert hosts == (("::1", "5432"), ("::2", "5433"), ("a.example", "5434"), ("/run/pg", "5432"))
