"""The cron grammar: cronsim's answers where it has one, our additions by hand."""

from datetime import UTC, date, datetime, timedelta
from itertools import islice
from random import Random

import pytest
from cronsim import CronSim

from tickwork.core import when

LIMITS = when.Limits(min_interval_seconds=1)
START = datetime(2027, 1, 1, tzinfo=UTC)
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


def cron(expression: str, seed: str = "") -> when.Rule:
    return when.parse({"cron_expr": expression}, seed=seed, limits=LIMITS)


def slots(expression: str, count: int, seed: str = "", start: datetime = START) -> list[datetime]:
    return list(islice(when.iterate_slots(cron(expression, seed), start), count))


def days(expression: str, count: int, start: datetime = START) -> list[str]:
    return [f"{slot:%m-%d}" for slot in slots(expression, count, start=start)]


def random_field(rng: Random, low: int, high: int, names: tuple[str, ...] = ()) -> str:
    def one() -> str:
        first, last = sorted((rng.randint(low, high), rng.randint(low, high)))
        plain = names[first - low] if names else str(first)
        return rng.choice(
            (plain, plain, str(first), f"{first}-{last}", f"{first}-{last}/{rng.randint(1, 7)}",
             f"*/{rng.randint(1, high)}", f"{first}/{rng.randint(1, min(high, 9))}")
        )  # fmt: skip

    return ",".join(one() for _ in range(rng.choice((1, 1, 2, 3))))


def random_expression(rng: Random) -> str:
    weekday = rng.choice(
        ("*", "*", "*", random_field(rng, 0, 6, WEEKDAYS), "7", "5-7", f"{rng.randint(0, 7)}L",
         f"{rng.randint(0, 7)}#{rng.randint(1, 5)}", f"{rng.choice(WEEKDAYS)}#2,1")
    )  # fmt: skip
    fields = [
        random_field(rng, 0, 59),
        rng.choice(("*", random_field(rng, 0, 23))),
        rng.choice(("*", "*", random_field(rng, 1, 31), "L", "LW", "L,15")),
        rng.choice(("*", "*", random_field(rng, 1, 12, MONTHS))),
        weekday,
    ]
    if rng.random() < 0.3:
        fields.insert(0, random_field(rng, 0, 59))
    text = " ".join(fields)
    return rng.choice((text, text.lower()))


@pytest.mark.parametrize("seed", range(10))
def test_slots_are_those_of_cronsim(seed: int) -> None:
    rng = Random(seed)
    compared = 0
    while compared < 40:
        expression = random_expression(rng)
        start = START + timedelta(seconds=rng.randrange(400_000_000))
        try:
            theirs = list(islice(CronSim(expression, start), 12))
        except ValueError:
            assert when.validate({"cron_expr": expression}, limits=LIMITS), expression
            continue
        if not theirs:
            assert when.validate({"cron_expr": expression}, limits=LIMITS), expression
            continue
        assert slots(expression, len(theirs), start=start) == theirs, (expression, start)
        compared += 1


@pytest.mark.parametrize(
    ("alias", "plain"),
    [
        ("@hourly", "0 * * * *"), ("@daily", "0 0 * * *"), ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"), ("@monthly", "0 0 1 * *"), ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"), ("@HOURLY", "0 * * * *"), ("  @Daily ", "0 0 * * *"),
    ],
)  # fmt: skip
def test_an_alias_means_its_expression(alias: str, plain: str) -> None:
    assert slots(alias, 5) == slots(plain, 5)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0 9 ? * MON", "0 9 * * MON"), ("0 9 1 * ?", "0 9 1 * *"), ("0 9 ? * ?", "0 9 * * *"),
        ("0 9 * jan-mar MON", "0 9 * 1-3 1"), ("0 9 * * 7", "0 9 * * 0"),
        ("0 9 * * thu", "0 9 * * 4"), ("0  9\t* *   *", "0 9 * * *"), ("0 0 9 * * *", "0 9 * * *"),
        ("0 0 9 ? mar THU", "0 9 * 3 4"), ("0 9 * * MON-SUN", "0 9 * * *"),
        ("0 9 * * FRI-SUN", "0 9 * * 0,5,6"), ("0 9 * * sat-sun", "0 9 * * 6,7"),
        ("0 9 * * 5-SUN", "0 9 * * 5-7"), ("0 9 * * TUE-SUN/2,MON", "0 9 * * 1,2,4,6"),
        ("0 9 * * SUN-SUN", "0 9 * * 0"), ("0 9 * * SUN-TUE", "0 9 * * 0-2"),
        ("0 */24 */31 */12 *", "0 0 1 1 *"), ("*/60 9 * * *", "0 9 * * *"),
    ],
)  # fmt: skip
def test_two_spellings_of_one_rule_have_the_same_slots(one: str, other: str) -> None:
    assert slots(one, 20) == slots(other, 20)


