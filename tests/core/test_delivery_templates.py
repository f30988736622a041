"""Texts with placeholders: known ones only, escaped in HTML, and never half filled in."""

from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.delivery.templates import (
    TEMPLATE_CHARACTERS_MAX,
    TEXT_CHARACTERS_MAX,
    NotFilled,
    check_template,
    fill_in,
)
from tickwork.errors import InvalidInput

VALUES: dict[str, Any] = {
    "payload": {"name": "Ada & <Bob>", "tags": ["x", {"y": 1.5}], "none": None, "ok": True, "0": 7},
    "slot": "2026-01-05T12:00:00Z",
    "schedule": {"name": "daily"},
}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("no placeholder, { }, }} and {", "no placeholder, { }, }} and {"),
        ("{{ slot }}", "2026-01-05T12:00:00Z"),
        ("{{slot}}{{  schedule.name\t}}", "2026-01-05T12:00:00Zdaily"),
        ("{{ payload.name }}!", "Ada & <Bob>!"),
        ("{{ payload.tags.0 }}", "x"),
        ("{{ payload.tags.1.y }}", "1.5"),
        ("{{ payload.tags }}", '["x",{"y":1.5}]'),
        ("{{ payload.none }}{{ payload.ok }}{{ payload.0 }}", "true7"),
        ("{{ open {{ slot }}", "{{ open 2026-01-05T12:00:00Z"),
    ],
)
def test_known_placeholders_are_filled_in(text: str, filled: str) -> None:
    check_template(text, field="text")
    assert fill_in(text, VALUES) == filled


@pytest.mark.parametrize(
    "name",
    [
        "", " ", "Slot", "now", "payload.", "payload..x", ".payload", "payload.x()", "payload[0]",
        "payload.x | upper", "schedule", "schedule.id", "slot.year", "payload.a b", "env.PATH",
        "payload.é", "payload.12345", "payloads", "{ slot", "slot }", "slot\0",
    ],
)  # fmt: skip
def test_an_unknown_placeholder_is_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_template(f"Hello {{{{ {name} }}}}", field="subject")
    (fault,) = refused.value.errors
    assert fault.field == "subject"
    assert f"unknown placeholder {{{{ {name.strip()}" in fault.message


def test_every_unknown_placeholder_is_named() -> None:
    with pytest.raises(InvalidInput) as refused:
        check_template("{{ a }} {{ slot }} {{ b }}", field="text")
    assert len(refused.value.errors) == 2


@pytest.mark.parametrize("text", [None, 5, b"x", ["x"], "x" * (TEMPLATE_CHARACTERS_MAX + 1)])
def test_what_is_no_text_or_too_long_is_refused(text: object) -> None:
    with pytest.raises(InvalidInput, match="text: must be a text of at most 65536 characters"):
        check_template(text, field="text")


@pytest.mark.parametrize("part", ["{", "{{ ", "{{a", "{{ slot }}", "}}", "{ {"])
def test_a_long_text_is_checked_in_linear_time(part: str) -> None:
    text = part * (TEMPLATE_CHARACTERS_MAX // len(part))
    check_template(text, field="text")  # It took minutes when each `{{` searched to the end.
    fill_in(text, VALUES)


@pytest.mark.parametrize(
    "name",
    ["payload.missing", "payload.name.x", "payload.tags.2", "payload.tags.x", "payload.none.x"],
)
def test_a_value_that_the_payload_lacks_is_named(name: str) -> None:
    with pytest.raises(NotFilled, match=rf"there is no value for \{{\{{ {name} \}}\}}"):
        fill_in(f"{{{{ {name} }}}}", VALUES)


@pytest.mark.parametrize("payload", [None, 5, "text", [1], True])
def test_any_payload_may_lack_a_value_and_be_shown_as_a_whole(payload: Any) -> None:
    values = {**VALUES, "payload": payload}
    assert isinstance(fill_in("{{ payload }}", values), str)
    with pytest.raises(NotFilled):
        fill_in("{{ payload.name }}", values)


class Tags(HTMLParser):
    """Collects the tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(f"{tag} {attrs}")

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text() | st.sampled_from(["<script>", "</p><b>", "\"'><img>", "&lt;", "{{ slot }}"]))
def test_a_value_in_html_is_text_and_adds_no_tags(value: str) -> None:
    page = fill_in("<p>{{ payload.x }}</p>", {"payload": {"x": value}}, is_html=True)
    parsed = Tags(page)
    assert parsed.tags == ["p []"]
    assert "<" not in page.removeprefix("<p>").removesuffix("</p>")
    assert '"' not in page


def test_a_value_is_not_filled_in_a_second_time() -> None:
    assert fill_in("{{ payload.x }}", {"payload": {"x": "{{ slot }}"}}) == "{{ slot }}"


@given(st.text(max_size=200))
def test_a_text_is_filled_in_or_lacks_a_value_if_its_check_passed(text: str) -> None:
    try:
        check_template(text, field="text")
    except InvalidInput:
        return
    assert isinstance(fill_in(text, VALUES), str)


def test_a_text_that_repeats_a_large_payload_ends_at_a_limit() -> None:
    text = "{{ payload }}" * (TEMPLATE_CHARACTERS_MAX // 13)
    check_template(text, field="text")
    large = {"payload": "<" * 128_000}
    with pytest.raises(NotFilled, match="more than 1000000 characters with its values"):
        fill_in(text, large)
    most = {"payload": "x" * (TEXT_CHARACTERS_MAX - 2)}
    assert len(fill_in("a{{ payload }}b", most)) == TEXT_CHARACTERS_MAX
    with pytest.raises(NotFilled):
        fill_in("a{{ payload }}bc", most)
    with pytest.raises(NotFilled):  # Escaped it has four times as many.
        fill_in("{{ payload }}", {"payload": "<" * 300_000}, is_html=True)
