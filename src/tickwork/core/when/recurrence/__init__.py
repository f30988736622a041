"""RFC 5545 recurrences, on a naive clock.

A rule is the days that its date parts allow, thinned out by its interval, and the times on
each of them: `text` reads, `days` and `times` answer for one day, `rule` walks them.

dateutil knows which days a year has. Left to itself it walks from DTSTART through every
occurrence, and to the year 9999 if there is none; so it is asked for one year at a time, and
everything else is counted. An old start costs no more than a fresh one.
"""
