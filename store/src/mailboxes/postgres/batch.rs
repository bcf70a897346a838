//! One transaction of a lane: the rows of its mailboxes are locked in the order of their ids, what is wanted is
//! decided act by act, and written in few statements.
//!
//! Statements that follow the lock see everything that its former holders committed, so bounds and epochs are exact
//! across processes.
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use sqlx::{PgConnection, Row, query, raw_sql};

use crate::mailboxes::{
    DAY_SECS, Deposited, EpochClaim, Event, Qid, Quotas,
    accounts::Totals,
    postgres::{
        deposits::{Deposits, Sums},
        lane::{Act, Committed, Done, Failure, Pending},
        link::{listed, safe},
    },
};

/// A mailbox whose row is locked.
pub(super) struct Mailbox {
    epoch: Option<String>,
    day: i64,
    pub(super) letters: i64,
    pub(super) bytes: i64,
    letters_before: i64,
    is_changed: bool,
    has_new_epoch: bool,
}

impl Mailbox {
    pub(super) fn add(&mut self, size: i64) {
        self.letters += 1;
        self.bytes += size;
        self.is_changed = true;
    }

    fn remove(&mut self, size: i64) {
        self.letters -= 1;
        self.bytes -= size;
        self.is_changed = true;
    }

    /// And whether the epoch is new.
    fn claim(&mut self, epoch: &str) -> (EpochClaim, bool) {
        match self.epoch.as_deref() {
            Some(newest) if epoch < newest => (EpochClaim::Superseded, false),
            Some(newest) if epoch == newest => (EpochClaim::Current, false),
            _ => {
                self.epoch = Some(epoch.to_owned());
                self.has_new_epoch = true;
                (EpochClaim::Current, true)
            }
        }
    }

    pub(super) fn touch(&mut self, day: i64) {
        if self.day < day {
            self.day = day;
            self.is_changed = true;
        }
    }
}

pub(super) type Mailboxes = BTreeMap<i64, Mailbox>;

/// What one transaction does.
pub(super) struct Work {
    shard: i32,
    mailboxes: Mailboxes,
    totals: Totals,
    done: Vec<Option<Done>>,
    own: Vec<Event>,
    acked: Vec<Event>,
    is_committing: bool,
}

impl Work {
    pub(super) fn new(shard: i32) -> Work {
        Work {
            shard,
            mailboxes: Mailboxes::new(),
            totals: Totals::default(),
            done: Vec::new(),
            own: Vec::new(),
            acked: Vec::new(),
            is_committing: false,
        }
    }

    /// Whether the outcome is unknown when the connection was lost.
    pub(super) fn is_committing(&self) -> bool {
        self.is_committing
    }

    pub(super) async fn carry_out(
        &mut self,
        conn: &mut PgConnection,
        quotas: &Quotas,
        known: &mut HashMap<Box<str>, i64>,
        batch: &[Pending],
    ) -> Result<Committed, Failure> {
        let ids = resolve(conn, known, batch).await?;
        self.done = ids.iter().zip(batch).map(|(id, one)| unknown(*id, &one.act)).collect();
        self.judge_claims(conn, &ids, batch).await?;
        let wanted: BTreeSet<i64> = self.undecided(batch).filter_map(|(n, _)| ids[n]).collect();
        if !wanted.is_empty() {
            self.lock(conn, &wanted).await?;
            self.claim_and_ack(conn, &ids, batch).await?;
            self.stop_waiting(conn, &ids, batch).await?;
            self.deposit(conn, quotas, &ids, batch).await?;
            self.write(conn).await?;
        }
        let done = self.done.drain(..).map(|done| done.unwrap_or(Done::Nothing)).collect();
        let own = std::mem::take(&mut self.own);
        let mut others = own.clone();
        others.append(&mut self.acked);
        Ok(Committed { done, own, others })
    }

