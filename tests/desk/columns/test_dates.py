import datetime as dt

import numpy as np
import pandas as pd
import pytest

from mgce.desk.columns.cells import CALENDAR, DIGITS, FORMS, MONTH, ORDINAL, WEEK, days_of_dates, days_of_text

RNG = np.random.default_rng(0)
EPOCH = dt.datetime(1970, 1, 1)
# Of all years that four digits write and Python has, and the ends of each.
MOMENTS = [
    EPOCH + dt.timedelta(days=int(days), microseconds=int(us))
    for days, us in zip(RNG.integers(-719_162, 2_932_897, 300), RNG.integers(0, 86_400 * 10**6, 300), strict=True)
] + [dt.datetime(year, month, day) for year in (1, 1600, 1677, 2000, 2262, 9999) for month, day in ((1, 1), (12, 31))]


def in_days(moment):
    return (moment - EPOCH) / dt.timedelta(days=1)


def check(days, expected, name=""):
    # Microseconds become a float64, and that is divided: two roundings, each of at most half an ulp.
    np.testing.assert_allclose(days, expected, rtol=2.0**-52, atol=0, err_msg=name)


def test_dates_and_times_are_those_of_python():
    written = {
        "T": [moment.isoformat() for moment in MOMENTS],
        "blank": [moment.isoformat(" ") for moment in MOMENTS],
        "Z": [f"{moment.isoformat()}Z" for moment in MOMENTS],
        "small": [f"{moment.isoformat()}Z".lower() for moment in MOMENTS],
        "UTC": [f"{moment.isoformat(' ')} UTC" for moment in MOMENTS],
        "digits": [moment.isoformat().replace("-", "").replace(":", "") for moment in MOMENTS],
        "comma": [moment.isoformat().replace(".", ",") for moment in MOMENTS],
        "slashes": [moment.isoformat(" ").replace("-", "/") for moment in MOMENTS],
        "spaces": [f"  {moment.isoformat()} " for moment in MOMENTS],
        "nanoseconds": [f"{moment.isoformat(timespec='microseconds')}999" for moment in MOMENTS],
    }
    expected = [in_days(moment) for moment in MOMENTS]
    for name, cells in written.items():
        check(days_of_text(pd.Series(cells)), expected, name)


@pytest.mark.parametrize("minutes", [0, 60, -210, 345, 14 * 60, -12 * 60])
def test_offsets_are_those_of_python(minutes):
    zone = dt.timezone(dt.timedelta(minutes=minutes))
    local = [moment.replace(tzinfo=dt.timezone.utc).astimezone(zone) for moment in MOMENTS[:300]]
    expected = [in_days(moment) for moment in MOMENTS[:300]]
    for cells in ([moment.isoformat() for moment in local], [f"{moment:%Y-%m-%d %H:%M:%S.%f%z}" for moment in local]):
        padded = [cell.zfill(len(max(cells, key=len))) for cell in cells]  # %Y does not fill years up with zeros
        check(days_of_text(pd.Series(padded)), expected)


def test_days_of_every_form_are_those_of_python():
    days = [moment.date() for moment in MOMENTS]
    weeks = [day.isocalendar() for day in days]
    written = {
        CALENDAR: [day.isoformat() for day in days],
        DIGITS: [day.isoformat().replace("-", "") for day in days],
        ORDINAL: [f"{day.year:04}-{day.timetuple().tm_yday:03}" for day in days],
        WEEK: [f"{year:04}-W{week:02}-{day}" for year, week, day in weeks],
    }
    expected = [in_days(dt.datetime.combine(day, dt.time())) for day in days]
    for form, cells in written.items():
        np.testing.assert_array_equal(days_of_text(pd.Series(cells), [form]), expected, err_msg=form)
        np.testing.assert_array_equal(days_of_text(pd.Series(cells)), expected, err_msg=form)
        for other in set(FORMS) - {form}:
            assert days_of_text(pd.Series(cells), [other]).isna().all(), (form, other)
    monday = [in_days(dt.datetime.fromisocalendar(year, week, 1)) for year, week, _ in weeks[:300] if year]
    np.testing.assert_array_equal(days_of_text(pd.Series([f"{y:04}W{w:02}" for y, w, _ in weeks[:300]])), monday)
    first = [in_days(dt.datetime(day.year, day.month, 1)) for day in days]
    np.testing.assert_array_equal(days_of_text(pd.Series([day.isoformat()[:7] for day in days]), [MONTH]), first)


NO_DATES = [
    *("", "2020", "12", "2020-13", "2020-00", "2020-02-30", "2019-02-29", "0000-00-00", "2020-W54-1", "2019-W53-1"),
    *("2020-W00-1", "2020-W01-8", "2019-366", "2020-000", "20201301", "2020-01-01T25:00", "2020-01-01T24:01", "soon"),
    *("2020-01-01T12:60", "2020-01-01T12:00:60", "2020-01-01T12:00+25:00", "2020-01-01 CET", "31.12.2020", "1/2/2020"),
    *("2020-01-01x", "x2020-01-01", "2020-01-01\n2020-01-02", "12020-01-01", "2020-01-012", "2020/01", "2020.01"),
]


def test_what_is_no_date_is_missing():
    days = days_of_text(pd.Series([*NO_DATES, None, np.nan, "2020-01-01"]))
    assert days.isna().tolist() == [True] * (len(NO_DATES) + 2) + [False]


def test_the_end_of_a_day_is_the_beginning_of_the_next():
    assert days_of_text(pd.Series(["2020-02-28T24:00", "2020-02-28T24:00:00Z"])).tolist() == [18321.0] * 2
    assert (dt.datetime(2020, 2, 29) - EPOCH).days == 18321


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kolkata"])
def test_columns_of_dates_are_as_their_text(unit, zone):
    moments = [moment.replace(microsecond=0) for moment in MOMENTS if 1678 < moment.year < 2262 or unit != "ns"]
    moments = [moment for moment in moments if 2 < moment.year < 9998]  # those that every zone has
    dates = pd.Series(np.array([*moments, "NaT"], dtype=f"datetime64[{unit}]"), index=range(5, 6 + len(moments)))
    if zone is not None:
        dates = dates.dt.tz_localize("UTC").dt.tz_convert(zone)
    days = days_of_dates(dates)
    check(days, [*(in_days(moment) for moment in moments), np.nan])
    np.testing.assert_array_equal(days_of_text(dates.astype(object).map(str)), days)
    assert days.index.equals(dates.index)


def test_dates_beyond_all_calendars_are_missing():
    dates = pd.Series(np.array([2**62, -(2**62), 86_400], dtype="datetime64[s]"))
    np.testing.assert_array_equal(days_of_dates(dates), [np.nan, np.nan, 1.0])
