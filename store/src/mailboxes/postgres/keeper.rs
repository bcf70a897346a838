//! Says that this process lives and who listens at it, and buries processes that are dead.
//!
//! By the database's clock: those of the processes may be hours apart.
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use muretai_protocol::{Did, UnixSeconds};
use sqlx::{Connection, PgConnection, Row, query, raw_sql};
use tokio::{
    sync::{mpsc, oneshot},
    time::{MissedTickBehavior, interval, timeout},
};

use crate::mailboxes::{
    MailboxError,
    postgres::{Shared, failure::too_late, link::safe},
};

const BEAT_EVERY: Duration = Duration::from_secs(10);
/// A process that said nothing for so long has no listeners.
pub(super) const ALIVE: &str = "interval '35 seconds'";
/// One that said nothing for so long is forgotten.
const DEAD: &str = "interval '60 seconds'";
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_WAITING: usize = 1_024;

type Answer = oneshot::Sender<Result<(), MailboxError>>;

pub(super) enum Job {
    Online(Changes),
    /// Say now that this process lives.
    Beat(Answer),
    Close(oneshot::Sender<()>),
}

/// Who came and went, and when.
pub(super) struct Changes {
    pub(super) of: Vec<(Did, bool)>,
    pub(super) now: UnixSeconds,
    pub(super) answer: Answer,
}

pub(super) struct Keeper {
    shared: Arc<Shared>,
    conn: Option<PgConnection>,
    online: HashSet<Box<str>>,
    /// The database may not know who is online.
    is_stale: bool,
}

impl Keeper {
    /// Says for the first time that the process lives.
    pub(super) async fn new(shared: Arc<Shared>) -> Result<Keeper, MailboxError> {
        let mut keeper = Keeper { shared, conn: None, online: HashSet::new(), is_stale: false };
        keeper.beat().await?;
        Ok(keeper)
    }

    pub(super) async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut beat = interval(BEAT_EVERY);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut waiting = Vec::new();
        let mut closing = None;
        while closing.is_none() {
            tokio::select! {
                taken = jobs.recv_many(&mut waiting, MAX_WAITING) => if taken == 0 { return },
                _ = beat.tick() => {
                    if let Err(error) = self.beat().await {
                        tracing::debug!(%error, "the database was not told that this process lives");
                    }
                    continue;
                }
            }
            let mut asked = Vec::with_capacity(waiting.len());
            for job in waiting.drain(..) {
                match job {
                    Job::Online(changes) => asked.push(changes),
                    Job::Beat(answer) => drop(answer.send(self.beat().await)),
                    Job::Close(done) => closing = Some(done),
                }
            }
            if !asked.is_empty() {
                self.change(asked).await;
            }
        }
        jobs.close();
        self.leave().await;
        if let Some(done) = closing {
            done.send(()).ok();
        }
    }

    async fn beat(&mut self) -> Result<(), MailboxError> {
        let outcome = timeout(STEP_TIMEOUT, self.try_beat()).await.unwrap_or_else(|_| Err(too_late()));
        outcome.map_err(|error| {
            self.lose();
            error.into()
        })
    }

    fn lose(&mut self) {
        self.conn = None;
        self.is_stale = true;
    }

    async fn connected(&mut self) -> Result<(), sqlx::Error> {
        if self.conn.is_none() {
            self.conn = Some(self.shared.link.volatile().await?);
        }
        Ok(())
    }

    async fn try_beat(&mut self) -> Result<(), sqlx::Error> {
        self.connected().await?;
        let Some(conn) = &mut self.conn else { return Ok(()) };
        let sql = "INSERT INTO processes (id, seen) VALUES ($1, clock_timestamp()) \
                   ON CONFLICT (id) DO UPDATE SET seen = clock_timestamp() RETURNING xmax = 0";
        let row = query(sql).bind(self.shared.process).fetch_one(&mut *conn).await?;
        // Not known: taken for dead, or the table was emptied by a crash of the server.
        if self.is_stale || row.try_get(0)? {
            register(conn, self.shared.process, &self.online).await?;
            self.is_stale = false;
        }
        if bury(conn).await? {
            self.shared.resync_all();
        }
        Ok(())
    }

    async fn change(&mut self, asked: Vec<Changes>) {
        let mut changed: HashMap<&str, (bool, UnixSeconds)> = HashMap::new();
        for changes in &asked {
            changed.extend(changes.of.iter().map(|(did, is_online)| (did.as_str(), (*is_online, changes.now))));
        }
        let (mut came, mut went, mut last_seen) = (Vec::new(), Vec::new(), UnixSeconds(i64::MIN));
        for (did, (is_online, now)) in changed {
            if is_online && self.online.insert(did.into()) {
                came.push(did.to_owned());
            } else if !is_online && self.online.remove(did) {
                went.push(did.to_owned());
                last_seen = last_seen.max(now);
            }
        }
        let mut outcome = Ok(());
        for _ in 0..2 {
            let writing = timeout(STEP_TIMEOUT, self.write(&came, &went, last_seen));
            outcome = writing.await.unwrap_or_else(|_| Err(too_late())).map_err(MailboxError::from);
            match outcome {
                Ok(()) => break,
                Err(_) => self.lose(),
            }
        }
        for changes in asked {
            changes.answer.send(outcome.clone()).ok();
        }
    }

    async fn write(&mut self, came: &[String], went: &[String], last_seen: UnixSeconds) -> Result<(), sqlx::Error> {
        if self.is_stale {
            self.try_beat().await?;
        }
        self.connected().await?;
        let Some(conn) = &mut self.conn else { return Ok(()) };
        if !came.is_empty() {
            let sql = "INSERT INTO listeners (did, process) SELECT did, $2 FROM unnest($1::text[]) did ON CONFLICT DO NOTHING";
            query(sql).bind(came).bind(self.shared.process).execute(&mut *conn).await?;
        }
        if !went.is_empty() {
            let sql = "DELETE FROM listeners WHERE process = $2 AND did = ANY($1)";
            query(sql).bind(went).bind(self.shared.process).execute(&mut *conn).await?;
            see_last(conn, went, last_seen).await?;
        }
        Ok(())
    }

    /// Nobody waits here any more.
    async fn leave(&mut self) {
        let process = self.shared.process;
        let went: Vec<String> = self.online.drain().map(String::from).collect();
        let leaving = async {
            self.connected().await?;
            let Some(mut conn) = self.conn.take() else { return Ok(()) };
            let sql =
                format!("DELETE FROM listeners WHERE process = {process}; DELETE FROM processes WHERE id = {process}");
            raw_sql(safe(sql)).execute(&mut conn).await?;
            see_last_now(&mut conn, &went).await?;
            conn.close().await
        };
        timeout(STEP_TIMEOUT, leaving).await.ok();
    }
}

