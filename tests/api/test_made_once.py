"""`/openapi.json` and `/docs` are made once, compressed once and not sent again."""

from __future__ import annotations

import gzip

import pytest

from tests.kit.api import Client
from tickwork.api.compress import accepts_gzip
from tickwork.api.routes import docs

PATHS = ["/openapi.json", "/docs", "/docs/openapi.json"]


@pytest.mark.parametrize("path", PATHS)
def test_a_caller_who_has_the_text_gets_304(client: Client, path: str) -> None:
    first = client.get(path)
    etag = first.headers["etag"]
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = client.get(path, headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    other = client.get(path, headers={"If-None-Match": '"other"'})
    assert (other.status_code, other.content) == (200, first.content)


@pytest.mark.parametrize("path", PATHS)
def test_the_text_is_compressed_if_the_caller_accepts_that(client: Client, path: str) -> None:
    plain = client.get(path, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    packed = client.get(path, headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert packed.content == plain.content
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 5


def test_the_text_is_made_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.get("/docs")

    def render_again(*_: object, **__: object) -> str:
        raise AssertionError("the page is made again")

    monkeypatch.setattr(docs, "render_docs", render_again)
    assert client.get("/docs", headers={"Host": "other.example.com"}).status_code == 200


def test_an_answer_is_compressed_only_if_the_caller_accepts_that() -> None:
    assert all(map(accepts_gzip, ["gzip", "br, gzip;q=0.5", "*", "GZIP", "gzip;q=1.0"]))
    assert not any(map(accepts_gzip, [None, "", "br", "gzip;q=0", "gzip; q=0.000", "identity"]))


def test_gzip_of_the_description_can_be_read(client: Client) -> None:
    with client.stream("GET", "/openapi.json", headers={"Accept-Encoding": "gzip"}) as answer:
        packed = b"".join(answer.iter_raw())
    assert gzip.decompress(packed) == client.get("/openapi.json").content
