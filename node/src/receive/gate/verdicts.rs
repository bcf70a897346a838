//! Which plugin's policy refused a request, for the one line that the owner's log has about it.
use std::cell::RefCell;

use muretai_protocol::text;

/// Characters of a plugin's name in the log.
const MAX_SHOWN_CHARS: usize = 80;

tokio::task_local! {
    static REFUSED_BY: RefCell<Option<String>>;
}

/// Remembers the policy that has just refused. Outside of [`noted`] nobody wants to know.
pub(super) fn note(policy: &str) {
    REFUSED_BY.try_with(|by| by.replace(Some(text::one_line(policy, MAX_SHOWN_CHARS)))).ok();
}

/// Runs a request; gives what came of it, and the name of the policy that refused last while it ran.
pub(crate) async fn noted<F: Future>(request: F) -> (F::Output, Option<String>) {
    let told = async {
        let output = request.await;
        (output, REFUSED_BY.with(RefCell::take))
    };
    REFUSED_BY.scope(RefCell::default(), told).await
}
