mod relayed;

use super::*;
use crate::testing;

#[test]
fn the_end_of_a_did_is_shown() {
    let did = testing::key(1).did().clone();
    assert!(did.as_str().ends_with(tail(&did)) && tail(&did).len() == 8);
}
