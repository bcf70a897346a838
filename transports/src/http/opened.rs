//! Answers whose head is here and whose body still comes: event streams, and calls that are answered late.
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::{Fetched, client, failure};
use crate::{ClientTimeouts, TransportError, guard};

/// An answer that is being read. Dropped, its connection is closed.
#[derive(Debug)]
pub(crate) struct Opened {
    response: reqwest::Response,
    timeouts: ClientTimeouts,
}

impl Opened {
    pub(super) fn new(response: reqwest::Response, timeouts: ClientTimeouts) -> Opened {
        Opened { response, timeouts }
    }

    /// The HTTP status, whatever it is.
    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// Says whether the body is of this media type; parameters do not matter.
    pub(crate) fn is_of_type(&self, media_type: &str) -> bool {
        let found = client::text_of(self.response.headers(), ::http::header::CONTENT_TYPE).unwrap_or_default();
        let essence = found.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case(media_type)
    }

    /// The next piece of the body, `None` at its end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`TransportError::Timeout`] when nothing comes for `idle`, and whatever ends a connection.
    pub(crate) async fn chunk(&mut self, idle: Duration) -> Result<Option<Bytes>, TransportError> {
        match tokio::time::timeout(idle, self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => Err(failure::sort(error, self.printable(), &self.timeouts)),
            Err(_) => Err(TransportError::Timeout { url: self.printable(), limit: idle }),
        }
    }

    /// Reads what is left within a time; one byte too many ends the connection.
    pub(crate) async fn read(mut self, max_bytes: usize, limit: Duration) -> Result<Fetched, TransportError> {
        let url = self.printable();
        match tokio::time::timeout(limit, self.read_untimed(max_bytes)).await {
            Ok(read) => read,
            Err(_) => Err(TransportError::Timeout { url, limit }),
        }
    }

    async fn read_untimed(&mut self, max_bytes: usize) -> Result<Fetched, TransportError> {
        let too_large = |url| TransportError::TooLarge { url, limit: max_bytes };
        if self.response.content_length().is_some_and(|length| length > max_bytes as u64) {
            return Err(too_large(self.printable()));
        }
        let mut body = BytesMut::new();
        loop {
            let chunk = self.response.chunk().await;
            let Some(chunk) = chunk.map_err(|error| failure::sort(error, self.printable(), &self.timeouts))? else {
                break;
            };
            if body.len() + chunk.len() > max_bytes {
                return Err(too_large(self.printable()));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(client::fetched(&self.response, body.freeze()))
    }

    fn printable(&self) -> String {
        guard::printable(self.response.url().as_str())
    }
}
