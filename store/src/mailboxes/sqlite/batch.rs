//! One transaction. What is wanted is decided in memory, act by act, and then written in one statement of few parts.
use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    sync::Arc,
};

use muretai_protocol::{Did, UnixSeconds, json::Value};
use sqlx::{Arguments, AssertSqlSafe, Row, SqliteConnection, query, query_with, raw_sql, sqlite::SqliteArguments};

use crate::{
    StoreError,
    mailboxes::{
        Counts, DAY_SECS, Deposited, EpochClaim, Event, NewLetter, Qid, Quotas, Swept,
        accounts::{Key, Totals, numbers, size},
        sqlite::{
            cache::{Account, Accounts, Kept},
            keep::{self, Piles},
            reader::qid_list,
            sweep,
            writer::{Act, Done, MAX_BATCH, Pending, number},
        },
    },
    writer::begin,
};

const COLUMNS: usize = 11;

/// What is remembered of the file: all of it true, because nobody else writes it.
pub(super) struct Memory {
    accounts: Accounts,
    totals: Totals,
    piles: Piles,
    /// Letters in each mailbox that has any.
    filled: HashMap<i64, u32>,
    next_qid: Qid,
    /// When mailboxes were last looked at.
    swept_day: i64,
    statements: HashMap<Shape, Arc<str>>,
}

/// Which parts a statement has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Shape {
    begins: bool,
    deletes: bool,
    moves: bool,
    awaits: bool,
    rows: usize,
}

impl Memory {
    pub(super) async fn load(conn: &mut SqliteConnection) -> Result<Memory, StoreError> {
        let last = "SELECT ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'letters'), 0)";
        let next_qid = number(conn, last).await? + 1;
        let rows =
            raw_sql("SELECT mailbox, count(*), sum(size) FROM letters GROUP BY mailbox").fetch_all(&mut *conn).await?;
        let (mut filled, mut totals) = (HashMap::with_capacity(rows.len()), Totals::default());
        for row in rows {
            let letters: i64 = row.try_get(1)?;
            totals = totals.plus(Totals { letters, bytes: row.try_get(2)? });
            filled.insert(row.try_get(0)?, u32::try_from(letters).unwrap_or(u32::MAX));
        }
        let (accounts, statements) = (Accounts::default(), HashMap::new());
        let piles = Piles::load(conn).await?;
        Ok(Memory { accounts, totals, piles, filled, next_qid, swept_day: 0, statements })
    }

    /// Makes true what was committed. Gives what everyone is answered.
    pub(super) fn committed(&mut self, work: Work<'_>) -> (Vec<Done>, Vec<Event>) {
        self.totals = self.totals.plus(work.totals);
        self.piles = work.piles;
        self.accounts.grow(work.inserts.len());
        for (mailbox, change) in work.filled {
            let letters = i64::from(self.filled.get(&mailbox).copied().unwrap_or(0)) + change;
            match u32::try_from(letters) {
                Ok(0) | Err(_) => self.filled.remove(&mailbox),
                Ok(letters) => self.filled.insert(mailbox, letters),
            };
        }
        if let Some(day) = work.swept_day {
            self.swept_day = day;
        }
        self.accounts.turn();
        (work.done, work.events)
    }

    /// What the batch did to mailboxes did not happen: they are read again.
    pub(super) fn forget(&mut self, batch: &[Pending]) {
        for did in batch.iter().filter_map(|one| one.act.mailbox()) {
            self.accounts.forget(did.as_str());
        }
    }

    fn statement(&mut self, shape: Shape) -> Arc<str> {
        self.statements.entry(shape).or_insert_with(|| shape.sql().into()).clone()
    }
}

impl Act {
    /// Whose mailbox it is decided by.
    fn mailbox(&self) -> Option<&Did> {
        match self {
            Act::Deposit(letter) => Some(&letter.to),
            Act::Ack { did, .. } | Act::Claim { did, .. } | Act::StopWaiting { did, .. } => Some(did),
            _ => None,
        }
    }

    /// When a mailbox is made for it.
    fn makes(&self) -> Option<UnixSeconds> {
        match self {
            Act::Deposit(letter) => Some(letter.ts),
            Act::Claim { now, .. } => Some(*now),
            _ => None,
        }
    }
}

