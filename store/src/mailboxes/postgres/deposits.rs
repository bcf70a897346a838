//! The deposits of one transaction, whose mailboxes are locked: which are new, which there is room for.
use std::collections::{HashMap, HashSet};

use sqlx::{PgConnection, Row, query, raw_sql};

use crate::mailboxes::{
    Bound, DAY_SECS, Deposited, NewLetter, Qid, Quotas,
    accounts::{Key, Load, Totals, numbers, size},
    postgres::{batch::Mailboxes, lane::Failure, link::safe, schema::LOCK_TOTALS},
};

/// What transactions that are under way may add unseen: with so much room nobody needs to wait for them.
const UNSEEN_BYTES: u64 = 512 * 1_048_576;

/// How full everything together is.
pub(super) struct Sums {
    /// What this transaction did so far.
    pub(super) totals: Totals,
    pub(super) in_database: Option<Totals>,
}

/// Which letter it is: its mailbox, its sender, the deposit.
type Which = (i64, i64, Key);

struct Deposit<'a> {
    /// Its place in the batch.
    n: usize,
    which: Which,
    size: u32,
    letter: &'a NewLetter,
}

/// What is decided about one.
#[derive(Clone, Copy)]
enum Verdict {
    Insert,
    /// It is there.
    Again(Qid),
    /// The same as an earlier one of this batch.
    AgainOf(usize),
    Full(Bound),
}

pub(super) struct Deposits<'a> {
    quotas: &'a Quotas,
    all: Vec<Deposit<'a>>,
}

