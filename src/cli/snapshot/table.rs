//! How far the snapshots are, as a table.

use super::super::output::Colour;
use super::super::progress::figures;
use crate::telemetry::snapshots::{SnapshotState, SnapshotView, TableSnapshot};

/// All of it.
pub(super) fn describe(view: &SnapshotView, coloured: bool) -> String {
    let mut text = String::new();
    if let Some(reason) = &view.paused {
        text.push_str(&format!("paused: {reason}\n"));
    }
    if view.tables.is_empty() {
        text.push_str(match view.due {
            true => "the initial snapshot is due; its tables are not known yet\n",
            false => "nothing is read, and nothing waits to be\n",
        });
        return text;
    }
    if view.is_running() {
        text.push_str(&format!(
            "{} of {} tables are read",
            view.tables_ended, view.tables_total
        ));
        if let Some(percent) = view.percent {
            text.push_str(&format!(", {percent:.1}%"));
        }
        if let Some(left) = view.remaining_seconds {
            text.push_str(&format!(", {} left", figures::time(left)));
        }
        text.push('\n');
    }
    text.push_str(&tables(&view.tables, coloured));
    text
}

const COLUMNS: usize = 8;
const HEAD: [&str; COLUMNS] = ["table", "state", "cause", "rows", "of about", "read", "rate", "left"];

/// A line a table.
pub(super) fn tables(tables: &[TableSnapshot], coloured: bool) -> String {
    let rows: Vec<[String; COLUMNS]> = std::iter::once(HEAD.map(str::to_owned))
        .chain(tables.iter().map(row))
        .collect();
    let mut widths = [0; COLUMNS];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let states = std::iter::once(None).chain(tables.iter().map(|table| Some(table.state)));
    let notes = std::iter::once(None).chain(tables.iter().map(|table| table.reason.as_deref()));
    let mut text = String::new();
    for ((row, state), note) in rows.iter().zip(states).zip(notes) {
        let mut line = String::new();
        for (index, (cell, width)) in row.iter().zip(widths).enumerate() {
            let padded = match index {
                0..=2 => format!("{cell:width$}"),
                _ => format!("{cell:>width$}"),
            };
            match state.filter(|_| coloured && index == 1) {
                Some(state) => line.push_str(&colour(state).paint(&padded, true)),
                None => line.push_str(&padded),
            }
            line.push_str("  ");
        }
        line.push_str(note.unwrap_or_default());
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn row(table: &TableSnapshot) -> [String; COLUMNS] {
    let or_nothing = Option::unwrap_or_default;
    [
        table.table.clone(),
        table.state.to_string(),
        table.cause.to_string(),
        figures::count(table.rows),
        or_nothing(table.estimated_rows.map(figures::count)),
        or_nothing(table.percent.map(|percent| format!("{percent:.1}%"))),
        or_nothing(table.rows_per_second.map(figures::rate)),
        or_nothing(table.remaining_seconds.map(figures::time)),
    ]
}

const fn colour(state: SnapshotState) -> Colour {
    match state {
        SnapshotState::Waiting => Colour::Faint,
        SnapshotState::Reading => Colour::Cyan,
        SnapshotState::Paused => Colour::Yellow,
        SnapshotState::Done => Colour::Green,
        SnapshotState::Cancelled => Colour::Magenta,
        SnapshotState::Failed => Colour::Red,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::progress::tests::{reading, view};
    use super::*;

    fn mixed() -> Vec<TableSnapshot> {
        vec![
            reading("public.orders"),
            TableSnapshot {
                state: SnapshotState::Failed,
                rows: 0,
                estimated_rows: None,
                percent: None,
                rows_per_second: None,
                remaining_seconds: None,
                reason: Some("no right to read it".to_owned()),
                ..reading("public.log")
            },
        ]
    }

    #[test]
    fn a_table_is_a_line_and_its_figures_stand_below_each_other() {
        assert_eq!(
            describe(&view(mixed()), false),
            "1 of 7 tables are read, 24.7%, 2h 5m left\n\
             table          state    cause         rows   of about   read      rate    left\n\
             public.orders  reading  initial  1,234,567  5,000,000  24.7%  41,000/s  1m 32s\n\
             public.log     failed   initial          0                                      no right to read it\n"
        );
    }

    #[test]
    fn colours_change_nothing_but_the_colour() {
        let plain = tables(&mixed(), false);
        let mut coloured = tables(&mixed(), true);
        assert!(coloured.contains("\x1b[31mfailed \x1b[0m"), "{coloured}");
        for code in ["\x1b[31m", "\x1b[36m", "\x1b[0m"] {
            coloured = coloured.replace(code, "");
        }
        assert_eq!(coloured, plain);
    }

    #[test]
    fn nothing_to_show_says_so() {
        let mut nothing = SnapshotView::nothing();
        assert_eq!(describe(&nothing, false), "nothing is read, and nothing waits to be\n");
        nothing.paused = Some("asked for".to_owned());
        nothing.due = true;
        assert_eq!(
            describe(&nothing, false),
            "paused: asked for\nthe initial snapshot is due; its tables are not known yet\n"
        );
    }
}