impl Shape {
    /// Rows that are not needed are left unbound, which SQLite reads as NULL; so they are the last part.
    fn sql(self) -> String {
        let mut sql = String::from(if self.begins { "BEGIN IMMEDIATE; " } else { "" });
        if self.deletes {
            sql += "DELETE FROM letters WHERE qid IN (SELECT value FROM json_each(?)); ";
        }
        if self.moves {
            sql += "UPDATE mailboxes SET epoch = m.value->>1, day = m.value->>2 FROM json_each(?) m \
                    WHERE mailboxes.id = m.value->>0; ";
        }
        if self.awaits {
            sql +=
                "UPDATE letters SET awaited_until = a.value->>1 FROM json_each(?) a WHERE letters.qid = a.value->>0; ";
        }
        if self.rows > 0 {
            let rows = vec!["(?,?,?,?,?,?,?,?,?,?,?)"; self.rows].join(",");
            write!(
                sql,
                "INSERT INTO letters (qid, mailbox, key, sender, size, ts, awaited_until, id, from_did, from_enc, blob) \
                 SELECT column1, column2, column3, column4, column5, column6, column7, column8, column9, column10, \
                 column11 FROM (VALUES {rows}) WHERE column1 IS NOT NULL; "
            )
            .expect("a String takes everything");
        }
        sql + "COMMIT"
    }
}

/// What one transaction does, and what is true when it is committed.
#[derive(Default)]
pub(super) struct Work<'a> {
    inserts: Vec<Insert<'a>>,
    deletes: Vec<Qid>,
    /// Mailboxes whose row changes.
    moved: HashSet<&'a str>,
    awaited: HashMap<Qid, Option<i64>>,
    totals: Totals,
    /// As they stand with what this one does.
    piles: Piles,
    filled: HashMap<i64, i64>,
    swept_day: Option<i64>,
    events: Vec<Event>,
    done: Vec<Done>,
    has_begun: bool,
}

struct Insert<'a> {
    qid: Qid,
    mailbox: i64,
    key: Key,
    sender: i64,
    size: u32,
    awaited_until: Option<i64>,
    letter: &'a NewLetter,
}

impl<'a> Work<'a> {
    pub(super) async fn carry_out(
        &mut self,
        conn: &mut SqliteConnection,
        memory: &mut Memory,
        quotas: &Quotas,
        batch: &'a [Pending],
    ) -> Result<(), StoreError> {
        self.piles = memory.piles;
        // First what is decided by the database: a sweep changes what mailboxes hold.
        self.done = vec![Done::Nothing; batch.len()];
        for (n, one) in batch.iter().enumerate() {
            if let Some(done) = self.by_database(conn, memory, quotas, &one.act).await? {
                self.done[n] = done;
            }
        }
        self.bring_in(conn, &mut *memory, batch).await?;
        for (n, one) in batch.iter().enumerate() {
            if let Some(done) = self.by_memory(memory, quotas, &one.act) {
                self.done[n] = done;
            }
        }
        self.write(conn, memory).await?;
        // Counted last, so that it is what stands when the transaction ends.
        for (n, one) in batch.iter().enumerate() {
            if let Act::Count = one.act {
                self.done[n] = Done::Counts(self.counts(memory));
            }
        }
        Ok(())
    }

    async fn begin(&mut self, conn: &mut SqliteConnection) -> Result<(), StoreError> {
        if !self.has_begun {
            begin(conn).await?;
            self.has_begun = true;
        }
        Ok(())
    }

