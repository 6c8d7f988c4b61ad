//! Bars on a terminal: one for each table that is being read, and a line for all of them.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::figures;
use crate::telemetry::snapshots::{SnapshotState, SnapshotView, TableSnapshot};

/// More would fill the screen.
const MOST: usize = 16;

/// The bars that are on the screen.
#[derive(Debug)]
pub(in crate::cli) struct Bars {
    screen: MultiProgress,
    tables: BTreeMap<String, ProgressBar>,
    /// Below the others.
    whole: Option<ProgressBar>,
}

/// Where bars can be drawn: stderr, if it is a terminal that can move its cursor.
pub(in crate::cli) fn screen() -> Option<MultiProgress> {
    let dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb");
    (io::stderr().is_terminal() && !dumb).then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()))
}

impl Bars {
    pub(in crate::cli) fn new(screen: MultiProgress) -> Self {
        Bars {
            screen,
            tables: BTreeMap::new(),
            whole: None,
        }
    }

    /// Draws how far everything is.
    pub(in crate::cli) fn show(&mut self, view: &SnapshotView) {
        let shown: BTreeMap<&str, &TableSnapshot> = view
            .tables
            .iter()
            .filter(|table| matches!(table.state, SnapshotState::Reading | SnapshotState::Paused))
            .take(MOST)
            .map(|table| (table.table.as_str(), table))
            .collect();
        self.tables.retain(|name, bar| {
            let kept = shown.contains_key(name.as_str());
            if !kept {
                bar.finish_and_clear();
                self.screen.remove(bar);
            }
            kept
        });
        let Some(line) = whole(view) else {
            self.clear_whole();
            return;
        };
        let below = match &self.whole {
            Some(bar) => bar.clone(),
            None => {
                let bar = self.screen.add(ProgressBar::new_spinner());
                bar.set_style(style("{spinner} {msg}"));
                self.whole.insert(bar).clone()
            }
        };
        let longest = shown.keys().map(|name| name.chars().count()).max().unwrap_or_default();
        for (name, table) in shown {
            let bar = self.tables.entry(name.to_owned()).or_insert_with(|| {
                let bar = self.screen.insert_before(&below, ProgressBar::no_length());
                bar.set_style(style(match table.estimated_rows {
                    Some(_) => "{prefix} [{bar:24}] {msg}",
                    None => "{prefix} [{spinner}] {msg}",
                }));
                bar
            });
            bar.set_prefix(format!("{name:longest$}"));
            if let Some(estimate) = table.estimated_rows {
                // Never a full bar before the end: the estimate is one.
                bar.set_length(estimate.max(table.rows.saturating_add(1)));
            }
            bar.set_position(table.rows);
            bar.set_message(figures::progress(table));
            bar.tick();
        }
        below.set_message(line);
        below.tick();
    }

    /// Leaves the screen as if there had been none.
    pub(in crate::cli) fn clear(&mut self) {
        for (_, bar) in std::mem::take(&mut self.tables) {
            bar.finish_and_clear();
            self.screen.remove(&bar);
        }
        self.clear_whole();
    }

    fn clear_whole(&mut self) {
        if let Some(bar) = self.whole.take() {
            bar.finish_and_clear();
            self.screen.remove(&bar);
        }
    }
}

/// The line for all tables; none where nothing is read.
fn whole(view: &SnapshotView) -> Option<String> {
    if !view.is_running() {
        return None;
    }
    let mut line = super::tables_of(view);
    match (&view.paused, view.remaining_seconds) {
        (Some(reason), _) => line.push_str(&format!(", paused: {reason}")),
        (None, Some(left)) => line.push_str(&format!(", {} left", figures::time(left))),
        (None, None) => {}
    }
    Some(line)
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
    style.progress_chars("=> ")
}

/// stderr, with the bars out of the way for as long as it is written to: a line of the log goes above them whole.
#[derive(Debug, Clone)]
pub(in crate::cli) struct AboveBars<W> {
    screen: MultiProgress,
    stream: W,
}

impl<W> AboveBars<W> {
    pub(in crate::cli) fn new(screen: MultiProgress, stream: W) -> Self {
        AboveBars { screen, stream }
    }
}

