//! Peers as a person names them and reads them.

use muretai_node::Agent;
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
    let failed = |error| Failure::of(format!("cannot look up `{}`", shown(who)), &error);
    let found = match agent.store().contact_named(who).await.map_err(failed)? {
        Some(contact) => Some(contact),
        None => match who.parse::<Did>() {
            Ok(did) => agent.store().contact(&did).await.map_err(failed)?,
            Err(_) => None,
        },
    };
    found.ok_or_else(|| {
        Failure::new(Exit::Failed, format!("there is no contact `{}`", shown(who)))
            .hint("`muretai contacts list` shows them; `muretai claim LINK` makes one")
    })
}

/// A DID by a contact's local name, or as it is: the peer need not be a contact.
pub(crate) async fn did(agent: &Agent, who: &str) -> Result<Did, Failure> {
    match who.parse::<Did>() {
        Ok(did) => Ok(did),
        Err(_) => Ok(contact(agent, who).await?.did),
    }
}

/// Characters of a contact's local name.
const MAX_NAME_CHARS: usize = 64;

/// Why text cannot be a contact's local name: it has to be typable, and must not look like another kind of TARGET.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.chars().count() > MAX_NAME_CHARS {
        return Err("a name has 1 to 64 characters");
    }
    if name.trim() != name || text::one_line(name, MAX_NAME_CHARS) != name {
        return Err("a name has no blanks around it and no invisible characters");
    }
    if name.starts_with('-') || name.starts_with("did:") || name.contains("://") {
        return Err("a name does not look like a flag, a DID or a URL");
    }
    Ok(())
}
