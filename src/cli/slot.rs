//! `walferry slot`: its status, for people or as JSON; made and dropped.

use super::output::{self, Colour};
use super::schema::failed;
use super::{Exit, logs};
use crate::config::Loaded;
use crate::pipeline::slot::{self, Connection, SlotStatus};

/// Prints how the slot stands, on stdout.
pub(super) async fn status(loaded: Loaded, json: bool) -> Exit {
    if let Err(exit) = logs::start(&loaded) {
        return exit;
    }
    let status = match slot::status(&loaded.config).await {
        Ok(status) => status,
        Err(error) => return failed(&error),
    };
    let text = if json {
        match output::json(&status) {
            Ok(text) => text,
            Err(exit) => return exit,
        }
    } else {
        describe(&status, output::coloured())
    };
    match output::data(&text) {
        Exit::Stopped if status.refused.is_some() => Exit::Failed,
        exit => exit,
    }
}

/// Makes the slot.
pub(super) async fn create(loaded: Loaded) -> Exit {
    if let Err(exit) = logs::start(&loaded) {
        return exit;
    }
    let name = &loaded.config.replication.slot;
    match slot::create(&loaded.config).await {
        Ok(start) => output::data(&format!(
            "slot {name} created; what commits after {start} comes from it\n"
        )),
        Err(error) => failed(&error),
    }
}

/// Drops the slot.
pub(super) async fn drop(loaded: Loaded) -> Exit {
    if let Err(exit) = logs::start(&loaded) {
        return exit;
    }
    let name = &loaded.config.replication.slot;
    match slot::drop(&loaded.config).await {
        Ok(position) => {
            let stood = position.map_or_else(String::new, |position| format!("; it stood at {position}"));
            output::data(&format!("slot {name} dropped{stood}\n"))
        }
        Err(error) => failed(&error),
    }
}

fn describe(status: &SlotStatus, coloured: bool) -> String {
    let mut text = String::new();
    let mut line = |subject: &str, value: String| text.push_str(&format!("{subject:10} {value}\n"));
    line("slot", status.slot.clone());
    line("database", status.database.clone().unwrap_or_else(|| "none".to_owned()));
    line("in use", status.holder.as_ref().map_or_else(|| "no".to_owned(), holder));
    if let Some(confirmed) = status.confirmed_flush_lsn {
        let lag = status
            .lag_bytes
            .map_or_else(String::new, |lag| format!(", {} behind the end of the log", size(lag)));
        line("confirmed", format!("{confirmed}{lag}"));
    }
    if let Some(restart) = status.restart_lsn {
        let retained = status
            .retained_wal_bytes
            .map_or_else(String::new, |retained| format!("{} of log, ", size(retained)));
        line("retains", format!("{retained}from {restart} on"));
    }
    if let Some(wal_status) = &status.wal_status {
        let left = match status.safe_wal_size.and_then(|left| u64::try_from(left).ok()) {
            Some(left) => format!("; {} more, and the server may invalidate it", size(left)),
            None => String::new(),
        };
        let standing = match wal_status.as_str() {
            "lost" => Colour::Red.paint(wal_status, coloured),
            "extended" | "unreserved" => Colour::Yellow.paint(wal_status, coloured),
            _ => wal_status.clone(),
        };
        line("log", format!("{standing}{left}"));
    }
    if let Some(failover) = status.failover {
        line("failover", if failover { "yes" } else { "no" }.to_owned());
    }
    if let Some(refused) = &status.refused {
        line("refused", Colour::Red.paint(&refused.reason, coloured));
        line("", refused.remedy.clone());
    }
    text
}

fn holder(holder: &Connection) -> String {
    let mut text = format!("by process {} of the server", holder.pid);
    if let Some(application) = &holder.application {
        text.push_str(&format!(", {application}"));
    }
    if let Some(user) = &holder.user {
        text.push_str(&format!(", role {user}"));
    }
    if let Some(address) = &holder.address {
        text.push_str(&format!(", from {address}"));
    }
    text
}

/// Bytes as people say them, in powers of 1024.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let mut value = bytes as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    for next in units {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsn::Lsn;
    use crate::pipeline::slot::Refused;

    fn status() -> SlotStatus {
        SlotStatus {
            slot: "shop".to_owned(),
            database: Some("shop".to_owned()),
            confirmed_flush_lsn: Some(Lsn::new(0x2000)),
            wal_end: Some(Lsn::new(0x20_2000)),
            lag_bytes: Some(0x20_0000),
            restart_lsn: Some(Lsn::new(0x1e00)),
            retained_wal_bytes: Some(0x20_0200),
            wal_status: Some("reserved".to_owned()),
            safe_wal_size: Some(5 * 1024 * 1024 * 1024),
            failover: Some(false),
            holder: Some(Connection {
                pid: 42,
                user: Some("walferry".to_owned()),
                application: Some("walferry shop".to_owned()),
                address: Some("10.0.0.5".to_owned()),
            }),
            refused: None,
        }
    }

    #[test]
    fn a_slot_in_use_is_shown_with_who_is_on_it() {
        assert_eq!(
            describe(&status(), false),
            "slot       shop\n\
             database   shop\n\
             in use     by process 42 of the server, walferry shop, role walferry, from 10.0.0.5\n\
             confirmed  0/2000, 2.0 MiB behind the end of the log\n\
             retains    2.0 MiB of log, from 0/1E00 on\n\
             log        reserved; 5.0 GiB more, and the server may invalidate it\n\
             failover   no\n"
        );
    }

    #[test]
    fn a_slot_of_an_old_server_that_cannot_be_used_says_so() {
        let refused = SlotStatus {
            wal_status: None,
            safe_wal_size: None,
            failover: None,
            holder: None,
            lag_bytes: Some(100),
            restart_lsn: None,
            refused: Some(Refused {
                reason: "it is not ours".to_owned(),
                remedy: "Take another.".to_owned(),
            }),
            ..status()
        };
        assert_eq!(
            describe(&refused, false),
            "slot       shop\n\
             database   shop\n\
             in use     no\n\
             confirmed  0/2000, 100 bytes behind the end of the log\n\
             refused    it is not ours\n\
             \u{20}          Take another.\n"
        );
    }

    #[test]
    fn what_is_wrong_has_a_colour_where_there_are_any() {
        let lost = SlotStatus {
            wal_status: Some("lost".to_owned()),
            safe_wal_size: None,
            refused: Some(Refused {
                reason: "it is invalidated".to_owned(),
                remedy: "Drop it.".to_owned(),
            }),
            ..status()
        };
        let text = describe(&lost, true);
        for line in [
            "log        \x1b[31mlost\x1b[0m\n",
            "refused    \x1b[31mit is invalidated\x1b[0m\n",
            "database   shop\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in {text:?}");
        }
    }

    #[test]
    fn sizes_are_in_powers_of_1024() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (1_572_864, "1.5 MiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
