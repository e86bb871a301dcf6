/* Prints the components of a calendar by libical, as icalendar_dates.py. */
#include <libical/ical.h>
#include <stdio.h>

static void print_date(struct icaltimetype date)
{
    if (icaltime_is_null_time(date)) printf(" -");
    else printf(" %s", icaltime_as_ical_string(icaltime_convert_to_zone(date, icaltimezone_get_utc_timezone())));
}

int main(int argc, char **argv)
{
    FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (file == NULL) return 1;
    icalparser *parser = icalparser_new();
    icalparser_set_gen_data(parser, file);
    icalcomponent *calendar = icalparser_parse(parser, (icalparser_line_gen_func)fgets);
    if (calendar == NULL || icalcomponent_count_errors(calendar) > 0) return 1;
    icalcomponent *component = icalcomponent_get_first_component(calendar, ICAL_ANY_COMPONENT);
    for (; component != NULL; component = icalcomponent_get_next_component(calendar, ICAL_ANY_COMPONENT)) {
        icalcomponent_kind kind = icalcomponent_isa(component);
        if (kind != ICAL_VTODO_COMPONENT && kind != ICAL_VEVENT_COMPONENT) continue;
        struct icaltimetype start = icalcomponent_get_dtstart(component), day;
        icalproperty *rule = icalcomponent_get_first_property(component, ICAL_RRULE_PROPERTY);
        icalproperty *end = icalcomponent_get_first_property(component, ICAL_DTEND_PROPERTY);
        printf("%s", icalcomponent_get_uid(component));
        print_date(start);
        if (kind == ICAL_VTODO_COMPONENT) print_date(icalcomponent_get_due(component));
        else print_date(end == NULL ? icaltime_null_time() : icalcomponent_get_dtend(component));
        if (rule == NULL) printf(" -");
        else {
            icalrecur_iterator *days = icalrecur_iterator_new(icalproperty_get_rrule(rule), start);
            for (int count = 0; count < 5 && !icaltime_is_null_time(day = icalrecur_iterator_next(days)); count++) {
                day = icaltime_convert_to_zone(day, icaltimezone_get_utc_timezone());
                printf("%c%s", count == 0 ? ' ' : ',', icaltime_as_ical_string(day));
            }
            icalrecur_iterator_free(days);
        }
        printf("\n");
    }
    return 0;
}
