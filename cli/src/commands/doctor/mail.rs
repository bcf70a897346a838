//! Whether letters come and go: relays, their clocks, who listens, the outbox.

use muretai_node::{Agent, agent, mail::MailStatus};
use muretai_protocol::{json, urls};
use muretai_store::messages::OutStatus;
use muretai_transports::{
    ClientTimeouts,
    guard::Policy,
    http::{FetchOptions, HttpTransport},
    relay::directory::Relay,
};

use super::{Doctor, Status, checks::CARD_TIMEOUT};
use crate::failure::Failure;

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
        let (standing, detail, hint) = listening(agent.name(), relay, status, presence.is_online == Some(true));
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

/// Who listens at a relay that is well.
fn listening(name: &str, relay: &str, status: &MailStatus, is_online: bool) -> (Status, String, Option<String>) {
    let is_served = status.served.iter().any(|served| served == relay);
    let is_connected = status.connected.iter().any(|connected| connected == relay);
    if is_connected {
        return (Status::Ok, format!("{relay} is well, and `muretai serve` listens there"), None);
    }
    if is_served {
        let hint = Some("its log says why; `muretai serve` goes on trying".to_owned());
        return (Status::Warning, format!("{relay} is well, but `muretai serve` is not connected to it"), hint);
    }
    if is_online {
        let hint = Some("only the newest listener of an identity gets its letters".to_owned());
        return (
            Status::Ok,
            format!("{relay} is well; somebody outside this home listens there, or did just now"),
            hint,
        );
    }
    let hint =
        format!("`muretai --as {name} inbox --sync` fetches what lies there, `muretai serve --relay {relay}` listens");
    (Status::Ok, format!("{relay} is well; nobody listens there now"), Some(hint))
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
        assert!(listening("south", relay, &status(true, true), true).1.contains("listens there"));
        assert_eq!(listening("south", relay, &status(true, false), false).0, Status::Warning);
        assert!(listening("south", relay, &status(false, false), true).1.contains("outside this home"));
        assert!(listening("south", relay, &status(false, false), false).2.unwrap().contains("--as south inbox --sync"));
    }
}