impl<'a> Deposits<'a> {
    pub(super) fn new(quotas: &'a Quotas) -> Deposits<'a> {
        Deposits { quotas, all: Vec::new() }
    }

    pub(super) fn push(&mut self, n: usize, mailbox: i64, letter: &'a NewLetter) {
        let (sender, key) = numbers(letter);
        self.all.push(Deposit { n, which: (mailbox, sender, key), size: size(letter), letter });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Stores what is new and has room. Gives what became of each, by its place in the batch.
    pub(super) async fn store(
        self,
        conn: &mut PgConnection,
        mailboxes: &mut Mailboxes,
        mut sums: Sums,
    ) -> Result<Vec<(usize, Deposited)>, Failure> {
        let senders = self.count_senders(conn, mailboxes).await?;
        sums.in_database = self.sum_up(conn).await?;
        // Nearly always all are new and have room, and then nobody has to look what is there.
        let mut verdicts = self.decide(mailboxes, &senders, &sums, &HashMap::new());
        if verdicts.iter().any(|verdict| matches!(verdict, Verdict::Full(_))) {
            let there = find(conn, self.all.iter().map(|deposit| deposit.which).collect()).await?;
            verdicts = self.decide(mailboxes, &senders, &sums, &there);
        }
        let stored = self.insert(conn, &verdicts).await?;
        let repeated =
            self.all.iter().zip(&verdicts).filter(|(deposit, verdict)| {
                matches!(verdict, Verdict::Insert) && !stored.contains_key(&deposit.which)
            });
        let there = find(conn, repeated.map(|(deposit, _)| deposit.which).collect()).await?;

        let mut outcomes: Vec<(usize, Deposited)> = Vec::with_capacity(self.all.len());
        for (deposit, verdict) in self.all.iter().zip(verdicts) {
            let outcome = match verdict {
                Verdict::Full(bound) => Deposited::Full(bound),
                Verdict::Again(qid) => Deposited::Again(qid),
                Verdict::AgainOf(earlier) => match outcomes[earlier].1 {
                    Deposited::Stored(qid) => Deposited::Again(qid),
                    other => other,
                },
                Verdict::Insert => match (stored.get(&deposit.which), there.get(&deposit.which)) {
                    (Some(qid), _) => Deposited::Stored(*qid),
                    (None, Some(qid)) => Deposited::Again(*qid),
                    // Nobody can take it away while the mailbox is locked.
                    (None, None) => return Err(Failure::Stale),
                },
            };
            if let (Deposited::Stored(_), Some(mailbox)) = (outcome, mailboxes.get_mut(&deposit.which.0)) {
                mailbox.add(deposit.size.into());
                mailbox.touch(deposit.letter.ts.0 / DAY_SECS);
            }
            outcomes.push((deposit.n, outcome));
        }
        self.note_awaited(conn, &outcomes).await?;
        Ok(outcomes)
    }

    fn decide(
        &self,
        mailboxes: &Mailboxes,
        senders: &HashMap<(i64, i64), u32>,
        sums: &Sums,
        there: &HashMap<Which, Qid>,
    ) -> Vec<Verdict> {
        let mut loads: HashMap<i64, Load> = HashMap::new();
        let mut first: HashMap<Which, usize> = HashMap::new();
        let mut totals = sums.in_database.map(|stored| stored.plus(sums.totals));
        let mut decide = |(n, deposit): (usize, &Deposit<'_>)| {
            let (id, sender, _) = deposit.which;
            if let Some(qid) = there.get(&deposit.which) {
                return Verdict::Again(*qid);
            }
            if let Some(earlier) = first.get(&deposit.which) {
                return Verdict::AgainOf(*earlier);
            }
            let load = loads.entry(id).or_insert_with(|| {
                let (letters, bytes) = mailboxes.get(&id).map_or((0, 0), |mailbox| (mailbox.letters, mailbox.bytes));
                let letters = u32::try_from(letters).unwrap_or(u32::MAX);
                let senders = senders.iter().filter(|((mailbox, _), _)| *mailbox == id);
                let senders = senders.map(|((_, sender), letters)| (*sender, *letters)).collect();
                Load { letters, bytes: bytes.max(0).unsigned_abs(), senders }
            });
            if let Some(bound) = load.bound(self.quotas, sender, deposit.size) {
                return Verdict::Full(bound);
            }
            if let Some(totals) = &mut totals {
                if totals.is_full(self.quotas, deposit.size) {
                    return Verdict::Full(Bound::TotalBytes);
                }
                totals.add(deposit.size);
            }
            load.add(sender, deposit.size);
            first.insert(deposit.which, n);
            Verdict::Insert
        };
        self.all.iter().enumerate().map(&mut decide).collect()
    }

    /// How many letters senders have, in the mailboxes where one could meet its bound.
    async fn count_senders(
        &self,
        conn: &mut PgConnection,
        mailboxes: &Mailboxes,
    ) -> Result<HashMap<(i64, i64), u32>, Failure> {
        let mut coming: HashMap<i64, i64> = HashMap::new();
        for deposit in &self.all {
            *coming.entry(deposit.which.0).or_default() += 1;
        }
        let may_meet = |id: &i64| {
            let letters = mailboxes.get(id).map_or(0, |mailbox| mailbox.letters);
            letters + coming.get(id).copied().unwrap_or(0) > i64::from(self.quotas.sender_letters)
        };
        let pairs: HashSet<(i64, i64)> = self.all.iter().map(|one| (one.which.0, one.which.1)).collect();
        let (ids, senders): (Vec<i64>, Vec<i64>) = pairs.into_iter().filter(|(id, _)| may_meet(id)).unzip();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let rows = query(
            "SELECT s.mailbox, s.sender, (SELECT count(*) FROM letters l WHERE l.mailbox = s.mailbox \
             AND l.sender = s.sender) FROM unnest($1::bigint[], $2::bigint[]) s (mailbox, sender)",
        )
        .bind(ids)
        .bind(senders)
        .fetch_all(conn)
        .await?;
        let mut counted = HashMap::with_capacity(rows.len());
        for row in rows {
            let letters = u32::try_from(row.try_get::<i64, _>(2)?).unwrap_or(u32::MAX);
            counted.insert((row.try_get(0)?, row.try_get(1)?), letters);
        }
        Ok(counted)
    }

    /// Near the bound, one transaction at a time: the lock is held until everybody sees what this one adds.
    async fn sum_up(&self, conn: &mut PgConnection) -> Result<Option<Totals>, Failure> {
        if self.quotas.total_bytes == 0 {
            return Ok(None);
        }
        let room = Totals { letters: 0, bytes: i64::try_from(UNSEEN_BYTES).unwrap_or(i64::MAX) };
        let mut totals = sum(conn).await?;
        if totals.plus(room).is_full(self.quotas, 0) {
            raw_sql(safe(format!("SELECT pg_advisory_xact_lock({LOCK_TOTALS})"))).execute(&mut *conn).await?;
            totals = sum(conn).await?;
        }
        Ok(Some(totals))
    }

    async fn insert(&self, conn: &mut PgConnection, verdicts: &[Verdict]) -> Result<HashMap<Which, Qid>, Failure> {
        let inserted = self.all.iter().zip(verdicts).filter(|(_, verdict)| matches!(verdict, Verdict::Insert));
        let inserted: Vec<&Deposit<'_>> = inserted.map(|(deposit, _)| deposit).collect();
        if inserted.is_empty() {
            return Ok(HashMap::new());
        }
        // One of this batch that is awaited makes its first one awaited.
        let mut awaited: HashMap<Which, i64> = HashMap::new();
        for deposit in &self.all {
            if let Some(until) = deposit.letter.awaited_until {
                awaited.insert(deposit.which, until.0);
            }
        }
        fn column<'i, T>(all: &'i [&Deposit<'_>], of: impl Fn(&'i Deposit<'_>) -> T) -> Vec<T> {
            all.iter().map(|deposit| of(deposit)).collect()
        }
        let rows = query(
            "INSERT INTO letters (mailbox, sender, key, size, ts, awaited_until, id, from_did, from_enc, blob) \
             SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[], \
             $7::bytea[], $8::text[], $9::bytea[], $10::bytea[]) \
             ON CONFLICT (mailbox, sender, key) DO NOTHING RETURNING qid, mailbox, sender, key",
        )
        .bind(column(&inserted, |one| one.which.0))
        .bind(column(&inserted, |one| one.which.1))
        .bind(column(&inserted, |one| &one.which.2[..]))
        .bind(column(&inserted, |one| i64::from(one.size)))
        .bind(column(&inserted, |one| one.letter.ts.0))
        .bind(column(&inserted, |one| awaited.get(&one.which).copied()))
        .bind(column(&inserted, |one| one.letter.id.as_bytes()))
        .bind(column(&inserted, |one| one.letter.from.as_str()))
        .bind(column(&inserted, |one| one.letter.from_enc.as_deref().map(str::as_bytes)))
        .bind(column(&inserted, |one| one.letter.blob.as_bytes()))
        .fetch_all(conn)
        .await?;
        by_which(&rows)
    }

    async fn note_awaited(&self, conn: &mut PgConnection, outcomes: &[(usize, Deposited)]) -> Result<(), Failure> {
        let mut awaited: HashMap<(i64, Qid), i64> = HashMap::new();
        for (deposit, (_, outcome)) in self.all.iter().zip(outcomes) {
            if let (Deposited::Again(qid), Some(until)) = (outcome, deposit.letter.awaited_until) {
                awaited.insert((deposit.which.0, *qid), until.0);
            }
        }
        if awaited.is_empty() {
            return Ok(());
        }
        let (mut ids, mut qids, mut until) = (Vec::new(), Vec::new(), Vec::new());
        for ((id, qid), time) in awaited {
            ids.push(id);
            qids.push(qid);
            until.push(time);
        }
        query(
            "UPDATE letters l SET awaited_until = a.until \
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) a (mailbox, qid, until) \
             WHERE l.mailbox = a.mailbox AND l.qid = a.qid",
        )
        .bind(ids)
        .bind(qids)
        .bind(until)
        .execute(conn)
        .await?;
        Ok(())
    }
}

/// Those of them that are there.
async fn find(conn: &mut PgConnection, which: Vec<Which>) -> Result<HashMap<Which, Qid>, Failure> {
    if which.is_empty() {
        return Ok(HashMap::new());
    }
    let (mut ids, mut senders, mut keys) = (Vec::new(), Vec::new(), Vec::new());
    for (id, sender, key) in &which {
        ids.push(*id);
        senders.push(*sender);
        keys.push(&key[..]);
    }
    let rows = query(
        "SELECT l.qid, l.mailbox, l.sender, l.key FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) \
         d (mailbox, sender, key) JOIN letters l USING (mailbox, sender, key)",
    )
    .bind(ids)
    .bind(senders)
    .bind(keys)
    .fetch_all(conn)
    .await?;
    by_which(&rows)
}

async fn sum(conn: &mut PgConnection) -> Result<Totals, Failure> {
    let row = raw_sql("SELECT sum(letters)::bigint, sum(bytes)::bigint FROM totals").fetch_one(conn).await?;
    Ok(Totals { letters: row.try_get(0)?, bytes: row.try_get(1)? })
}

fn by_which(rows: &[sqlx::postgres::PgRow]) -> Result<HashMap<Which, Qid>, Failure> {
    let mut found = HashMap::with_capacity(rows.len());
    for row in rows {
        let key = Key::try_from(row.try_get::<&[u8], _>(3)?).map_err(|_| sqlx::Error::RowNotFound)?;
        found.insert((row.try_get(1)?, row.try_get(2)?, key), row.try_get(0)?);
    }
    Ok(found)
}
