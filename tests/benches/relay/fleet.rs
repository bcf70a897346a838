//! Two relay processes on one PostgreSQL. Relays, database and load share one machine, which on two cores is what all of
//! them meet first, however many relays there are. So each relay is held to a part of a core: whether a second one
//! doubles what a first one takes is seen while the rest has room. What everybody used is printed beside it.
use std::io;

use muretai_tests::{Key, RelayProcess, postgres::Database, random::number};

use crate::{
    SENDERS, UNBOUND,
    load::{Load, Took, fill},
    machine::Machine,
    print_times, row,
    share::Share,
    wake_ups,
};

/// The same for one relay and for two, and enough for either.
const LOAD: Load = Load { senders: 128, threads: 8 };

pub(crate) fn postgres(machine: &Machine) {
    let Some(database) = Database::new() else { return };
    machine.unpin_load();
    let percent = number("BENCH_RELAY_PERCENT", 20);
    // Made before the relays, so that they go after them: a group that holds a process cannot go.
    let shares: io::Result<Vec<Share>> = (0..2).map(|n| Share::new(&format!("relay{n}"), percent)).collect();
    let args = [&["--store", &database.url, "--workers", "1"], UNBOUND].concat();
    let relays: Vec<RelayProcess> = (0..2).map(|_| RelayProcess::start(&args)).collect();
    let woken = wake_ups(relays[1].addr, relays[0].addr, &relays[0].url);
    print_times("two relays on PostgreSQL: woken across", woken);

    let held = hold(&relays, shares.as_deref()).map(|()| percent);
    if let Err(error) = &held {
        println!(
            "no control groups ({error}): relays, database and load share all cores, which are the limit of both rates"
        );
    }
    let held = held.ok();
    let recipients: Vec<Key> = (0..SENDERS as u32).map(|n| Key::nth(10_000 + n)).collect();
    let total = number("BENCH_LETTERS", 96_000) as usize / 3;
    let (one, both) = ([&relays[0]], [&relays[0], &relays[1]]);
    // One, two, one: what else the machine does meanwhile shows in the difference of the outer ones.
    let runs = [&one[..], &both[..], &one[..]].map(|relays| (relays.len(), fill(relays, &recipients, LOAD, total)));
    let [(_, before), (_, two), (_, after)] = runs;
    let single = (before.rate() + after.rate()) / 2.0;
    let span = format!("{:.0} before, {:.0} after; {}", before.rate(), after.rate(), bound(held));
    row("deposits at one relay on PostgreSQL", format!("{single:.0} /s"), &span);
    print_use(before + after, 1, held, machine);
    row("deposits at two of them", format!("{:.0} /s", two.rate()), &format!("{:.2} times one", two.rate() / single));
    print_use(two, 2, held, machine);
}

/// Holds each relay to its part of a core.
fn hold(relays: &[RelayProcess], shares: Result<&[Share], &io::Error>) -> Result<(), String> {
    let shares = shares.map_err(ToString::to_string)?;
    relays.iter().zip(shares).try_for_each(|(relay, share)| share.hold(relay.pid())).map_err(|error| error.to_string())
}

fn bound(held: Option<u64>) -> String {
    held.map_or_else(|| "not held".to_owned(), |percent| format!("each relay is held to {percent} % of a core"))
}

/// Who used how much, and what was met first.
fn print_use(took: Took, relays: usize, held: Option<u64>, machine: &Machine) {
    let used = took.used;
    let each = format!(
        "relays {:.0} µs, database {:.0} µs, load {:.0} µs",
        took.each(used.relays),
        took.each(used.database),
        took.each(used.load)
    );
    row("  processor time of a letter", String::new(), &each);
    let of_machine = took.percent(used.machine) / machine.cores as f64;
    let note = held.map_or_else(String::new, |percent| {
        format!(
            "the relays used {:.0} % of what they may",
            took.percent(used.relays) * 100.0 / (percent * relays as u64) as f64
        )
    });
    row("  share of the machine that was used", format!("{of_machine:.0} %"), &note);
}
