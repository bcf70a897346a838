//! Peers as a person names them and reads them.

use std::collections::{BTreeMap, BTreeSet};

use muretai_node::{
    Agent,
    send::target::{self, Target, TargetError},
};
use muretai_protocol::{Did, text};
use muretai_store::contacts::Contact;

use crate::{exit::Exit, failure::Failure};

/// Characters of a peer's name, purpose or URL that a terminal shows.
pub(crate) const MAX_SHOWN_CHARS: usize = 200;

/// A peer's text on one line, safe for a terminal.
pub(crate) fn shown(text: &str) -> String {
    text::one_line(text, MAX_SHOWN_CHARS)
}

/// A contact by its local name or its DID.
pub(crate) async fn contact(agent: &Agent, who: &str) -> Result<Contact, Failure> {
    let failed = |error| Failure::of(format!("cannot look up `{who}`"), &error);
    let found = match agent.store().contact_named(who).await.map_err(failed)? {
        Some(contact) => Some(contact),
        None => match spelled_did(who)? {
            Some(did) => agent.store().contact(&did).await.map_err(failed)?,
            None => None,
        },
    };
    found.ok_or_else(|| {
        Failure::new(Exit::Failed, format!("there is no contact `{who}`"))
            .hint("`muretai contacts list` shows them; `muretai claim LINK` makes one")
    })
}

/// A DID by a contact's local name, or as it is: the peer need not be a contact.
pub(crate) async fn did(agent: &Agent, who: &str) -> Result<Did, Failure> {
    match spelled_did(who)? {
        Some(did) => Ok(did),
        None => Ok(contact(agent, who).await?.did),
    }
}

/// Local names of the contacts among some DIDs, for what names several peers.
pub(crate) struct Names(BTreeMap<String, String>);

impl Names {
    /// Looks the names up.
    pub(crate) async fn of<'a>(agent: &Agent, dids: impl IntoIterator<Item = &'a Did>) -> Result<Names, Failure> {
        let mut names = BTreeMap::new();
        let wanted: BTreeSet<&str> = dids.into_iter().map(Did::as_str).collect();
        for did in wanted {
            let Ok(address) = did.parse::<Did>() else { continue };
            let found = agent.store().contact(&address).await;
            if let Some(contact) = found.map_err(|error| Failure::of("cannot look up a contact", &error))? {
                names.insert(did.to_owned(), contact.name);
            }
        }
        Ok(Names(names))
    }
    /// The local name, when there is one.
    pub(crate) fn get(&self, did: &Did) -> Option<&str> {
        self.0.get(did.as_str()).map(String::as_str)
    }
    /// The local name and the DID, for a terminal.
    pub(crate) fn shown(&self, did: &Did) -> String {
        match self.get(did) {
            Some(name) => format!("{}  {did}", shown(name)),
            None => did.to_string(),
        }
    }
}

/// The DID that text is; text that begins like one and is none is an error.
fn spelled_did(text: &str) -> Result<Option<Did>, Failure> {
    match target::parse(text) {
        Ok(Target::Did(did)) => Ok(Some(did)),
        Err(error @ TargetError::BadDid { .. }) => {
            let hint = error.hint().unwrap_or_default();
            let failure = Failure::io(format!("cannot look up `{text}`"), &error).hint(hint);
            Err(Failure { exit: Exit::Usage, ..failure })
        }
        _ => Ok(None),
    }
}