impl<W: Write> Write for AboveBars<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Self { screen, stream } = self;
        screen.suspend(|| stream.write(bytes))
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Self { screen, stream } = self;
        screen.suspend(|| stream.write_all(bytes).and_then(|()| stream.flush()))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::super::tests::{reading, view};
    use super::*;

    const WIDTH: usize = 200;

    /// A terminal that keeps what is on it.
    #[derive(Debug, Clone, Default)]
    struct Screen(Arc<Mutex<Paper>>);

    #[derive(Debug, Default)]
    struct Paper {
        lines: Vec<String>,
        row: usize,
        column: usize,
    }

    impl Paper {
        fn line(&mut self) -> &mut String {
            while self.lines.len() <= self.row {
                self.lines.push(String::new());
            }
            let row = self.row;
            &mut self.lines[row]
        }

        fn put(&mut self, text: &str) {
            for c in text.chars() {
                match c {
                    '\n' => (self.row, self.column) = (self.row + 1, 0),
                    '\r' => self.column = 0,
                    c => {
                        // A full line is gone on with on the next one, as terminals do.
                        if self.column == WIDTH {
                            (self.row, self.column) = (self.row + 1, 0);
                        }
                        let column = self.column;
                        let line = self.line();
                        let mut characters: Vec<char> = line.chars().collect();
                        characters.resize(characters.len().max(column + 1), ' ');
                        characters[column] = c;
                        *line = characters.into_iter().collect();
                        self.column += 1;
                    }
                }
            }
        }
    }

    impl Screen {
        fn shown(&self) -> Vec<String> {
            let paper = self.0.lock().unwrap();
            let lines = paper.lines.iter().map(|line| line.trim_end().to_owned());
            lines.filter(|line| !line.is_empty()).collect()
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            WIDTH.try_into().unwrap()
        }
        fn height(&self) -> u16 {
            50
        }
        fn move_cursor_up(&self, n: usize) -> io::Result<()> {
            let mut paper = self.0.lock().unwrap();
            paper.row = paper.row.saturating_sub(n);
            Ok(())
        }
        fn move_cursor_down(&self, n: usize) -> io::Result<()> {
            self.0.lock().unwrap().row += n;
            Ok(())
        }
        fn move_cursor_right(&self, n: usize) -> io::Result<()> {
            self.0.lock().unwrap().column += n;
            Ok(())
        }
        fn move_cursor_left(&self, n: usize) -> io::Result<()> {
            let mut paper = self.0.lock().unwrap();
            paper.column = paper.column.saturating_sub(n);
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().put(&format!("{text}\n"));
            Ok(())
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().put(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            let mut paper = self.0.lock().unwrap();
            paper.line().clear();
            paper.column = 0;
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().put(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn bars() -> (Screen, MultiProgress, Bars) {
        let screen = Screen::default();
        // Drawn each time, whatever the clock says.
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(screen.clone()), 255);
        let multi = MultiProgress::with_draw_target(target);
        (screen, multi.clone(), Bars::new(multi))
    }

    #[test]
    fn there_is_a_bar_for_each_table_that_is_being_read_and_a_line_for_all() {
        let (screen, multi, mut bars) = bars();
        let unknown = TableSnapshot {
            estimated_rows: None,
            percent: None,
            remaining_seconds: None,
            ..reading("public.longer")
        };
        let waiting = TableSnapshot {
            state: SnapshotState::Waiting,
            ..reading("public.c")
        };
        bars.show(&view(vec![reading("public.a"), waiting, unknown]));
        multi.suspend(|| {});
        let shown = screen.shown().join("\n");
        assert!(shown.contains("public.a      [=====>"), "{shown}");
        assert!(
            shown.contains("24.7%, 1,234,567 of about 5,000,000 rows, 41,000/s, 1m 32s left"),
            "{shown}"
        );
        assert!(shown.contains("public.longer ["), "{shown}");
        assert!(!shown.contains("public.c"), "{shown}");
        assert!(shown.contains("1 of 7 tables are read, 24.7%, 2h 5m left"), "{shown}");
        bars.clear();
        assert_eq!(screen.shown(), [""; 0]);
    }

    #[test]
    fn a_line_of_the_log_goes_above_the_bars_and_tears_nothing() {
        let (screen, multi, mut bars) = bars();
        let mut log = AboveBars::new(multi.clone(), screen.clone());
        bars.show(&view(vec![reading("public.a")]));
        for line in ["first\n", "second\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        bars.show(&view(vec![reading("public.a")]));
        log.write_all(b"third\n").unwrap();
        bars.clear();
        assert_eq!(screen.shown(), ["first", "second", "third"]);
    }

    #[test]
    fn where_nothing_is_read_nothing_is_drawn() {
        let (screen, _, mut bars) = bars();
        let done = TableSnapshot {
            state: SnapshotState::Done,
            ..reading("public.a")
        };
        bars.show(&view(vec![reading("public.a")]));
        bars.show(&view(vec![done]));
        assert_eq!(screen.shown(), [""; 0]);
    }
}
