use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::lsn::Lsn;

/// A directory that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let name = format!("walferry-test-{}-{:016x}", std::process::id(), fastrand::u64(..));
        Scratch(std::env::temp_dir().join(name))
    }

    fn directory(&self) -> Directory {
        Directory::open(&self.0, "7408", "shop").unwrap()
    }

    fn spool(&self, memory: u64, files: Option<u64>) -> Spool {
        Spool::new(self.directory(), Limits { memory, files })
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        files
    }

    fn only_file(&self) -> PathBuf {
        let [file] = &self.files()[..] else {
            panic!("{:?}", self.files());
        };
        file.clone()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const NONE: [PathBuf; 0] = [];

/// What of a record is to come back.
type Kept = (u32, u64, Vec<u8>);

fn append(spool: &mut Spool, xid: u32, subxid: u32, at: u64, message: &[u8]) -> Result<(), SpoolError> {
    let record = Record {
        subxid,
        lsn: Lsn::new(at),
        arrival: at,
        message,
    };
    spool.append(xid, &record).unwrap();
    spill(spool)
}

fn spill(spool: &mut Spool) -> Result<(), SpoolError> {
    while let Some(spill) = spool.overfull()? {
        let spilled = spill.write()?;
        spool.spilled(spilled);
    }
    Ok(())
}

fn read(mut reading: Reading) -> Result<Vec<Kept>, SpoolError> {
    let mut kept = Vec::new();
    while let Some(batch) = reading.next_batch()? {
        kept.extend(batch.records().map(|record| {
            assert_eq!(record.arrival, record.lsn.as_u64());
            (record.subxid, record.arrival, record.message.to_vec())
        }));
    }
    assert!(reading.next_batch()?.is_none(), "the end stays the end");
    Ok(kept)
}

/// A message whose bytes and length follow from its number.
fn message(number: u64, length: usize) -> Vec<u8> {
    let pattern = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
    let mut message = pattern.repeat(length / 8 + 1);
    message.truncate(length);
    message
}

/// A transaction of two subtransactions, 1 MiB in all, most of it in a file.
fn filled(scratch: &Scratch) -> Spool {
    let mut spool = scratch.spool(64 << 10, None);
    spool.block(700, true).unwrap();
    for number in 0..1000 {
        append(
            &mut spool,
            700,
            700 + u32::from(number % 3 == 0),
            number,
            &message(number, 1000),
        )
        .unwrap();
    }
    spool
}

#[test]
fn what_does_not_fit_into_memory_comes_back_from_a_file_in_its_order() {
    let scratch = Scratch::new();
    let mut spool = filled(&scratch);
    let usage = spool.usage();
    assert_eq!(usage.transactions, 1);
    assert!(usage.memory <= 64 << 10 && usage.files > 900_000, "{usage:?}");
    assert_eq!(usage.memory + usage.files, 1000 * (1000 + record::HEAD as u64));
    let file = scratch.only_file();
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(
        name.starts_with("walferry-7408-shop-700-") && name.ends_with(".spool"),
        "{name}"
    );
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(&scratch.0).unwrap().permissions().mode() & 0o777, 0o700);
    let expected: Vec<Kept> = (0..1000)
        .map(|number| (700 + u32::from(number % 3 == 0), number, message(number, 1000)))
        .collect();
    assert_eq!(read(spool.commit(700).unwrap()).unwrap(), expected);
    assert_eq!(spool.usage(), Usage::default());
    assert_eq!(scratch.files(), NONE, "the file goes with the transaction");
}

#[test]
fn nothing_is_written_as_long_as_it_fits_into_memory() {
    let scratch = Scratch::new();
    let mut spool = scratch.spool(1 << 20, None);
    spool.block(9, true).unwrap();
    append(&mut spool, 9, 9, 1, b"a").unwrap();
    append(&mut spool, 9, 9, 2, b"").unwrap();
    assert_eq!(scratch.files(), NONE);
    let expected: Vec<Kept> = vec![(9, 1, b"a".to_vec()), (9, 2, vec![])];
    assert_eq!(read(spool.commit(9).unwrap()).unwrap(), expected);
}

