//! Write a native muretai plugin in Rust: implement [`Plugin`], end the crate with [`export_plugin!`], build it as a
//! `cdylib`.
//!
//! ```
//! use muretai_plugin::{About, Error, Map, Plugin, Reply, Skill, SkillInfo, SkillRequest, Value};
//!
//! struct Shout;
//!
//! impl Plugin for Shout {
//!     fn about() -> About {
//!         let skill = SkillInfo::new("shout", "Shout", "Upper case").example("hello");
//!         About::new("shout", "1.0.0", "Says it louder").skill(skill)
//!     }
//!     fn open(_config: &Map<String, Value>) -> Result<Shout, Error> {
//!         Ok(Shout)
//!     }
//!     fn skill(&mut self, id: &str) -> Option<&mut dyn Skill> {
//!         (id == "shout").then_some(self)
//!     }
//! }
//!
//! impl Skill for Shout {
//!     fn answer(&mut self, request: &SkillRequest) -> Result<Reply, Error> {
//!         Ok(Reply::text(request.text.to_uppercase()))
//!     }
//! }
//!
//! muretai_plugin::export_plugin!(Shout);
//! # let answer = muretai_plugin::testing::Instance::<Shout>::open("{}").unwrap().skill("shout", "hello").unwrap();
//! # assert_eq!(answer.text, "HELLO");
//! ```
//!
//! A panic is caught at the border and answered as an error; the instance is then opened anew. So build with `panic =
//! "unwind"`, which is the default. The crate knows nothing of muretai's host: it depends on `serde_json` alone.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod abi;
pub mod border;
mod decode;
mod encode;
pub mod testing;
mod types;

pub use serde_json::{Map, Value};
pub use types::{
    About, Applicant, Contact, Decision, Error, Introduction, OfferedCommand, Reply, Sender, SkillInfo, SkillRequest,
};

/// A plugin: what it offers and how an instance is made.
pub trait Plugin: Sized + 'static {
    /// Says what the plugin is and offers. Asked before there is an instance; the same on every call.
    fn about() -> About;
    /// Makes an instance from the owner's configuration. Its error is shown to the owner.
    fn open(config: &Map<String, Value>) -> Result<Self, Error>;
    /// The skill of this id, one of those that [`Plugin::about`] lists.
    fn skill(&mut self, id: &str) -> Option<&mut dyn Skill> {
        let _ = id;
        None
    }
    /// The trust policy, when [`Plugin::about`] says that there is one.
    fn policy(&mut self) -> Option<&mut dyn Policy> {
        None
    }
}

/// Answers messages.
pub trait Skill {
    /// Answers one message. The text of an error is what the sender reads: say what it may do about it.
    fn answer(&mut self, request: &SkillRequest) -> Result<Reply, Error>;
}

/// Decides about senders.
pub trait Policy {
    /// Decides. An error refuses the sender; its text goes to the owner's log only.
    fn decide(&mut self, applicant: &Applicant) -> Result<Decision, Error>;
}

/// Exports a [`Plugin`] from a `cdylib`. Once in a crate.
#[macro_export]
macro_rules! export_plugin {
    ($plugin:ty) => {
        const _: () = {
            /// The one exported symbol.
            #[allow(unsafe_code)]
            #[unsafe(no_mangle)]
            extern "C-unwind" fn muretai_plugin_entry(abi_min: u32, abi_max: u32) -> *const $crate::abi::Table {
                $crate::border::entry::<$plugin>(abi_min, abi_max)
            }
        };
    };
}
