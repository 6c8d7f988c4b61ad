//! A wall clock that is set forwards and backwards under a process that runs.

use super::{Env, fresh, run};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The clock of every process that is started by it; all others have the machine's.
pub struct Clock {
    dir: PathBuf,
    ahead: File,
    seconds: i64,
}

impl Clock {
    pub fn new() -> Self {
        let dir = Env::get().private_dir(&fresh("clock"));
        run(Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .arg(dir.join("clock.so"))
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/harness/clock.c"))
            .args(["-ldl", "-pthread"]));
        let clock = Clock {
            ahead: File::create(dir.join("ahead")).unwrap(),
            seconds: 0,
            dir,
        };
        clock.write();
        clock
    }

    fn write(&self) {
        let nanoseconds = self.seconds * 1_000_000_000;
        self.ahead.write_all_at(&nanoseconds.to_ne_bytes(), 0).unwrap();
    }

    /// Sets the clock so far ahead of the machine's, or, below zero, behind it.
    pub fn set_ahead(&mut self, seconds: i64) {
        self.seconds = seconds;
        self.write();
    }

    /// What a process is started with to have this clock.
    pub fn variables(&self) -> [(&'static str, String); 2] {
        let path = |name: &str| self.dir.join(name).to_str().unwrap().to_owned();
        [("LD_PRELOAD", path("clock.so")), ("WALFERRY_TEST_CLOCK", path("ahead"))]
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}