#[test]
fn the_transaction_that_has_most_in_memory_goes_to_a_file() {
    let scratch = Scratch::new();
    let mut spool = scratch.spool(100_000, None);
    for xid in [1, 2, 3] {
        spool.block(xid, true).unwrap();
    }
    append(&mut spool, 1, 1, 1, &message(1, 30_000)).unwrap();
    append(&mut spool, 2, 2, 2, &message(2, 50_000)).unwrap();
    append(&mut spool, 3, 3, 3, &message(3, 40_000)).unwrap();
    let name = scratch.only_file();
    assert!(name.to_str().unwrap().contains("shop-2-"), "{name:?}");
    assert_eq!(spool.usage().memory, 70_000 + 2 * record::HEAD as u64);
}

#[test]
fn a_message_larger_than_what_is_read_at_once_comes_back_whole() {
    let scratch = Scratch::new();
    let mut spool = scratch.spool(64 << 10, None);
    spool.block(5, true).unwrap();
    let large = message(7, 3_000_000);
    for (at, message) in [(1, &b"before"[..]), (2, &large), (3, b"behind")] {
        append(&mut spool, 5, 5, at, message).unwrap();
    }
    let kept = read(spool.commit(5).unwrap()).unwrap();
    let lengths: Vec<usize> = kept.iter().map(|(.., message)| message.len()).collect();
    assert_eq!(lengths, [6, 3_000_000, 6]);
    assert!(kept[1].2 == large);
}

#[test]
fn a_void_subtransaction_leaves_nothing_and_a_void_transaction_no_file() {
    let scratch = Scratch::new();
    let mut spool = filled(&scratch);
    spool.abort(700, 701).unwrap();
    spool.block(800, true).unwrap();
    append(&mut spool, 800, 800, 1, b"x").unwrap();
    spool.abort(800, 800).unwrap();
    assert_eq!(spool.commit(800).unwrap_err(), Disorder::Unknown);
    let kept = read(spool.commit(700).unwrap()).unwrap();
    assert!(kept.len() == 666 && kept.iter().all(|(subxid, ..)| *subxid == 700));
    let mut spool = filled(&scratch);
    spool.abort(700, 700).unwrap();
    assert_eq!((spool.usage(), scratch.files()), (Usage::default(), vec![]));
}

#[test]
fn a_transaction_that_tries_the_same_again_and_again_does_not_grow() {
    let scratch = Scratch::new();
    let mut spool = scratch.spool(64 << 10, None);
    spool.block(1, true).unwrap();
    append(&mut spool, 1, 1, 1, b"stays").unwrap();
    for subxid in 2..20 {
        for at in 0..200 {
            append(&mut spool, 1, subxid, at, &message(at, 1000)).unwrap();
        }
        spool.abort(1, subxid).unwrap();
        let usage = spool.usage();
        assert!(usage.memory + usage.files <= 5 + record::HEAD as u64, "{usage:?}");
    }
    append(&mut spool, 1, 1, 2, b"too").unwrap();
    let expected: Vec<Kept> = vec![(1, 1, b"stays".to_vec()), (1, 2, b"too".to_vec())];
    assert_eq!(read(spool.commit(1).unwrap()).unwrap(), expected);
}

#[test]
fn messages_about_a_transaction_that_is_not_known_are_refused() {
    let scratch = Scratch::new();
    let mut spool = scratch.spool(1 << 20, None);
    assert_eq!(spool.block(1, false), Err(Disorder::Unknown));
    assert_eq!(spool.abort(1, 2), Err(Disorder::Unknown));
    assert_eq!(spool.commit(1).unwrap_err(), Disorder::Unknown);
    let record = Record {
        subxid: 1,
        lsn: Lsn::ZERO,
        arrival: 0,
        message: b"",
    };
    assert_eq!(spool.append(1, &record), Err(Disorder::Unknown));
    spool.block(1, true).unwrap();
    assert_eq!(spool.block(1, true), Err(Disorder::Known));
    assert_eq!(spool.block(1, false), Ok(()));
    // A subtransaction without a change has nothing that could be void.
    assert_eq!(spool.abort(1, 2), Ok(()));
}

#[test]
fn files_that_would_be_larger_than_they_may_be_are_an_error_that_names_the_limit() {
    let scratch = Scratch::new();
    let mut spool = scratch.spool(64 << 10, Some(200_000));
    spool.block(1, true).unwrap();
    let error = (0..1000).find_map(|at| append(&mut spool, 1, 1, at, &message(at, 1000)).err());
    let error = error.unwrap();
    assert!(!error.is_transient());
    assert_eq!(
        error.to_string(),
        format!(
            "a running transaction cannot be spooled: the files in {} would be larger than replication.spool_max_size, which is 200000 bytes",
            scratch.0.display()
        )
    );
    assert!(error.hint().unwrap().starts_with("Raise replication.spool_max_size"));
    assert!(spool.usage().files <= 200_000);
}

