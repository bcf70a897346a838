-- Bytes of what is published, without reading it.
ALTER TABLE cards ADD COLUMN size bigint NOT NULL GENERATED ALWAYS AS (octet_length(envelope)) STORED;
CREATE INDEX cards_by_renewal ON cards (renewal, size);

-- The lowest number is the one that was left first.
ALTER TABLE invites ADD COLUMN size bigint NOT NULL GENERATED ALWAYS AS (octet_length(card)) STORED;
ALTER TABLE invites ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY;
CREATE INDEX invites_by_number ON invites (number, size);
