//! What the owner says that a contact knows: what an introduction of it says, and which contacts a referral finds.
use std::collections::HashSet;

use muretai_protocol::{Did, text::one_line};
use muretai_store::{StoreError, contacts::Contact};

use super::{TrustError, introduce::is_word};
use crate::{
    Agent,
    send::{SendError, target, target::Target},
};

impl Agent {
    /// Replaces the tags of a contact, named by its local name or its DID; none takes them away. A tag is short text on
    /// one line; a second one of the same letters is left out.
    pub async fn tag_contact(&self, who: &str, tags: &[String]) -> Result<Contact, TrustError> {
        let mut seen = HashSet::new();
        let tags: Vec<String> = tags.iter().map(|tag| tag.trim().to_owned()).collect();
        if let Some(tag) = tags.iter().find(|tag| !is_word(tag)) {
            let found = format!("{:?}", one_line(tag, 100));
            return Err(TrustError::OutOfRange { what: "tag", found, limits: "1 to 64 bytes of text on one line" });
        }
        let tags: Vec<String> = tags.into_iter().filter(|tag| seen.insert(tag.to_lowercase())).collect();
        let did = self.contact_did(who).await?;
        match self.store().set_expertise(&did, &tags).await {
            Ok(_) => {}
            Err(StoreError::TooManyTags) => {
                let found = format!("{} tags", tags.len());
                return Err(TrustError::OutOfRange { what: "list of tags", found, limits: "at most 16 tags" });
            }
            Err(error) => return Err(error.into()),
        }
        match self.store().contact(&did).await? {
            Some(contact) => Ok(contact),
            None => Err(SendError::NoSuchContact(one_line(who.trim(), 200)).into()),
        }
    }

    async fn contact_did(&self, who: &str) -> Result<Did, TrustError> {
        match target::parse(who).map_err(SendError::from)? {
            Target::Did(did) => Ok(did),
            Target::Name(name) => match self.store().contact_named(&name).await? {
                Some(contact) => Ok(contact.did),
                None => Err(SendError::NoSuchContact(name).into()),
            },
            _ => Err(SendError::NoSuchContact(one_line(who.trim(), 200)).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{agent, befriend, key};

    fn tags(tags: &[&str]) -> Vec<String> {
        tags.iter().map(|tag| (*tag).to_owned()).collect()
    }

    #[tokio::test]
    async fn a_contact_is_tagged_and_untagged() {
        let north = agent("north").await;
        let did = befriend(&north.agent, key(2).did(), None).await.did;
        let tagged = north.agent.tag_contact("south", &tags(&["rust", " tax law ", "RUST"])).await.unwrap();
        assert_eq!(tagged.expertise, ["rust", "tax law"]);
        let tagged = north.agent.tag_contact(did.as_str(), &[]).await.unwrap();
        assert!(tagged.expertise.is_empty());
    }

    #[tokio::test]
    async fn tags_that_are_none_change_nothing() {
        let north = agent("north").await;
        befriend(&north.agent, key(2).did(), None).await;
        north.agent.tag_contact("south", &tags(&["rust"])).await.unwrap();
        let long = "x".repeat(65);
        for tag in ["", " ", "a\nb", "a\u{202e}b", &long] {
            let error = north.agent.tag_contact("south", &tags(&["ok", tag])).await.unwrap_err();
            assert!(matches!(error, TrustError::OutOfRange { what: "tag", .. }), "{tag:?}: {error:?}");
        }
        let many: Vec<String> = (0..17).map(|n| n.to_string()).collect();
        let error = north.agent.tag_contact("south", &many).await.unwrap_err();
        assert!(matches!(error, TrustError::OutOfRange { what: "list of tags", .. }), "{error:?}");
        for who in ["nobody", key(9).did().as_str(), "http://south.example"] {
            let error = north.agent.tag_contact(who, &tags(&["x"])).await.unwrap_err();
            assert!(matches!(error, TrustError::Send(SendError::NoSuchContact(_))), "{who}: {error:?}");
        }
        let contact = north.agent.store().contact_named("south").await.unwrap().unwrap();
        assert_eq!(contact.expertise, ["rust"]);
    }
}
