//! The introductions that let senders in, remembered: a sender who was introduced costs one look-up for each message
//! otherwise. Look-ups that wait together share the question whether anything has changed.
use std::{collections::HashMap, sync::Arc};

use muretai_protocol::UnixSeconds;
use sqlx::{Row, SqliteConnection, query};
use tokio::sync::oneshot;

use super::{IntroductionRow, rows::columns, rows::introduction_from};
use crate::StoreError;

/// Subjects that are remembered.
const MAX_SUBJECTS: usize = 1_024;
/// Bytes of credentials that are remembered for one subject; with more it is looked up each time.
const MAX_BYTES: usize = 4_096;

/// Accepted ones of one subject, with their issuers as they are now. Each half has its index.
const STANDING: &str = concat!(
    columns!(),
    " FROM introductions AS i INDEXED BY introductions_subject \
     JOIN contacts AS c ON c.peer = issuer AND c.relation = 1 AND c.is_blocked = 0 \
     WHERE role = 1 AND subject = (SELECT id FROM peers WHERE address = ?1) AND status = 1 AND valid_until > ?2 \
     UNION ALL ",
    columns!(),
    " FROM introductions AS i INDEXED BY introductions_target \
     JOIN contacts AS c ON c.peer = issuer AND c.relation = 1 AND c.is_blocked = 0 \
     WHERE role = 2 AND target = (SELECT id FROM peers WHERE address = ?1) AND status = 1 AND valid_until > ?2 \
     ORDER BY 7 DESC, 10 DESC LIMIT 64"
);

/// One caller.
pub(crate) struct Asked {
    pub(crate) subject: String,
    pub(crate) now: UnixSeconds,
    pub(crate) answer: oneshot::Sender<Result<Vec<IntroductionRow>, StoreError>>,
}

/// What is remembered.
#[derive(Default)]
pub(crate) struct Known {
    /// The state of the file that it was read from, or an earlier one.
    version: i64,
    by_subject: HashMap<Box<str>, Found>,
}

#[derive(Clone)]
struct Found {
    /// When it was looked up; what had expired by then is left out.
    since: UnixSeconds,
    rows: Arc<[IntroductionRow]>,
}

/// Answers everyone and empties the list. Gives whether the connection can be used further.
pub(crate) async fn answer(
    conn: Result<&mut SqliteConnection, StoreError>,
    asked: &mut Vec<Asked>,
    known: &mut Known,
) -> bool {
    let found = match conn {
        Ok(conn) => look_up(conn, asked, known).await,
        Err(error) => Err(error),
    };
    let is_sound = !found.as_ref().is_err_and(StoreError::is_connection_lost);
    match found {
        Ok(all) => {
            for (one, found) in asked.drain(..).zip(all) {
                let stands = |row: &&IntroductionRow| row.valid_until > one.now;
                one.answer.send(Ok(found.rows.iter().filter(stands).cloned().collect())).ok();
            }
        }
        Err(error) => {
            for one in asked.drain(..) {
                one.answer.send(Err(error.clone())).ok();
            }
        }
    }
    is_sound
}

/// What is read after the version may be newer than it, which costs one look-up more; it is never older.
async fn look_up(conn: &mut SqliteConnection, asked: &[Asked], known: &mut Known) -> Result<Vec<Found>, StoreError> {
    let row = query("SELECT version FROM trust_version").fetch_one(&mut *conn).await?;
    let version: i64 = row.try_get(0)?;
    if version != known.version {
        *known = Known { version, ..Known::default() };
    }
    let mut all = Vec::with_capacity(asked.len());
    for one in asked {
        let remembered = known.by_subject.get(one.subject.as_str()).filter(|found| found.since <= one.now);
        all.push(match remembered {
            Some(found) => found.clone(),
            None => known.learn(conn, one).await?,
        });
    }
    Ok(all)
}

impl Known {
    /// Whoever has none is not remembered: there is no end of them.
    async fn learn(&mut self, conn: &mut SqliteConnection, one: &Asked) -> Result<Found, StoreError> {
        let rows = query(STANDING).bind(&one.subject).bind(one.now.0).fetch_all(conn).await?;
        let rows: Arc<[IntroductionRow]> = rows.iter().map(introduction_from).collect::<Result<_, _>>()?;
        let found = Found { since: one.now, rows };
        let bytes: usize = found.rows.iter().map(|row| row.vc.len()).sum();
        if bytes > 0 && bytes <= MAX_BYTES {
            if self.by_subject.len() >= MAX_SUBJECTS {
                self.by_subject.clear();
            }
            self.by_subject.insert(one.subject.as_str().into(), found.clone());
        }
        Ok(found)
    }
}
