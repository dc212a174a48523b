use super::*;
use proptest::prelude::*;
use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::sync::Arc;

/// A file of its own, removed at the end.
struct Temp(PathBuf);

impl Temp {
    fn new(name: &str) -> Temp {
        let name = format!("onefold-storage-{name}-{}", std::process::id());
        Temp(std::env::temp_dir().join(name))
    }
    fn open(&self) -> Arc<File> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(true);
        Arc::new(options.open(&self.0).unwrap())
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// By the kernel's rings, where they are permitted, and by a thread.
fn both(batch: usize) -> Vec<Storage<FileBytes<usize>>> {
    let settings = |by_thread| Settings {
        batch,
        flush: Duration::from_secs(3600),
        by_thread,
    };
    let all = [false, true].map(|by_thread| Storage::new(settings(by_thread), None));
    assert_eq!(all[1].engine(), "thread");
    if all[0].engine() == "thread" {
        eprintln!("only a thread here: {}", all[0].why().unwrap_or_default());
    }
    all.into_iter().collect()
}

fn data(file: &Arc<File>, bytes: Vec<u8>, context: usize) -> FileBytes<usize> {
    let file = file.clone();
    FileBytes {
        file,
        bytes,
        context,
    }
}

/// All of them, each in its time; what came of it, in the order in which it did.
fn carry_out(
    storage: &mut Storage<FileBytes<usize>>,
    requests: impl Iterator<Item = (bool, u64, FileBytes<usize>)>,
) -> Vec<Done<FileBytes<usize>>> {
    let mut done = Vec::new();
    for (write, offset, data) in requests {
        storage.wait_for_room();
        match write {
            true => storage.write(data, offset).unwrap(),
            false => storage.read(data, offset).unwrap(),
        }
        storage.take_done(&mut done);
    }
    storage.finish();
    assert!(storage.is_idle());
    storage.take_done(&mut done);
    done
}

/// Number of an error, or how many bytes.
fn told(d: &Done<FileBytes<usize>>) -> Result<usize, Option<i32>> {
    match &d.result {
        Ok(n) => Ok(*n),
        Err(e) => Err(e.raw_os_error()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Records one behind the other, in pieces of any length and batches of any size: whole, in order, told in order;
    /// and read again, also beyond the end of the file.
    #[test]
    #[cfg_attr(miri, ignore = "files and rings of the kernel")]
    fn what_is_written_is_there_and_is_read(
        lens in proptest::collection::vec(0usize..300, 0..120), batch in 1usize..40, gap in 0u64..3,
    ) {
        let temp = Temp::new("whole");
        for mut storage in both(batch) {
            let file = temp.open();
            let (mut at, mut want, mut all) = (0u64, Vec::new(), Vec::new());
            for (i, len) in lens.iter().enumerate() {
                let bytes: Vec<u8> = (0..*len).map(|b| (i * 31 + b) as u8).collect();
                all.push((true, at, data(&file, bytes.clone(), i)));
                // nothing is written by nothing, not even zeros up to there
                if *len > 0 {
                    want.resize(at as usize, 0);
                    want.extend(bytes);
                }
                // every fifth is not followed at once
                at += *len as u64 + if i % 5 == 0 { gap } else { 0 };
            }
            let done = carry_out(&mut storage, all.into_iter());
            prop_assert_eq!(done.len(), lens.len());
            for (i, (d, len)) in done.iter().zip(&lens).enumerate() {
                prop_assert_eq!((d.data.context, told(d), d.write), (i, Ok(*len), true));
            }
            prop_assert_eq!(&std::fs::read(&temp.0).unwrap(), &want);
            let reads = (0..20).map(|i| (false, i * 97, data(&file, vec![0xee; 200], i as usize)));
            for (i, d) in carry_out(&mut storage, reads).iter().enumerate() {
                let there = want.get(i * 97..).unwrap_or_default();
                let n = there.len().min(200);
                prop_assert_eq!((d.data.context, told(d)), (i, Ok(n)));
                prop_assert_eq!(&d.data.bytes[..n], &there[..n]);
            }
        }
    }
}

/// A full device, a descriptor that is not for that, and an end that no file of this system goes beyond: what could be
/// written is, and each request is told what became of it, whoever carries it out.
#[test]
#[cfg_attr(miri, ignore = "files and rings of the kernel")]
fn failures_are_told_to_whom_they_concern() {
    let temp = Temp::new("fails");
    let file = temp.open();
    // as long as a file can be: a write that goes beyond is cut off there
    let (mut longest, mut beyond) = (0u64, i64::MAX as u64);
    while beyond - longest > 1 {
        let middle = longest + (beyond - longest) / 2;
        match file.set_len(middle) {
            Ok(()) => longest = middle,
            Err(_) => beyond = middle,
        }
    }
    file.set_len(0).unwrap();
    // some have no end that there are offsets for
    longest = longest.min(i64::MAX as u64 - 100);
    let ends = file.set_len(longest + 1).is_err();
    file.set_len(0).unwrap();
    let mut seen = Vec::new();
    for mut storage in both(16) {
        let full = Arc::new(OpenOptions::new().write(true).open("/dev/full").unwrap());
        let only_read = Arc::new(File::open("/dev/zero").unwrap());
        let from = longest.saturating_sub(25);
        let mut all: Vec<(bool, u64, FileBytes<usize>)> = Vec::new();
        for i in 0..4 {
            all.push((true, i * 10, data(&full, vec![1; 10], 0)));
        }
        all.push((true, 0, data(&only_read, vec![2; 10], 1)));
        all.push((false, 0, data(&full, vec![2; 10], 2)));
        for i in 0..5 {
            all.push((true, from + i * 10, data(&file, vec![3; 10], 3)));
        }
        all.push((true, 0, data(&file, vec![4; 7], 4)));
        let done = carry_out(&mut storage, all.into_iter());
        let of = |context: usize| -> Vec<_> {
            let all = done.iter().filter(|d| d.data.context == context);
            all.map(told).collect()
        };
        assert_eq!(of(0), vec![Err(Some(libc::ENOSPC)); 4]);
        assert_eq!(of(1), [Err(Some(libc::EBADF))]);
        // it is open for writing only
        assert_eq!(of(2), [Err(Some(libc::EBADF))]);
        assert_eq!(of(3)[..2], [Ok(10), Ok(10)], "{longest}");
        assert!(
            !ends || of(3)[2..].iter().all(Result::is_err),
            "{:?}",
            of(3)
        );
        assert_eq!(of(4), [Ok(7)]);
        file.set_len(0).unwrap();
        seen.push(of(3));
    }
    assert_eq!(seen[0], seen[1]);
}

#[test]
#[cfg_attr(miri, ignore = "files and rings of the kernel")]
fn both_buffers_are_all_there_is() {
    let temp = Temp::new("bounds");
    for mut storage in both(4) {
        let file = temp.open();
        assert_eq!((storage.room(), storage.is_idle()), (8, true));
        let mut taken = 0;
        // until there is no room, or, as it is done at once, for long
        while taken < 1000
            && storage
                .write(data(&file, vec![7], taken), taken as u64)
                .is_ok()
        {
            taken += 1;
        }
        assert!(taken >= 8);
        storage.wait_for_room();
        assert!(!storage.is_full() && storage.room() >= 1);
        let far = storage.write(data(&file, vec![1], 0), u64::MAX);
        assert_eq!(far, Err(StorageError::Offset(u64::MAX)));
        storage.finish();
        let mut done = Vec::new();
        storage.take_done(&mut done);
        assert_eq!(done.len(), taken);
        // nobody asks for what is done: there is an end to that
        let mut refused = None;
        for i in 0..2 * MOST_DONE {
            storage.wait_for_room();
            refused = storage.write(data(&file, vec![], i), 0).err();
            if refused.is_some() {
                break;
            }
        }
        assert_eq!(refused, Some(StorageError::Unasked));
    }
}

/// What was handed over is written though nobody waits for it; what was not is given up.
#[test]
#[cfg_attr(miri, ignore = "files and rings of the kernel")]
fn who_goes_leaves_whole_buffers_behind() {
    let temp = Temp::new("goes");
    for mut storage in both(4) {
        let file = temp.open();
        for i in 0..6u64 {
            storage.wait_for_room();
            storage
                .write(data(&file, vec![b'a' + i as u8; 3], 0), i * 3)
                .unwrap();
        }
        drop(storage);
        assert_eq!(std::fs::read(&temp.0).unwrap(), b"aaabbbcccddd");
        assert_eq!(Arc::strong_count(&file), 1, "requests are gone");
    }
}

/// A buffer that is not full is carried out when it has waited long enough, and a program that sleeps is told when to
/// look.
#[test]
#[cfg_attr(miri, ignore = "files and rings of the kernel")]
fn what_waits_is_flushed_in_time() {
    let temp = Temp::new("flush");
    for by_thread in [false, true] {
        let file = temp.open();
        let flush = Duration::from_millis(2);
        let settings = Settings {
            batch: 100,
            flush,
            by_thread,
        };
        let mut storage = Storage::new(settings, None);
        let long = Duration::from_secs(5);
        assert_eq!(storage.patience(long), long);
        storage.write(data(&file, vec![9; 9], 0), 0).unwrap();
        assert!(storage.patience(long) <= flush);
        let (mut done, begun) = (Vec::new(), Instant::now());
        while done.is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(20));
            std::thread::sleep(storage.patience(Duration::from_millis(1)));
            storage.take_done(&mut done);
        }
        assert!(begun.elapsed() >= flush && storage.is_idle());
    }
}
