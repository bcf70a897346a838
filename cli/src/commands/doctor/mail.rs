//! Whether letters come and go: relays, their clocks, who listens, the outbox.

use muretai_node::{Agent, agent, mail::MailStatus};
use muretai_protocol::{Did, UnixSeconds, json, urls};
use muretai_store::messages::OutStatus;
use muretai_transports::{
    ClientTimeouts,
    guard::Policy,
    http::{FetchOptions, HttpTransport},
    relay::directory::{Presence, Relay},
};

use super::{Doctor, Status, checks::CARD_TIMEOUT};
use crate::{clock, failure::Failure, output};

/// Bytes of an answer that are read.
const MAX_ANSWER_BYTES: usize = 65_536;
/// Seconds that a relay's clock may be off: beyond it peers refuse what is signed here, or the relay is wrong.
const CLOCK_SLACK_SECS: u64 = 120;

impl Doctor {
    /// The relays where an agent has a mailbox, and what is on its way.
    pub(super) async fn mail(&mut self, agent: &Agent, configured: &[String]) {
        match agent.mail_status().await {
            Err(error) => self.failed("relays", "cannot tell which there are", &error),
            Ok(status) if status.mailboxes.is_empty() => {
                let hint = format!("`muretai --as {} serve --relay URL` gives it a mailbox", agent.name());
                self.note("relays", Status::Ok, "none: letters reach this agent directly alone", Some(hint));
            }
            Ok(status) => {
                for relay in &status.mailboxes {
                    self.relay(agent, relay, &status, configured.contains(relay)).await;
                }
                if status.rejected > 0 {
                    let hint = format!("`muretai --as {} inbox --rejected` shows why", agent.name());
                    self.note("letters", Status::Ok, format!("{} were refused", status.rejected), Some(hint));
                }
            }
        }
        self.outbox(agent).await;
    }

    async fn relay(&mut self, agent: &Agent, relay: &str, status: &MailStatus, is_configured: bool) {
        let http = HttpTransport::client(ClientTimeouts { connect: CARD_TIMEOUT, total: CARD_TIMEOUT });
        let options = FetchOptions { policy: Policy::Owner, max_bytes: MAX_ANSWER_BYTES, redirects: 0 };
        // A relay that a peer once named is no loss when it is gone.
        let bad = if is_configured { Status::Failed } else { Status::Warning };
        let look = || Some("check its address, and whether `muretai relay serve` runs there".to_owned());
        match http.fetch(&urls::join(relay, "health"), &options).await {
            Err(error) => {
                let failure = Failure::io(format!("{relay} cannot be reached"), &error);
                return self.note("relays", bad, crate::output::in_one_line(&failure), look());
            }
            Ok(answer) if answer.status != 200 => {
                let detail = format!("{relay} is not well: it answers with HTTP status {}", answer.status);
                return self.note("relays", bad, detail, look());
            }
            Ok(_) => {}
        }
        let place = Relay { base: relay, policy: Policy::Owner, timeout: CARD_TIMEOUT };
        let presence = match place.presence(&http, agent.did()).await {
            Ok(presence) => presence,
            Err(error) => {
                let failure = Failure::io(format!("{relay} is no relay that this program knows"), &error);
                return self.note("relays", bad, crate::output::in_one_line(&failure), look());
            }
        };
        let (standing, detail, hint) = listening(agent.name(), relay, status, &presence, agent::now());
        self.note("relays", standing, detail, hint);
        self.relay_clock(agent, relay, &http, &options).await;
    }

    /// A relay says its time when it refuses a token, so it is shown one that is good for nothing.
    async fn relay_clock(&mut self, agent: &Agent, relay: &str, http: &HttpTransport, options: &FetchOptions) {
        let (did, token) = (agent.did(), "A".repeat(86));
        let query = format!("listen?did={did}&minute=0&epoch=0000000000000-0000000000&token={token}%3D%3D&wait=0");
        let Ok(answer) = http.fetch(&urls::join(relay, &query), options).await else { return };
        let said = json::parse(&answer.body).ok();
        let said = said.as_ref().and_then(|said| said.member("error")?.member("data")?.member("now")?.as_i64());
        let Some(apart) = said.map(|said| said.saturating_sub(agent::now().0)) else { return };
        if apart.unsigned_abs() > CLOCK_SLACK_SECS {
            let which = if apart > 0 { "ahead of" } else { "behind" };
            let detail = format!("that of {relay} is {} s {which} this one", apart.unsigned_abs());
            let hint = "set the clock that is wrong; peers refuse what is signed more than 300 s off".to_owned();
            self.note("clock", Status::Warning, detail, Some(hint));
        }
    }

    /// A peer that is reached through its relay alone: whether that is there, and what it says.
    pub(super) async fn peer_mailbox(&mut self, agent: &Agent, peer: &Mailbox<'_>, allow_private: bool) {
        let Mailbox { target, did, relay, known } = peer;
        let http = HttpTransport::client(ClientTimeouts { connect: CARD_TIMEOUT, total: CARD_TIMEOUT });
        let own = agent.known_relays().await.unwrap_or_default();
        let is_own = own.iter().any(|own| urls::same_scope(own, relay));
        let policy = if allow_private || is_own { Policy::Owner } else { Policy::Peer };
        let place = Relay { base: relay, policy, timeout: CARD_TIMEOUT };
        match place.presence(&http, did).await {
            Ok(presence) => {
                let standing = standing(relay, &presence, agent::now());
                self.note("peer", Status::Ok, format!("{target} is {did}{known}; {standing}"), None);
            }
            Err(error) => {
                let failure =
                    Failure::io(format!("{target} is {did}{known}; its relay {relay} cannot be reached"), &error);
                let hint = "messages to it stay in the outbox until its relay, or it, is there".to_owned();
                self.note("peer", Status::Failed, output::in_one_line(&failure), Some(hint));
            }
        }
    }