#[test]
fn what_is_being_read_counts_for_the_limit_until_it_is_read() {
    let scratch = Scratch::new();
    let mut spool = filled(&scratch);
    let files = spool.usage().files;
    let mut reading = spool.commit(700).unwrap();
    let _first = reading.next_batch().unwrap();
    assert_eq!(spool.usage().files, files);
    drop(reading);
    assert_eq!(spool.usage().files, 0);
}

#[test]
fn a_start_removes_what_its_own_slot_left_and_nothing_else() {
    let scratch = Scratch::new();
    fs::create_dir_all(&scratch.0).unwrap();
    let others = [
        "walferry-7408-shop_2-700-0a1b2c3d.spool",
        "walferry-74080-shop-700-0a1b2c3d.spool",
        "walferry-7408-shop-700-0a1b2c3d.spool.bak",
        "walferry-7408-shop-notes.spool",
        "walferry-7408-shop-700.spool",
    ];
    let own = [
        "walferry-7408-shop-700-0a1b2c3d.spool",
        "walferry-7408-shop-4294967295-ffffffff.spool",
    ];
    for name in others.iter().chain(&own) {
        fs::write(scratch.0.join(name), "x").unwrap();
    }
    let _directory = scratch.directory();
    let mut expected: Vec<PathBuf> = others.iter().map(|name| scratch.0.join(name)).collect();
    expected.sort();
    assert_eq!(scratch.files(), expected);
}

#[test]
fn a_session_that_another_one_takes_for_gone_reads_its_own_to_the_end() {
    let scratch = Scratch::new();
    let mut spool = filled(&scratch);
    let _next = scratch.directory();
    assert_eq!(scratch.files(), NONE);
    append(&mut spool, 700, 700, 1000, b"more").unwrap();
    assert_eq!(read(spool.commit(700).unwrap()).unwrap().len(), 1001);
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let scratch = Scratch::new();
    fs::create_dir_all(&scratch.0).unwrap();
    let file = scratch.0.join("file");
    fs::write(&file, "x").unwrap();
    let error = Directory::open(&file, "7408", "shop").unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the spool's directory {} cannot be used", file.display())
    );
    assert!(!error.is_transient());
    assert!(error.hint().unwrap().contains("replication.spool_dir"));
}

#[test]
fn a_probe_tells_and_changes_nothing() {
    let scratch = Scratch::new();
    Directory::probe(&scratch.0.join("still/to/be/made")).unwrap();
    assert!(!scratch.0.exists());
    fs::create_dir_all(&scratch.0).unwrap();
    Directory::probe(&scratch.0).unwrap();
    assert_eq!(scratch.files(), NONE);
    fs::write(scratch.0.join("file"), "x").unwrap();
    Directory::probe(&scratch.0.join("file")).unwrap_err();
    Directory::probe(&scratch.0.join("file/below")).unwrap_err();
}

/// What comes of reading a transaction after something was done to its file.
fn after(damage: impl FnOnce(&Path)) -> SpoolError {
    let scratch = Scratch::new();
    let mut spool = filled(&scratch);
    let file = scratch.only_file();
    damage(&file);
    let error = read(spool.commit(700).unwrap()).unwrap_err();
    assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
    assert!(error.is_transient(), "{error}");
    error
}

fn kind(error: &SpoolError) -> Option<Damage> {
    match error {
        SpoolError::Damaged { source, .. } => Some(*source),
        _ => None,
    }
}

fn overwrite(path: &Path, offset: u64, bytes: &[u8]) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}

#[test]
fn a_file_that_was_cut_short_is_told() {
    let cut = |length: u64| {
        after(move |path| {
            fs::OpenOptions::new()
                .write(true)
                .open(path)
                .unwrap()
                .set_len(length)
                .unwrap();
        })
    };
    // Between two records, inside one, and all of it.
    for length in [1028 * 500, 1028 * 500 + 17, 0] {
        assert_eq!(kind(&cut(length)), Some(Damage::Truncated), "{length}");
    }
}

