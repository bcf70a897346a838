-- Version 3: what is on its way out, letters that were refused here, codes of refusals, ML-KEM keys of peers.

-- Hex, out of a signed card only.
ALTER TABLE contacts ADD COLUMN enc_pub_pq TEXT;

-- The code of the peer's refusal.
ALTER TABLE messages ADD COLUMN code INTEGER;

-- What came by mail names by its id the message that it is about. Only messages with a status are asked for: neither what
-- arrives nor replies to it cost anything here.
CREATE INDEX messages_sent ON messages (message_id) WHERE status IS NOT NULL;

-- One row for each message on its way; it goes when somebody said something about it, or it is given up.
-- kind: 0 a message of the owner's, 1 a reply of the responder, 2 a notice of a machine. is_reply: it is signed as a reply.
-- due: the next attempt; of one at a relay, when it is given up. is_taken: somebody sends it until `due`.
-- relay, deposited: the relay that keeps it, and since when.
CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY,
    peer INTEGER NOT NULL REFERENCES peers (id),
    kind INTEGER NOT NULL,
    is_reply INTEGER NOT NULL,
    is_taken INTEGER NOT NULL,
    allow_private INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    due INTEGER NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    deposited INTEGER,
    relay TEXT,
    via TEXT,
    fallback_relay TEXT,
    fallback_enc_pub TEXT,
    last_error TEXT,
    extra TEXT
) STRICT;

CREATE INDEX outbox_due ON outbox (due);
CREATE INDEX outbox_kind ON outbox (kind, seq);
CREATE INDEX outbox_peer ON outbox (peer);

-- Letters that came through a relay and were refused, for the owner to see.
CREATE TABLE rejected (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    received INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    code INTEGER,
    relay TEXT NOT NULL,
    sender TEXT NOT NULL,
    letter TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT;