def test_both_days_restricted_means_either_and_a_star_means_both() -> None:
    assert days("0 0 13 * 5", 6) == ["01-08", "01-13", "01-15", "01-22", "01-29", "02-05"]
    both = [date.fromisoformat(f"2027-{day}") for day in days("0 0 */12 * 5", 3)]
    assert all(day.day in (1, 13, 25) and day.isoweekday() == 5 for day in both)


#: (item, year and month, the day): 15W is the nearest Monday to Friday within the month.
NEAREST = [
    ("15W", 2027, 1, 15), ("15W", 2027, 5, 14), ("15W", 2027, 8, 16), ("1W", 2027, 5, 3),
    ("1W", 2028, 1, 3), ("1W", 2027, 8, 2), ("31W", 2027, 1, 29), ("31W", 2027, 10, 29),
    ("30W", 2027, 5, 31), ("30W", 2027, 10, 29), ("28W", 2027, 2, 26), ("29W", 2032, 2, 27),
    ("LW", 2027, 1, 29), ("LW", 2027, 2, 26), ("LW", 2027, 3, 31), ("L", 2028, 2, 29),
]  # fmt: skip


@pytest.mark.parametrize(("item", "year", "month", "day"), NEAREST)
def test_the_weekday_nearest_to_a_date(item: str, year: int, month: int, day: int) -> None:
    start = datetime(year, month, 1, tzinfo=UTC) - timedelta(seconds=1)
    (slot,) = slots(f"0 0 {item} {month} *", 1, start=start)
    assert slot.date() == date(year, month, day)


def test_a_month_without_the_date_has_no_nearest_weekday() -> None:
    assert days("0 0 31W * *", 4) == ["01-29", "03-31", "05-31", "07-30"]


def test_a_nearest_weekday_among_other_days() -> None:
    assert days("0 0 1W,20,L * *", 6) == ["01-20", "01-31", "02-01", "02-20", "02-28", "03-01"]


SEEDS = [f"schedule {number}" for number in range(60)]


@pytest.mark.parametrize(
    ("expression", "part", "low", "high", "least_spread"),
    [
        ("H * * * *", "%M", 0, 59, 25), ("0 H * * *", "%H", 0, 23, 15),
        ("0 0 H * *", "%d", 1, 28, 15), ("0 0 1 H *", "%m", 1, 12, 8),
        ("0 0 * * H", "%w", 0, 6, 5), ("H(1-5) * * * *", "%M", 1, 5, 4),
        ("0 H(9-16) * * *", "%H", 9, 16, 6), ("0 0 * * H(1-5)", "%w", 1, 5, 4),
        ("H 0 0 * * *", "%S", 0, 59, 25), ("0 0 H(29-31) 1 *", "%d", 29, 31, 3),
    ],
)  # fmt: skip
def test_a_hashed_value_is_stable_in_range_and_spread(
    expression: str, part: str, low: int, high: int, least_spread: int
) -> None:
    places = set()
    for seed in SEEDS:
        found = {int(f"{slot:{part}}") for slot in slots(expression, 3, seed)}
        assert len(found) == 1
        assert slots(expression, 3, seed) == slots(expression.lower(), 3, seed)
        places |= found
    assert min(places) >= low
    assert max(places) <= high
    assert len(places) >= least_spread


@pytest.mark.parametrize("step", [2, 7, 15, 30])
def test_a_hashed_step_starts_at_a_hashed_value(step: int) -> None:
    beginnings = set()
    for seed in SEEDS:
        minutes = sorted({slot.minute for slot in slots(f"H/{step} * * * *", 60, seed)})
        assert minutes == list(range(minutes[0], 60, step))
        assert minutes[0] < step
        beginnings.add(minutes[0])
    assert len(beginnings) > 1


def test_a_hashed_step_within_a_range() -> None:
    for seed in SEEDS:
        minutes = sorted({slot.minute for slot in slots("H(10-29)/10 * * * *", 10, seed)})
        assert minutes == [minutes[0], minutes[0] + 10]
        assert 10 <= minutes[0] < 20


def test_a_hash_may_stand_in_a_list_and_beside_names() -> None:
    assert {slot.minute for slot in slots("H(5-5),30 * * * *", 4)} == {5, 30}
    assert {slot.month for slot in slots("0 0 1 H(2-2),MAR *", 4)} == {2, 3}
    assert {f"{slot:%a}" for slot in slots("0 0 * * THU,H(1-1)", 4)} == {"Thu", "Mon"}


def test_a_name_that_contains_h_is_not_hashed() -> None:
    assert slots("0 0 * MAR THU", 5, "one") == slots("0 0 * MAR THU", 5, "two")


def test_leap_days_over_a_century_without_one() -> None:
    years = [slot.year for slot in slots("0 0 29 2 *", 3, start=START.replace(year=2095))]
    assert years == [2096, 2104, 2108]


def test_the_rarest_day_of_all_is_found() -> None:
    start = START.replace(year=2090)
    found = slots("0 0 29 2 */7", 3, start=start)
    assert [slot.year for slot in found] == [2128, 2156, 2184]
    assert all(slot.isoweekday() == 7 for slot in found)