    async fn outbox(&mut self, agent: &Agent) {
        let rows = match agent.store().outbox(false).await {
            Err(error) => return self.failed("outbox", "it cannot be read", &error),
            Ok(rows) => rows,
        };
        let queued = rows.iter().filter(|row| row.status == OutStatus::Queued).count();
        let hint = Some(format!("`muretai --as {} outbox list` shows them", agent.name()));
        match (queued, rows.len() - queued) {
            (0, 0) => self.note("outbox", Status::Ok, "empty", None),
            (0, waiting) => self.note("outbox", Status::Ok, format!("{waiting} lie at relays"), hint),
            (queued, _) => {
                let mut detail = format!("{queued} could not be delivered yet");
                if let Some(error) = rows.iter().find_map(|row| row.last_error.as_ref()) {
                    detail.push_str(&format!("; the last attempt failed: {error}"));
                }
                self.note("outbox", Status::Warning, detail, hint);
            }
        }
    }
}

/// Where letters to a peer wait.
pub(super) struct Mailbox<'a> {
    /// As typed.
    pub(super) target: &'a str,
    pub(super) did: &'a Did,
    pub(super) relay: &'a str,
    /// What else is known of it.
    pub(super) known: String,
}

/// What a relay says about somebody's mailbox there.
fn standing(relay: &str, presence: &Presence, now: UnixSeconds) -> String {
    match (presence.is_online, seen(presence, now)) {
        (Some(true), _) => format!("it is reached through {relay}, and listens there now, as that relay says"),
        (Some(false), Some(seen)) => format!("letters wait at {relay}; it listened there {seen}, as that relay says"),
        (Some(false), None) => format!("it does not listen at {relay} now; letters wait there"),
        (None, _) => format!("letters wait at {relay}, which does not say whether it listens"),
    }
}

/// Who listens at a relay that is well.
fn listening(
    name: &str,
    relay: &str,
    status: &MailStatus,
    presence: &Presence,
    now: UnixSeconds,
) -> (Status, String, Option<String>) {
    let is_served = status.served.iter().any(|served| served == relay);
    let is_connected = status.connected.iter().any(|connected| connected == relay);
    if is_connected {
        return (Status::Ok, format!("{relay} is well, and `muretai serve` listens there"), None);
    }
    if is_served {
        let hint = Some("its log says why; `muretai serve` goes on trying".to_owned());
        return (Status::Warning, format!("{relay} is well, but `muretai serve` is not connected to it"), hint);
    }
    if presence.is_online == Some(true) {
        let hint = "it may be in another home, or have been killed, which a relay notices late; only the newest listener \
                    of an identity gets its letters";
        let seen = seen(presence, now).map(|seen| format!(", last seen {seen}")).unwrap_or_default();
        let detail =
            format!("{relay} is well, and still counts a listener of this agent{seen}; none runs in this home");
        return (Status::Ok, detail, Some(hint.to_owned()));
    }
    let hint =
        format!("`muretai --as {name} inbox --sync` fetches what lies there, `muretai serve --relay {relay}` listens");
    (Status::Ok, format!("{relay} is well; nobody listens there now"), Some(hint))
}

/// When somebody listened last, as the relay says, which may say anything.
fn seen(presence: &Presence, now: UnixSeconds) -> Option<String> {
    presence.last_seen.map(|last| clock::distance(UnixSeconds(last.0.min(now.0)), now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_is_told_apart() {
        let relay = "https://relay.example";
        let status = |served: bool, connected: bool| MailStatus {
            served: if served { vec![relay.to_owned()] } else { Vec::new() },
            connected: if connected { vec![relay.to_owned()] } else { Vec::new() },
            ..MailStatus::default()
        };
        let now = UnixSeconds(1_800_000_000);
        let told = |status: &MailStatus, is_online, last_seen: Option<i64>| {
            let presence = Presence { is_online, last_seen: last_seen.map(UnixSeconds) };
            listening("south", relay, status, &presence, now)
        };
        assert!(told(&status(true, true), Some(true), None).1.contains("listens there"));
        assert_eq!(told(&status(true, false), Some(false), None).0, Status::Warning);
        let dead = told(&status(false, false), Some(true), Some(now.0 - 300)).1;
        assert!(dead.contains("still counts a listener of this agent, last seen 5 min ago"), "{dead}");
        assert!(told(&status(false, false), Some(true), Some(i64::MAX)).1.contains("last seen now"));
        assert!(told(&status(false, false), Some(false), None).2.unwrap().contains("--as south inbox --sync"));
    }

    #[test]
    fn what_a_relay_says_of_a_peer_is_no_more_than_that() {
        let now = UnixSeconds(1_800_000_000);
        let told = |is_online, last_seen: Option<i64>| {
            standing("https://relay.example", &Presence { is_online, last_seen: last_seen.map(UnixSeconds) }, now)
        };
        assert!(told(Some(true), Some(now.0)).contains("listens there"));
        assert!(told(Some(false), Some(now.0 - 7_200)).contains("it listened there 2 h ago"));
        assert!(told(Some(false), None).contains("letters wait there"));
        assert!(told(None, None).contains("does not say"));
    }
}