    fn undecided<'b>(&self, batch: &'b [Pending]) -> impl Iterator<Item = (usize, &'b Act)> + use<'b> {
        let is_open: Vec<bool> = self.done.iter().map(Option::is_none).collect();
        batch.iter().enumerate().filter(move |(n, _)| is_open[*n]).map(|(n, one)| (n, &one.act))
    }

    /// A listener that polls again claims what it has: that needs no lock.
    async fn judge_claims(
        &mut self,
        conn: &mut PgConnection,
        ids: &[Option<i64>],
        batch: &[Pending],
    ) -> Result<(), Failure> {
        let claims = batch.iter().enumerate().filter(|(_, one)| matches!(one.act, Act::Claim { .. }));
        let claimed: Vec<i64> = claims.filter_map(|(n, _)| ids[n]).collect();
        if claimed.is_empty() {
            return Ok(());
        }
        let rows =
            query("SELECT id, epoch, day FROM mailboxes WHERE id = ANY($1)").bind(&claimed).fetch_all(conn).await?;
        let mut seen: HashMap<i64, (Option<String>, i64)> = HashMap::new();
        for row in rows {
            seen.insert(row.try_get(0)?, (row.try_get(1)?, row.try_get(2)?));
        }
        for (n, one) in batch.iter().enumerate() {
            let (Act::Claim { epoch, now, .. }, Some(id)) = (&one.act, ids[n]) else { continue };
            let Some((Some(newest), day)) = seen.get(&id) else { continue };
            if **epoch < **newest {
                self.done[n] = Some(Done::Claimed(EpochClaim::Superseded));
            } else if **epoch == **newest && *day >= now.0 / DAY_SECS {
                self.done[n] = Some(Done::Claimed(EpochClaim::Current));
            }
        }
        Ok(())
    }

    async fn lock(&mut self, conn: &mut PgConnection, wanted: &BTreeSet<i64>) -> Result<(), Failure> {
        let sql = format!(
            "BEGIN; SELECT id, epoch, day, letters, bytes FROM mailboxes WHERE id IN ({}) ORDER BY id FOR NO KEY UPDATE",
            listed(wanted.iter().copied())
        );
        for row in raw_sql(safe(sql)).fetch_all(conn).await? {
            let letters = row.try_get(3)?;
            let mailbox = Mailbox {
                epoch: row.try_get(1)?,
                day: row.try_get(2)?,
                letters,
                bytes: row.try_get(4)?,
                letters_before: letters,
                is_changed: false,
                has_new_epoch: false,
            };
            self.mailboxes.insert(row.try_get(0)?, mailbox);
        }
        if self.mailboxes.len() < wanted.len() { Err(Failure::Stale) } else { Ok(()) }
    }

    async fn claim_and_ack(
        &mut self,
        conn: &mut PgConnection,
        ids: &[Option<i64>],
        batch: &[Pending],
    ) -> Result<(), Failure> {
        let mut wanted = Vec::new();
        for (n, act) in self.undecided(batch) {
            let (did, epoch) = match act {
                Act::Claim { did, epoch, .. } | Act::Ack { did, epoch, .. } => (did, epoch),
                _ => continue,
            };
            let Some((id, mailbox)) = ids[n].and_then(|id| Some((id, self.mailboxes.get_mut(&id)?))) else { continue };
            let (claim, is_new) = mailbox.claim(epoch);
            if is_new {
                self.own.push(Event::Epoch(did.clone(), epoch.to_string()));
            }
            match act {
                Act::Claim { now, .. } => {
                    mailbox.touch(now.0 / DAY_SECS);
                    self.done[n] = Some(Done::Claimed(claim));
                }
                Act::Ack { .. } if claim == EpochClaim::Superseded => self.done[n] = Some(Done::Acked(None)),
                Act::Ack { qids, .. } => wanted.extend(qids.iter().map(|qid| (id, *qid))),
                _ => {}
            }
        }
        let mut removed = self.delete(conn, &wanted).await?;
        for (n, act) in self.undecided(batch) {
            let (Act::Ack { did, qids, tell, .. }, Some(id)) = (act, ids[n]) else { continue };
            let gone: Vec<Qid> = qids.iter().copied().filter(|qid| removed.remove(&(id, *qid))).collect();
            self.done[n] = Some(Done::Acked(Some(gone.len() as u64)));
            if *tell && !gone.is_empty() {
                self.acked.push(Event::Acked(did.clone(), gone));
            }
        }
        Ok(())
    }

    async fn delete(&mut self, conn: &mut PgConnection, wanted: &[(i64, Qid)]) -> Result<HashSet<(i64, Qid)>, Failure> {
        if wanted.is_empty() {
            return Ok(HashSet::new());
        }
        let (mailboxes, qids): (Vec<i64>, Vec<Qid>) = wanted.iter().copied().unzip();
        let rows = query(
            "DELETE FROM letters l USING unnest($1::bigint[], $2::bigint[]) a (mailbox, qid) \
             WHERE l.mailbox = a.mailbox AND l.qid = a.qid RETURNING l.mailbox, l.qid, l.size",
        )
        .bind(mailboxes)
        .bind(qids)
        .fetch_all(conn)
        .await?;
        let mut removed = HashSet::with_capacity(rows.len());
        for row in rows {
            let (id, size): (i64, i64) = (row.try_get(0)?, row.try_get(2)?);
            if let Some(mailbox) = self.mailboxes.get_mut(&id) {
                mailbox.remove(size);
            }
            self.totals = self.totals.plus(Totals { letters: -1, bytes: -size });
            removed.insert((id, row.try_get(1)?));
        }
        Ok(removed)
    }

    async fn stop_waiting(
        &mut self,
        conn: &mut PgConnection,
        ids: &[Option<i64>],
        batch: &[Pending],
    ) -> Result<(), Failure> {
        let (mut mailboxes, mut qids) = (Vec::new(), Vec::new());
        for (n, act) in self.undecided(batch) {
            if let (Act::StopWaiting { qid, .. }, Some(id)) = (act, ids[n]) {
                mailboxes.push(id);
                qids.push(*qid);
                self.done[n] = Some(Done::Nothing);
            }
        }
        if !qids.is_empty() {
            query(
                "WITH left_alone AS (UPDATE letters l SET awaited_until = NULL \
                 FROM unnest($1::bigint[], $2::bigint[]) a (mailbox, qid) \
                 WHERE l.mailbox = a.mailbox AND l.qid = a.qid RETURNING l.qid) \
                 DELETE FROM answers USING left_alone WHERE answers.qid = left_alone.qid",
            )
            .bind(mailboxes)
            .bind(qids)
            .execute(conn)
            .await?;
        }
        Ok(())
    }

    async fn deposit(
        &mut self,
        conn: &mut PgConnection,
        quotas: &Quotas,
        ids: &[Option<i64>],
        batch: &[Pending],
    ) -> Result<(), Failure> {
        let mut deposits = Deposits::new(quotas);
        for (n, act) in self.undecided(batch) {
            if let (Act::Deposit(letter), Some(id)) = (act, ids[n]) {
                deposits.push(n, id, letter);
            }
        }
        if deposits.is_empty() {
            return Ok(());
        }
        let sums = Sums { totals: self.totals, in_database: None };
        let outcomes = deposits.store(conn, &mut self.mailboxes, sums).await?;
        for (n, outcome) in outcomes {
            if let (Deposited::Stored(_), Act::Deposit(letter)) = (outcome, &batch[n].act) {
                self.totals = self.totals.plus(Totals { letters: 1, bytes: letter.blob.len() as i64 });
                self.own.push(Event::Letter(letter.to.clone()));
            }
            self.done[n] = Some(Done::Deposited(outcome));
        }
        Ok(())
    }

    /// Rows are locked, so their new values are written as they are.
    async fn write(&mut self, conn: &mut PgConnection) -> Result<(), Failure> {
        let claimed = self.mailboxes.iter().filter(|(_, mailbox)| mailbox.has_new_epoch);
        let (ids, epochs): (Vec<i64>, Vec<&str>) =
            claimed.map(|(id, mailbox)| (*id, mailbox.epoch.as_deref().unwrap_or_default())).unzip();
        if !ids.is_empty() {
            let sql = "UPDATE mailboxes SET epoch = c.epoch FROM unnest($1::bigint[], $2::text[]) c (id, epoch) \
                       WHERE mailboxes.id = c.id";
            query(sql).bind(&ids).bind(&epochs).execute(&mut *conn).await?;
        }
        let changed = self
            .mailboxes
            .iter()
            .filter(|(_, mailbox)| mailbox.is_changed)
            .map(|(id, mailbox)| format!("({id}::bigint,{},{},{})", mailbox.letters, mailbox.bytes, mailbox.day));
        let changed: Vec<String> = changed.collect();
        let mut sql = String::new();
        if !changed.is_empty() {
            sql += &format!(
                "UPDATE mailboxes m SET letters = c.letters, bytes = c.bytes, day = c.day \
                 FROM (VALUES {}) c (id, letters, bytes, day) WHERE m.id = c.id; ",
                changed.join(",")
            );
            sql += &update_totals(self.shard, self.totals, self.filled());
        }
        self.is_committing = true;
        raw_sql(safe(sql + "COMMIT")).execute(conn).await?;
        self.is_committing = false;
        Ok(())
    }

    /// Mailboxes that hold letters now, less those that did.
    fn filled(&self) -> i64 {
        let changes = self.mailboxes.values();
        changes.map(|mailbox| i64::from(mailbox.letters > 0) - i64::from(mailbox.letters_before > 0)).sum()
    }
}

