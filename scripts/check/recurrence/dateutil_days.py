"""Prints the days of recurrence rules by python-dateutil: as libical.c, but a line can have several rules, with "|" between them."""

import sys
from datetime import datetime
from itertools import islice, takewhile

from dateutil.rrule import rrulestr


def days(rule, anchor, until, limit):
    found = (day for day in rrulestr(rule, dtstart=anchor) if day > anchor)
    return islice(takewhile(lambda day: day <= until, found), limit)


def parse(day):
    return datetime.strptime(day, "%Y%m%d")


with open(sys.argv[1]) as cases:
    for line in cases:
        rules, anchor, until, limit = line.split()
        arguments = parse(anchor), parse(until), int(limit)
        union = {day for rule in rules.split("|") for day in days(rule, *arguments)}
        print(" ".join(day.strftime("%Y%m%d") for day in sorted(union)[: int(limit)]))
