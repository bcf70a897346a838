//! The HTTP server, row by row (section 12.3), over raw connections.

use crate::common::*;
use muretai_transports::http::ServerLimits;

#[tokio::test]
async fn answers_a_post_and_keeps_the_connection() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = Raw::connect(&server).await;
    for text in ["one", "two", "three"] {
        raw.send(&post(text)).await;
        let answer = raw.answer().await.unwrap();
        assert_eq!((answer.status, answer.text()), (200, text));
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("connection"), None);
    }
}
