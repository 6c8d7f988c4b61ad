//! Numbers as people read them.

use crate::telemetry::snapshots::TableSnapshot;

/// `1234567` as `1,234,567`.
pub(in crate::cli) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The two largest units: `1d 3h`, `2h 5m`, `1m 32s`, `7s`.
pub(in crate::cli) fn time(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

/// Rows a second.
pub(in crate::cli) fn rate(rows_per_second: f64) -> String {
    match rows_per_second < 10.0 {
        true => format!("{rows_per_second:.1}/s"),
        false => {
            let whole = format!("{rows_per_second:.0}");
            let whole = whole.parse().map_or(whole, count);
            format!("{whole}/s")
        }
    }
}

/// How far a table is: `24.7%, 1,234,567 of about 5,000,000 rows, 41,000/s, 1m 32s left`.
pub(in crate::cli) fn progress(table: &TableSnapshot) -> String {
    let mut parts = Vec::new();
    parts.extend(table.percent.map(|percent| format!("{percent:.1}%")));
    parts.push(match table.estimated_rows {
        Some(estimate) => format!("{} of about {} rows", count(table.rows), count(estimate)),
        None => format!("{} rows", count(table.rows)),
    });
    parts.extend(table.rows_per_second.map(rate));
    parts.extend(table.remaining_seconds.map(|left| format!("{} left", time(left))));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::tests::reading;
    use super::*;

    #[test]
    fn counts_are_in_groups_of_three_digits() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (12_345_678, "12,345,678"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn times_are_in_their_two_largest_units() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (92, "1m 32s"),
            (7_500, "2h 5m"),
            (97_200, "1d 3h"),
        ] {
            assert_eq!(time(seconds), text);
        }
    }

    #[test]
    fn what_is_not_known_of_a_table_is_not_said() {
        let mut table = reading("public.a");
        assert_eq!(
            progress(&table),
            "24.7%, 1,234,567 of about 5,000,000 rows, 41,000/s, 1m 32s left"
        );
        (table.estimated_rows, table.percent, table.remaining_seconds) = (None, None, None);
        table.rows_per_second = Some(3.25);
        assert_eq!(progress(&table), "1,234,567 rows, 3.2/s");
    }
}