    async fn by_database(
        &mut self,
        conn: &mut SqliteConnection,
        memory: &mut Memory,
        quotas: &Quotas,
        act: &'a Act,
    ) -> Result<Option<Done>, StoreError> {
        if !matches!(act, Act::Seen { .. } | Act::PutCard { .. } | Act::PutInvite(_) | Act::Sweep { .. }) {
            return Ok(None);
        }
        self.begin(conn).await?;
        let done = match act {
            Act::PutCard { did, ts, envelope } => {
                Done::Card(keep::put_card(conn, quotas, &mut self.piles.cards, did, *ts, envelope).await?)
            }
            Act::PutInvite(new) => Done::Invite(keep::put_invite(conn, quotas, &mut self.piles.invites, new).await?),
            Act::Sweep { now } => Done::Swept(self.sweep(conn, memory, quotas, *now).await?),
            Act::Seen { dids, now } => {
                query("UPDATE mailboxes SET last_seen = ? WHERE did IN (SELECT value FROM json_each(?))")
                    .bind(now.0)
                    .bind(text_list(dids.iter().map(Did::as_str)))
                    .execute(conn)
                    .await?;
                Done::Nothing
            }
            _ => return Ok(None),
        };
        Ok(Some(done))
    }

    async fn sweep(
        &mut self,
        conn: &mut SqliteConnection,
        memory: &mut Memory,
        quotas: &Quotas,
        now: UnixSeconds,
    ) -> Result<(Swept, bool), StoreError> {
        let today = now.0 / DAY_SECS;
        let gone = sweep::sweep(conn, quotas, &mut self.piles, now, today != memory.swept_day).await?;
        for letter in &gone.letters {
            memory.accounts.forget(&letter.did);
            self.totals.remove(letter.size);
            *self.filled.entry(letter.mailbox).or_default() -= 1;
        }
        for did in &gone.mailboxes {
            memory.accounts.forget(did);
        }
        if !gone.has_more {
            self.swept_day = Some(today);
        }
        let swept = Swept { letters: gone.letters.len() as u64, invites: gone.invites };
        Ok((swept, gone.has_more))
    }