pub(super) fn update_totals(shard: i32, totals: Totals, mailboxes: i64) -> String {
    if totals == Totals::default() && mailboxes == 0 {
        return String::new();
    }
    format!(
        "UPDATE totals SET letters = letters + ({}), bytes = bytes + ({}), mailboxes = mailboxes + ({mailboxes}) \
         WHERE shard = {shard}; ",
        totals.letters, totals.bytes
    )
}

/// What can be said when nobody deposited and nobody claimed.
fn unknown(id: Option<i64>, act: &Act) -> Option<Done> {
    match (id, act) {
        (Some(_), _) => None,
        (None, Act::Ack { .. }) => Some(Done::Acked(Some(0))),
        (None, _) => Some(Done::Nothing),
    }
}

/// The numbers of the mailboxes; those that are missing are made for deposits and claims.
async fn resolve(
    conn: &mut PgConnection,
    known: &mut HashMap<Box<str>, i64>,
    batch: &[Pending],
) -> Result<Vec<Option<i64>>, Failure> {
    let is_new = |one: &&Pending| !known.contains_key(one.act.did().as_str());
    let missing: BTreeSet<&str> = batch.iter().filter(is_new).map(|one| one.act.did().as_str()).collect();
    if !missing.is_empty() {
        make(conn, batch.iter().filter(is_new)).await?;
        let missing: Vec<&str> = missing.into_iter().collect();
        let rows = query("SELECT did, id FROM mailboxes WHERE did = ANY($1)").bind(&missing).fetch_all(conn).await?;
        for row in rows {
            known.insert(row.try_get::<String, _>(0)?.into(), row.try_get(1)?);
        }
    }
    Ok(batch.iter().map(|one| known.get(one.act.did().as_str()).copied()).collect())
}

/// In a transaction of its own, before any row is locked, and in order, so that two that make the same ones do not wait
/// for each other. It need not wait for the disk: the transaction that uses them will, and the log is written in order.
async fn make(conn: &mut PgConnection, new: impl Iterator<Item = &Pending>) -> Result<(), Failure> {
    let (mut dids, mut day) = (BTreeSet::new(), 0);
    for one in new {
        let time = match &one.act {
            Act::Deposit(letter) => letter.ts,
            Act::Claim { now, .. } => *now,
            _ => continue,
        };
        dids.insert(one.act.did().as_str());
        day = day.max(time.0 / DAY_SECS);
    }
    if dids.is_empty() {
        return Ok(());
    }
    let dids: Vec<&str> = dids.into_iter().collect();
    // A DID is base58 and colons.
    let sql = format!(
        "BEGIN; SET LOCAL synchronous_commit = off; INSERT INTO mailboxes (did, day) SELECT did, {day} \
         FROM unnest('{{{}}}'::text[]) did ON CONFLICT DO NOTHING; COMMIT",
        dids.join(",")
    );
    raw_sql(safe(sql)).execute(conn).await?;
    Ok(())
}
