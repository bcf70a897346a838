-- Bytes of what is published, without reading it; their sums are taken from the indexes.
ALTER TABLE cards ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
UPDATE cards SET size = length(CAST(envelope AS BLOB));
CREATE INDEX cards_by_size ON cards (size);

-- The lowest rowid is the one that was left first.
ALTER TABLE invites ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
UPDATE invites SET size = length(CAST(card AS BLOB));
CREATE INDEX invites_by_size ON invites (size);