    /// Makes mailboxes that are new, and reads those that are not known.
    async fn bring_in(
        &mut self,
        conn: &mut SqliteConnection,
        memory: &mut Memory,
        batch: &'a [Pending],
    ) -> Result<(), StoreError> {
        let (mut missing, mut made, mut day) = (HashSet::new(), HashSet::new(), 0);
        for one in batch {
            let Some(did) = one.act.mailbox().map(Did::as_str) else { continue };
            if memory.accounts.has(did) {
                continue;
            }
            missing.insert(did);
            if let Some(time) = one.act.makes() {
                made.insert(did);
                day = day.max(time.0 / DAY_SECS);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        if !made.is_empty() {
            self.begin(conn).await?;
            let done = query(
                "INSERT INTO mailboxes (did, day) SELECT value, ? FROM json_each(?) WHERE true ON CONFLICT DO NOTHING",
            )
            .bind(day)
            .bind(text_list(made.into_iter()))
            .execute(&mut *conn)
            .await?;
            self.piles.mailboxes += i64::try_from(done.rows_affected()).unwrap_or(0);
        }
        let mut found = read_mailboxes(conn, missing.into_iter()).await?;
        read_letters(conn, &mut found, &memory.filled).await?;
        for (did, account) in found.into_values() {
            memory.accounts.put(did, account);
        }
        Ok(())
    }

    fn by_memory(&mut self, memory: &mut Memory, quotas: &Quotas, act: &'a Act) -> Option<Done> {
        match act {
            Act::Deposit(letter) => Some(Done::Deposited(self.deposit(memory, quotas, letter)?)),
            Act::Ack { did, epoch, qids } => Some(Done::Acked(self.ack(memory, did, epoch, qids))),
            Act::Claim { did, epoch, now } => {
                let account = memory.accounts.of(did.as_str())?;
                self.touch(account, did, *now);
                Some(Done::Claimed(self.claim(account, did, epoch)))
            }
            Act::StopWaiting { did, qid } => {
                let has_it = memory.accounts.of(did.as_str()).is_some_and(|account| account.kept.contains_key(qid));
                if has_it {
                    self.awaits(*qid, None);
                }
                Some(Done::Nothing)
            }
            _ => None,
        }
    }

    fn deposit(&mut self, memory: &mut Memory, quotas: &Quotas, letter: &'a NewLetter) -> Option<Deposited> {
        let account = memory.accounts.of(letter.to.as_str())?;
        let (sender, key) = numbers(letter);
        let awaited_until = letter.awaited_until.map(|until| until.0);
        if let Some(qid) = account.by_key.get(&key).copied() {
            if awaited_until.is_some() {
                self.awaits(qid, awaited_until);
            }
            return Some(Deposited::Again(qid));
        }
        let size = size(letter);
        if let Some(bound) = account.load.bound(quotas, sender, size) {
            return Some(Deposited::Full(bound));
        }
        if memory.totals.plus(self.totals).is_full(quotas, size) {
            return Some(Deposited::Full(crate::mailboxes::Bound::TotalBytes));
        }
        let qid = memory.next_qid;
        memory.next_qid += 1;
        account.add(qid, Kept { key, sender, size });
        self.totals.add(size);
        *self.filled.entry(account.id).or_default() += 1;
        self.events.push(Event::Letter(letter.to.clone()));
        let mailbox = account.id;
        self.touch(account, &letter.to, letter.ts);
        self.inserts.push(Insert { qid, mailbox, key, sender, size, awaited_until, letter });
        Some(Deposited::Stored(qid))
    }

    fn ack(&mut self, memory: &mut Memory, did: &'a Did, epoch: &str, qids: &[Qid]) -> Option<u64> {
        // Nobody deposited and nobody claimed: there is nothing.
        let Some(account) = memory.accounts.of(did.as_str()) else { return Some(0) };
        if self.claim(account, did, epoch) == EpochClaim::Superseded {
            return None;
        }
        let before = self.deletes.len();
        for qid in qids {
            if let Some(size) = account.remove(*qid) {
                self.totals.remove(size);
                *self.filled.entry(account.id).or_default() -= 1;
                self.deletes.push(*qid);
            }
        }
        Some((self.deletes.len() - before) as u64)
    }

    fn claim(&mut self, account: &mut Account, did: &'a Did, epoch: &str) -> EpochClaim {
        match account.epoch.as_deref() {
            Some(newest) if epoch < newest => EpochClaim::Superseded,
            Some(newest) if epoch == newest => EpochClaim::Current,
            _ => {
                account.epoch = Some(epoch.into());
                self.moved.insert(did.as_str());
                self.events.push(Event::Epoch(did.clone(), epoch.to_owned()));
                EpochClaim::Current
            }
        }
    }

    /// Notes the day, once a day.
    fn touch(&mut self, account: &mut Account, did: &'a Did, now: UnixSeconds) {
        if account.day < now.0 / DAY_SECS {
            account.day = now.0 / DAY_SECS;
            self.moved.insert(did.as_str());
        }
    }

    fn awaits(&mut self, qid: Qid, until: Option<i64>) {
        // The row may be on its way with this very statement, whose last part is the new rows.
        match self.inserts.iter_mut().rfind(|insert| insert.qid == qid) {
            Some(insert) => insert.awaited_until = until,
            None => drop(self.awaited.insert(qid, until)),
        }
    }

    async fn write(&mut self, conn: &mut SqliteConnection, memory: &mut Memory) -> Result<(), StoreError> {
        let shape = Shape {
            begins: !self.has_begun,
            deletes: !self.deletes.is_empty(),
            moves: !self.moved.is_empty(),
            awaits: !self.awaited.is_empty(),
            rows: if self.inserts.is_empty() { 0 } else { self.inserts.len().next_power_of_two() },
        };
        debug_assert!(shape.rows <= MAX_BATCH);
        if shape.begins && !shape.deletes && !shape.moves && !shape.awaits && shape.rows == 0 {
            return Ok(());
        }
        let arguments = self.arguments(&memory.accounts).map_err(sqlx::Error::Encode)?;
        query_with(AssertSqlSafe(memory.statement(shape)), arguments).execute(conn).await?;
        Ok(())
    }

    fn arguments(&self, accounts: &Accounts) -> Result<SqliteArguments, sqlx::error::BoxDynError> {
        let mut to = SqliteArguments::default();
        to.reserve(self.inserts.len() * COLUMNS + 3, 0);
        if !self.deletes.is_empty() {
            to.add(qid_list(&self.deletes))?;
        }
        if !self.moved.is_empty() {
            let mut rows = Vec::with_capacity(self.moved.len());
            for account in self.moved.iter().filter_map(|did| accounts.seen(did)) {
                let epoch = account.epoch.as_deref().map_or(Value::Null, Value::from);
                rows.push(Value::from(vec![Value::from(account.id), epoch, Value::from(account.day)]));
            }
            to.add(Value::from(rows).to_json())?;
        }
        if !self.awaited.is_empty() {
            let rows = self
                .awaited
                .iter()
                .map(|(qid, until)| Value::from(vec![Value::from(*qid), until.map_or(Value::Null, Value::from)]));
            to.add(Value::from(rows.collect::<Vec<_>>()).to_json())?;
        }
        for insert in &self.inserts {
            insert.add(&mut to)?;
        }
        Ok(to)
    }

    fn counts(&self, memory: &Memory) -> Counts {
        let totals = memory.totals.plus(self.totals);
        let emptied = |(mailbox, change): (&i64, &i64)| {
            let before = i64::from(memory.filled.get(mailbox).copied().unwrap_or(0));
            i64::from(before + change > 0) - i64::from(before > 0)
        };
        let mailboxes = memory.filled.len() as i64 + self.filled.iter().map(emptied).sum::<i64>();
        let number = |number: i64| number.max(0).unsigned_abs();
        Counts {
            letters: number(totals.letters),
            bytes: number(totals.bytes),
            mailboxes: number(mailboxes),
            cards: number(self.piles.cards.count),
            invites: number(self.piles.invites.count),
            directory_bytes: number(self.piles.cards.bytes + self.piles.invites.bytes),
            remembered: number(self.piles.mailboxes),
        }
    }
}

impl Insert<'_> {
    fn add(&self, to: &mut SqliteArguments) -> Result<(), sqlx::error::BoxDynError> {
        let letter = self.letter;
        to.add(self.qid)?;
        to.add(self.mailbox)?;
        to.add(&self.key[..])?;
        to.add(self.sender)?;
        to.add(i64::from(self.size))?;
        to.add(letter.ts.0)?;
        to.add(self.awaited_until)?;
        to.add(letter.id.as_str())?;
        to.add(letter.from.as_str())?;
        to.add(letter.from_enc.as_deref())?;
        to.add(letter.blob.as_str())?;
        Ok(())
    }
}

type Found = HashMap<i64, (Box<str>, Account)>;

async fn read_mailboxes(conn: &mut SqliteConnection, dids: impl Iterator<Item = &str>) -> Result<Found, StoreError> {
    let rows = query("SELECT id, did, epoch, day FROM mailboxes WHERE did IN (SELECT value FROM json_each(?))")
        .bind(text_list(dids))
        .fetch_all(conn)
        .await?;
    let mut found = Found::with_capacity(rows.len());
    for row in rows {
        let id = row.try_get(0)?;
        let epoch = row.try_get::<Option<String>, _>(2)?.map(String::into_boxed_str);
        let account = Account { id, epoch, day: row.try_get(3)?, ..Account::default() };
        found.insert(id, (row.try_get::<String, _>(1)?.into(), account));
    }
    Ok(found)
}

async fn read_letters(
    conn: &mut SqliteConnection,
    found: &mut Found,
    filled: &HashMap<i64, u32>,
) -> Result<(), StoreError> {
    let ids: Vec<i64> = found.keys().filter(|id| filled.contains_key(id)).copied().collect();
    if ids.is_empty() {
        return Ok(());
    }
    let rows =
        query("SELECT mailbox, qid, key, sender, size FROM letters WHERE mailbox IN (SELECT value FROM json_each(?))")
            .bind(qid_list(&ids))
            .fetch_all(conn)
            .await?;
    for row in rows {
        let Some((_, account)) = found.get_mut(&row.try_get::<i64, _>(0)?) else { continue };
        let key = Key::try_from(row.try_get::<&[u8], _>(2)?).map_err(|_| StoreError::Damaged)?;
        let size = u32::try_from(row.try_get::<i64, _>(4)?).unwrap_or(u32::MAX);
        account.add(row.try_get(1)?, Kept { key, sender: row.try_get(3)?, size });
    }
    Ok(())
}

/// As `json_each` takes it.
fn text_list<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    Value::from(texts.map(Value::from).collect::<Vec<_>>()).to_json()
}