async fn register(conn: &mut PgConnection, process: i64, online: &HashSet<Box<str>>) -> Result<(), sqlx::Error> {
    let all: Vec<&str> = online.iter().map(|did| &**did).collect();
    let sql = "DELETE FROM listeners WHERE process = $2 AND did <> ALL($1)";
    query(sql).bind(&all).bind(process).execute(&mut *conn).await?;
    let sql = "INSERT INTO listeners (did, process) SELECT did, $2 FROM unnest($1::text[]) did ON CONFLICT DO NOTHING";
    query(sql).bind(&all).bind(process).execute(conn).await?;
    Ok(())
}

/// Rows are locked in the order of ids, as everybody does.
async fn see_last(conn: &mut PgConnection, dids: &[String], at: UnixSeconds) -> Result<(), sqlx::Error> {
    let sql = "WITH seen AS MATERIALIZED (SELECT id FROM mailboxes WHERE did = ANY($1) ORDER BY id FOR NO KEY UPDATE) \
               UPDATE mailboxes SET last_seen = $2 FROM seen WHERE mailboxes.id = seen.id";
    query(sql).bind(dids).bind(at.0).execute(conn).await?;
    Ok(())
}

async fn see_last_now(conn: &mut PgConnection, dids: &[String]) -> Result<(), sqlx::Error> {
    let row = raw_sql("SELECT extract(epoch FROM clock_timestamp())::bigint").fetch_one(&mut *conn).await?;
    see_last(conn, dids, UnixSeconds(row.try_get(0)?)).await
}

/// Removes what dead processes left. Gives whether there were any: what they committed last, they may not have told.
async fn bury(conn: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let sql = format!("DELETE FROM processes WHERE seen < clock_timestamp() - {DEAD}");
    if raw_sql(safe(sql)).execute(&mut *conn).await?.rows_affected() == 0 {
        return Ok(false);
    }
    let sql =
        "DELETE FROM listeners l WHERE NOT EXISTS (SELECT 1 FROM processes p WHERE p.id = l.process) RETURNING did";
    let rows = raw_sql(sql).fetch_all(&mut *conn).await?;
    let dids = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<String>, _>>()?;
    see_last_now(conn, &dids).await?;
    Ok(true)
}