#[test]
fn a_record_that_says_another_length_is_told() {
    let length = |length: u32| after(move |path| overwrite(path, 1028 * 3, &length.to_le_bytes()));
    for longer in [1001, u32::MAX] {
        assert_eq!(kind(&length(longer)), Some(Damage::Length), "{longer}");
    }
    for shorter in [999, 0] {
        assert_eq!(kind(&length(shorter)), Some(Damage::Checksum), "{shorter}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bit_of_a_file_turns_without_being_told(offset in 0_u64..900_000, bit in 0_u32..8) {
        let error = after(|path| {
            let mut byte = [0];
            let file = fs::File::open(path).unwrap();
            file.read_exact_at(&mut byte, offset).unwrap();
            overwrite(path, offset, &[byte[0] ^ (1 << bit)]);
        });
        prop_assert!(matches!(kind(&error), Some(Damage::Checksum | Damage::Length)), "{error:?}");
        let SpoolError::Damaged { offset: told, .. } = error else { unreachable!() };
        prop_assert_eq!(told, offset / 1028 * 1028, "the place is that of the record");
    }

    #[test]
    fn no_bytes_make_the_parser_panic(bytes: Vec<u8>, longest in 0_u32..100) {
        let next = record::next(&bytes).map(|(record, rest)| (record.message.len(), rest.len()));
        if let Some((message, rest)) = next {
            prop_assert_eq!(message + rest + record::HEAD, bytes.len());
        }
        if let Ok(record::Parsed::Whole(rest)) = record::parse(&bytes, longest) {
            prop_assert_eq!(next.map(|(_, after)| after), Some(rest.len()));
        }
    }
}

/// What the stream says of running transactions.
#[derive(Debug, Clone)]
enum Step {
    Append { xid: u32, nested: u32, length: usize },
    Abort { xid: u32, nested: u32 },
    AbortAll { xid: u32 },
    Commit { xid: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    let xid = 1_u32..5;
    let length = prop_oneof![8 => 0_usize..300, 1 => 300_usize..20_000, 1 => 200_000_usize..300_000];
    prop_oneof![
        20 => (xid.clone(), 0_u32..4, length).prop_map(|(xid, nested, length)| Step::Append { xid, nested, length }),
        4 => (xid.clone(), 1_u32..4).prop_map(|(xid, nested)| Step::Abort { xid, nested }),
        1 => xid.clone().prop_map(|xid| Step::AbortAll { xid }),
        1 => xid.prop_map(|xid| Step::Commit { xid }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The model: a list of records for each transaction, from which an abort takes those of its subtransaction.
    #[test]
    fn what_is_read_is_what_was_not_void(
        steps in prop::collection::vec(step(), 1..120),
        memory in prop_oneof![Just(0_u64), 1_000_u64..100_000, Just(u64::MAX)],
    ) {
        let scratch = Scratch::new();
        let mut spool = scratch.spool(memory, None);
        let mut model: BTreeMap<u32, Vec<Kept>> = BTreeMap::new();
        // A subtransaction's id is not used again once it is void.
        let mut ids: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        let mut next_id = 100;
        for (at, step) in (0_u64..).zip(steps) {
            match step {
                Step::Append { xid, nested, length } => {
                    let subxid = match nested {
                        0 => xid,
                        _ => *ids.entry((xid, nested)).or_insert_with(|| {
                            next_id += 1;
                            next_id
                        }),
                    };
                    spool.block(xid, !model.contains_key(&xid)).unwrap();
                    append(&mut spool, xid, subxid, at, &message(at, length)).unwrap();
                    model.entry(xid).or_default().push((subxid, at, message(at, length)));
                    prop_assert!(spool.usage().memory <= memory);
                }
                Step::Abort { xid, nested } => {
                    let Some(subxid) = ids.remove(&(xid, nested)) else { continue };
                    spool.abort(xid, subxid).unwrap();
                    model.get_mut(&xid).unwrap().retain(|(of, ..)| *of != subxid);
                }
                Step::AbortAll { xid } => {
                    prop_assert_eq!(spool.abort(xid, xid).is_ok(), model.remove(&xid).is_some());
                    ids.retain(|(of, _), _| *of != xid);
                }
                Step::Commit { xid } => {
                    let expected = model.remove(&xid);
                    prop_assert_eq!(spool.commit(xid).ok().map(|reading| read(reading).unwrap()), expected);
                    ids.retain(|(of, _), _| *of != xid);
                }
            }
        }
        for (xid, expected) in model {
            prop_assert_eq!(read(spool.commit(xid).unwrap()).unwrap(), expected);
        }
        prop_assert_eq!(spool.usage(), Usage::default());
        prop_assert_eq!(scratch.files(), NONE);
    }
}
