//! What is known of a sender and one of its ids, answered for many callers by one statement.
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use sqlx::{
    Arguments, AssertSqlSafe, Row, SqliteConnection, query_with,
    sqlite::{SqliteArguments, SqliteRow},
};
use tokio::sync::oneshot;

use crate::{
    StoreError, contacts,
    handled::{Key, SharedTail, decode, digest_from},
    messages::{Handled, Standing},
};

/// Look-ups that share one statement.
pub(crate) const MAX_BATCH: usize = 64;

/// One caller.
pub(crate) struct Asked {
    pub(crate) from: String,
    pub(crate) key: Key,
    pub(crate) answer: oneshot::Sender<Result<Standing, StoreError>>,
}

/// Contacts that are remembered; strangers are not, for there is no end of them.
const MAX_KNOWN: usize = 4_096;

/// What is remembered of contacts, so that a message costs no look-up of its sender in a large file. SQLite drops what it
/// keeps of a file in memory whenever somebody has written to it, which here is always.
#[derive(Default)]
pub(crate) struct Known {
    /// The state of the file that it was read from.
    version: i64,
    /// By address: relation and block as [`CONTACT`] says.
    states: HashMap<Box<str>, i64>,
}

/// `STATEMENTS[i]` takes up to `2^i` look-ups: few texts, so that each is prepared once. The first of two leaves contacts
/// out.
static STATEMENTS: LazyLock<Vec<[Arc<str>; 2]>> = LazyLock::new(|| {
    (0..=MAX_BATCH.ilog2())
        .map(|power| {
            let marks = vec!["?"; 1 << power].join(",");
            let rest = format!(
                "SELECT {HANDLED}, key, digest FROM handled WHERE key IN ({marks}) \
                 UNION ALL SELECT {LOG}, entries, id FROM handled_log WHERE id > ? \
                 UNION ALL SELECT {VERSION}, NULL, version FROM trust_version"
            );
            let contacts = format!(
                "UNION ALL SELECT {CONTACT} + relation * 2 + is_blocked, address, NULL \
                 FROM contacts JOIN peers ON id = peer WHERE address IN ({marks})"
            );
            [rest.as_str().into(), format!("{rest} {contacts}").into()]
        })
        .collect()
});

// The first column of a row says what it is.
const VERSION: i64 = -1;
const LOG: i64 = 0;
const HANDLED: i64 = 1;
const CONTACT: i64 = 2;

/// Answers everyone and empties the list. Gives whether the connection can be used further.
pub(crate) async fn answer(
    conn: Result<&mut SqliteConnection, StoreError>,
    asked: &mut Vec<Asked>,
    tail: &SharedTail,
    known: &mut Known,
) -> bool {
    let found = match conn {
        Ok(conn) => look_up(conn, asked, tail, known).await,
        Err(error) => Err(error),
    };
    match found {
        Ok(standings) => {
            for (one, standing) in asked.drain(..).zip(standings) {
                one.answer.send(Ok(standing)).ok();
            }
            true
        }
        Err(error) => {
            for one in asked.drain(..) {
                one.answer.send(Err(error.clone())).ok();
            }
            !error.is_connection_lost()
        }
    }
}

/// Asks for contacts only when one of the senders is not remembered, or what is remembered has become old.
async fn look_up(
    conn: &mut SqliteConnection,
    asked: &[Asked],
    tail: &SharedTail,
    known: &mut Known,
) -> Result<Vec<Standing>, StoreError> {
    if asked.iter().all(|one| known.states.contains_key(one.from.as_str()))
        && let Some(standings) = look_up_with(conn, asked, tail, known, false).await?
    {
        return Ok(standings);
    }
    look_up_with(conn, asked, tail, known, true).await?.ok_or(StoreError::Damaged)
}

