//! One suite for both stores of mailboxes. PostgreSQL takes part when `MURETAI_TEST_POSTGRES` names a server (see
//! `tests/postgres.sh`); each test makes a database of its own there.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]
#[path = "mailboxes/bounds.rs"]
mod bounds;
#[path = "mailboxes/kill.rs"]
mod kill;
#[path = "mailboxes/letters.rs"]
mod letters;
#[path = "mailboxes/listeners.rs"]
mod listeners;
#[path = "mailboxes/place.rs"]
mod place;
#[path = "mailboxes/postgres.rs"]
mod postgres_server;
#[path = "mailboxes/records.rs"]
mod records;
#[path = "mailboxes/sqlite.rs"]
mod sqlite_file;

macro_rules! on_both {
    ($($module:ident::$name:ident,)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$module::$name(super::place::Place::sqlite()).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(place) = super::place::Place::postgres().await {
                    super::$module::$name(place).await;
                }
            })*
        }
    };
}

on_both! {
    letters::are_kept_until_they_are_acknowledged,
    letters::a_repeated_deposit_is_one_letter,
    letters::are_fetched_within_bounds,
    letters::are_fetched_by_many_at_once,
    letters::any_text_comes_back_as_it_was,
    letters::many_depositors_and_listeners_at_once,
    letters::survive_closing_and_keep_their_numbers,
    letters::a_closed_store_says_so,
    letters::old_ones_are_swept,
    letters::are_counted,
    bounds::each_is_named_and_harms_nobody_else,
    bounds::hold_when_many_deposit_at_once,
    bounds::total_bytes_hold_when_many_deposit_at_once,
    bounds::what_is_acknowledged_makes_room,
    listeners::the_newest_epoch_has_the_mailbox,
    listeners::many_claims_leave_the_greatest,
    listeners::are_online_until_they_say_otherwise,
    listeners::an_answer_is_taken_once,
    listeners::nobody_answers_what_is_not_awaited,
    listeners::hear_of_what_happens,
    records::a_card_is_replaced_by_a_newer_one,
    records::too_many_cards_push_the_oldest_out,
    records::an_invite_is_kept_until_it_expires,
    records::invites_of_one_did_are_bounded,
    records::bytes_of_cards_are_bounded,
    records::bytes_of_invites_are_bounded,
    records::mailboxes_without_letters_are_bounded,
    kill::nothing_acknowledged_is_lost,
}
