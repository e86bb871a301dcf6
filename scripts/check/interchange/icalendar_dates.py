"""Prints the components of a calendar by icalendar: "uid start end occurrences", with days as 20261231 and times in UTC."""

import sys
from datetime import datetime, timezone
from itertools import islice

from dateutil.rrule import rrulestr
from icalendar import Calendar


def text(value):
    if not isinstance(value, datetime):
        return value.strftime("%Y%m%d")
    return value.astimezone(timezone.utc).strftime("%Y%m%dT%H%M%SZ")


def date(component, *names):
    return next((text(component.decoded(name)) for name in names if name in component), "-")


def occurrences(component):
    start = component.decoded("DTSTART")
    is_day = not isinstance(start, datetime)
    first = datetime(start.year, start.month, start.day) if is_day else start
    rule = rrulestr(component["RRULE"].to_ical().decode(), dtstart=first)
    return ",".join(text(value.date() if is_day else value) for value in islice(rule, 5))


with open(sys.argv[1], "rb") as file:
    calendar = Calendar.from_ical(file.read())
for component in calendar.walk():
    if component.name not in ("VTODO", "VEVENT"):
        continue
    assert not component.errors, component.errors
    dates = occurrences(component) if "RRULE" in component else "-"
    print(component["UID"], date(component, "DTSTART"), date(component, "DUE", "DTEND"), dates)
