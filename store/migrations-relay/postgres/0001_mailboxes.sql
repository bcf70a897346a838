-- Everything is in the schema muretai_relay, which the search path names.
CREATE TABLE meta (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    version bigint NOT NULL
);
INSERT INTO meta (version) VALUES (0);

-- Whose mailboxes there are. The row is locked by whoever changes what the mailbox holds; locks are taken in the order
-- of ids.
CREATE TABLE mailboxes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    did text COLLATE "C" NOT NULL UNIQUE,
    -- The greatest that a listener ever claimed it with.
    epoch text COLLATE "C",
    -- When a listener ceased to wait, in Unix seconds.
    last_seen bigint,
    -- The day since 1970 of its last deposit or claim: one that nobody needs goes.
    day bigint NOT NULL,
    letters bigint NOT NULL DEFAULT 0 CHECK (letters >= 0),
    bytes bigint NOT NULL DEFAULT 0 CHECK (bytes >= 0)
) WITH (fillfactor = 60);

-- Texts of senders are bytes: they may hold what a text here may not.
CREATE TABLE letters (
    mailbox bigint NOT NULL,
    qid bigint GENERATED ALWAYS AS IDENTITY,
    -- The first 8 bytes of SHA-256(sender), and the first 16 of SHA-256(SHA-256(sender) || id).
    sender bigint NOT NULL,
    key bytea NOT NULL,
    -- Bytes of the box.
    size bigint NOT NULL,
    ts bigint NOT NULL,
    awaited_until bigint,
    id bytea NOT NULL,
    from_did text COLLATE "C" NOT NULL,
    from_enc bytea,
    blob bytea NOT NULL,
    PRIMARY KEY (mailbox, qid),
    UNIQUE (mailbox, sender, key)
);
-- What is sealed does not compress.
ALTER TABLE letters ALTER COLUMN blob SET STORAGE EXTERNAL;
CREATE INDEX letters_by_ts ON letters (ts);

-- Sums over all mailboxes, in pieces: each writer has one, so that none waits for another.
CREATE TABLE totals (
    shard integer PRIMARY KEY,
    letters bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    mailboxes bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
INSERT INTO totals (shard) SELECT * FROM generate_series(0, 63);

-- The lowest renewal is the one that is longest ago.
CREATE TABLE cards (
    did text COLLATE "C" PRIMARY KEY,
    ts bigint NOT NULL,
    envelope text NOT NULL,
    renewal bigint GENERATED ALWAYS AS IDENTITY UNIQUE
);

CREATE TABLE invites (
    code text COLLATE "C" PRIMARY KEY,
    did text COLLATE "C" NOT NULL,
    exp bigint NOT NULL,
    card text NOT NULL
);
CREATE INDEX invites_by_did ON invites (did);
CREATE INDEX invites_by_exp ON invites (exp);

-- True only while processes live; a crash of the server may empty these.
CREATE SEQUENCE process_ids;
CREATE UNLOGGED TABLE processes (
    id bigint PRIMARY KEY,
    seen timestamptz NOT NULL
);
CREATE UNLOGGED TABLE listeners (
    did text COLLATE "C" NOT NULL,
    process bigint NOT NULL,
    PRIMARY KEY (did, process)
);
CREATE INDEX listeners_by_process ON listeners (process);
CREATE UNLOGGED TABLE answers (
    qid bigint PRIMARY KEY,
    until bigint NOT NULL,
    blob bytea NOT NULL
);
CREATE INDEX answers_by_until ON answers (until);
