import java.io.FileInputStream;
import java.time.*;
import java.time.format.DateTimeFormatter;
import java.time.temporal.Temporal;
import java.util.*;
import java.util.stream.Collectors;
import net.fortuna.ical4j.data.CalendarBuilder;
import net.fortuna.ical4j.model.*;
import net.fortuna.ical4j.model.property.*;

/** Prints the components of a calendar by ical4j, as icalendar_dates.py, and validates it. */
class Ical4jDates {
    static String text(Temporal date) {
        if (date instanceof LocalDate day) return day.format(DateTimeFormatter.BASIC_ISO_DATE);
        var instant = date instanceof ZonedDateTime zoned ? zoned.toInstant() : date instanceof OffsetDateTime offset ? offset.toInstant() : Instant.from(date);
        return DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'").withZone(ZoneOffset.UTC).format(instant);
    }

    static Optional<Temporal> date(Component component, String... names) {
        return Arrays.stream(names).flatMap(name -> component.getProperty(name).stream())
            .map(property -> ((DateProperty<?>) property).getDate()).map(date -> (Temporal) date).findFirst();
    }

    public static void main(String[] files) throws Exception {
        var calendar = new CalendarBuilder().build(new FileInputStream(files[0]));
        var result = calendar.validate();
        if (result.hasErrors()) throw new IllegalStateException(result.toString());
        for (var component : calendar.getComponents()) {
            if (!Set.of("VTODO", "VEVENT").contains(component.getName())) continue;
            var start = date(component, "DTSTART");
            var rule = component.getProperty("RRULE").map(found -> ((RRule<Temporal>) found).getRecur());
            var dates = rule.map(recur -> recur.getDates(start.get(), start.get(), start.get().plus(java.time.Period.ofYears(20)), 5)
                .stream().map(Ical4jDates::text).collect(Collectors.joining(",")));
            System.out.println(String.join(" ", component.getProperty("UID").get().getValue(),
                start.map(Ical4jDates::text).orElse("-"), date(component, "DUE", "DTEND").map(Ical4jDates::text).orElse("-"), dates.orElse("-")));
        }
    }
}