/// The tail is asked before the database: what leaves it meanwhile is in the table by then. One statement sees one state
/// of the file. `None` when contacts were left out and have changed.
async fn look_up_with(
    conn: &mut SqliteConnection,
    asked: &[Asked],
    tail: &SharedTail,
    known: &mut Known,
    with_contacts: bool,
) -> Result<Option<Vec<Standing>>, StoreError> {
    let (mut standings, seen) = {
        let tail = tail.lock();
        let handled = |one: &Asked| Standing {
            handled: tail.digest(&one.key).map(|digest| Handled { digest }),
            ..Standing::default()
        };
        (asked.iter().map(handled).collect::<Vec<_>>(), tail.seen())
    };
    let power = asked.len().next_power_of_two().ilog2() as usize;
    let arguments = arguments(asked, 1 << power, seen, with_contacts).map_err(sqlx::Error::Encode)?;
    let sql = STATEMENTS[power][usize::from(with_contacts)].clone();
    let rows = query_with(AssertSqlSafe(sql), arguments).fetch_all(conn).await?;
    let (mut news, mut last, mut version) = (Vec::new(), seen, None);
    let mut contacts = Vec::new();
    for row in &rows {
        match row.try_get::<i64, _>(0)? {
            VERSION => version = Some(row.try_get_unchecked::<i64, _>(2)?),
            LOG => {
                news.append(&mut decode(row.try_get_unchecked(1)?)?);
                last = last.max(row.try_get_unchecked(2)?);
            }
            HANDLED => note_handled(row, asked, &mut standings)?,
            state => contacts.push((row.try_get_unchecked::<&str, _>(1)?, state - CONTACT)),
        }
    }
    let version = version.ok_or(StoreError::Damaged)?;
    if last > seen {
        for (one, standing) in asked.iter().zip(&mut standings) {
            let found = news.iter().find(|(key, _)| *key == one.key);
            standing.handled = found.map(|(_, digest)| Handled { digest: *digest }).or(standing.handled);
        }
        tail.lock().take(news, last);
    }
    if with_contacts {
        known.learn(version, contacts);
    } else if known.version != version {
        return Ok(None);
    }
    for (one, standing) in asked.iter().zip(&mut standings) {
        known.note(&one.from, standing);
    }
    Ok(Some(standings))
}

impl Known {
    /// Takes what was read from one state of the file.
    fn learn(&mut self, version: i64, contacts: Vec<(&str, i64)>) {
        if self.version != version || self.states.len() + contacts.len() > MAX_KNOWN {
            self.states.clear();
        }
        self.version = version;
        self.states.extend(contacts.into_iter().map(|(address, state)| (address.into(), state)));
    }

    /// Whoever is not known is no contact.
    fn note(&self, from: &str, standing: &mut Standing) {
        let Some(state) = self.states.get(from) else { return };
        standing.is_direct = state / 2 == contacts::DIRECT;
        standing.is_introduced = state / 2 == contacts::INTRODUCED;
        standing.is_blocked = state % 2 == 1;
    }
}

fn arguments(
    asked: &[Asked],
    room: usize,
    seen: i64,
    with_contacts: bool,
) -> Result<SqliteArguments, sqlx::error::BoxDynError> {
    let mut to = SqliteArguments::default();
    to.reserve(2 * room + 1, 0);
    for one in asked {
        to.add(&one.key[..])?;
    }
    for _ in asked.len()..room {
        to.add(None::<i64>)?;
    }
    to.add(seen)?;
    if with_contacts {
        for one in asked {
            to.add(one.from.as_str())?;
        }
        for _ in asked.len()..room {
            to.add(None::<i64>)?;
        }
    }
    Ok(to)
}

/// Puts a handled id to everyone who asked for it.
fn note_handled(row: &SqliteRow, asked: &[Asked], standings: &mut [Standing]) -> Result<(), StoreError> {
    let key: &[u8] = row.try_get_unchecked(1)?;
    for (one, standing) in asked.iter().zip(standings) {
        if one.key == key {
            standing.handled = Some(Handled { digest: digest_from(row, 2)? });
        }
    }
    Ok(())
}
