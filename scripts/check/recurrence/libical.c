/* Prints the days of recurrence rules by libical. Each line of the file is "rule anchor until limit", with days as 20261231; the line
   printed for it has at most `limit` days after the anchor, up to `until`, or an error. */
#include <libical/ical.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    char rule[1000], anchor[16], until[16];
    int limit;
    FILE *cases = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (cases == NULL) return 1;
    icalerror_set_errors_are_fatal(0);
    while (fscanf(cases, "%999s %15s %15s %d", rule, anchor, until, &limit) == 4) {
        struct icaltimetype start = icaltime_from_string(anchor), last = icaltime_from_string(until), day;
        icalrecur_iterator *days = icalrecur_iterator_new(icalrecurrencetype_from_string(rule), start);
        if (days == NULL) printf("error: %s", icalerror_strerror(icalerrno));
        while (days != NULL && limit > 0) {
            day = icalrecur_iterator_next(days);
            if (icaltime_is_null_time(day) || icaltime_compare(day, last) > 0) break;
            if (icaltime_compare(day, start) <= 0) continue;
            printf("%s ", icaltime_as_ical_string(day));
            limit--;
        }
        icalrecur_iterator_free(days);
        printf("\n");
    }
    return 0;
}
