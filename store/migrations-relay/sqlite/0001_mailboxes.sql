-- Whose mailboxes there are. Numbers are never given again.
CREATE TABLE mailboxes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    did TEXT NOT NULL UNIQUE,
    -- The greatest that a listener ever claimed it with.
    epoch TEXT,
    -- When a listener ceased to wait, in Unix seconds.
    last_seen INTEGER,
    -- The day since 1970 of its last deposit or claim: one that nobody needs goes.
    day INTEGER NOT NULL
) STRICT;

-- Numbers are never given again: an acknowledgement that comes late must not meet another letter.
CREATE TABLE letters (
    qid INTEGER PRIMARY KEY AUTOINCREMENT,
    mailbox INTEGER NOT NULL,
    -- The first 16 bytes of SHA-256(SHA-256(sender) || id).
    key BLOB NOT NULL,
    -- The first 8 bytes of SHA-256(sender).
    sender INTEGER NOT NULL,
    -- Bytes of the box.
    size INTEGER NOT NULL,
    ts INTEGER NOT NULL,
    awaited_until INTEGER,
    id TEXT NOT NULL,
    from_did TEXT NOT NULL,
    from_enc TEXT,
    blob TEXT NOT NULL
) STRICT;

-- Everything that bounds and duplicates are decided by, without a look at the boxes.
CREATE INDEX letters_by_mailbox ON letters (mailbox, qid, key, sender, size);
CREATE INDEX letters_by_ts ON letters (ts);

-- The lowest rowid is the one whose renewal is longest ago.
CREATE TABLE cards (
    renewal INTEGER PRIMARY KEY AUTOINCREMENT,
    did TEXT NOT NULL UNIQUE,
    ts INTEGER NOT NULL,
    envelope TEXT NOT NULL
) STRICT;

CREATE TABLE invites (
    code TEXT PRIMARY KEY,
    did TEXT NOT NULL,
    exp INTEGER NOT NULL,
    card TEXT NOT NULL
) STRICT;

CREATE INDEX invites_by_did ON invites (did);
CREATE INDEX invites_by_exp ON invites (exp);
