-- An older limitctl made each table beside the limits when it had its first row, and compares these texts.

CREATE TABLE IF NOT EXISTS limits (
	prefix    TEXT    NOT NULL,
	subject   TEXT    NOT NULL,
	name      TEXT    NOT NULL,
	record    BLOB    NOT NULL,
	unused_at INTEGER NOT NULL, -- µs since the epoch
	UNIQUE (prefix, subject, name)
);

CREATE TABLE IF NOT EXISTS tokens (
	prefix TEXT    NOT NULL,
	token  TEXT    NOT NULL,
	record BLOB    NOT NULL,
	ends   INTEGER NOT NULL, -- µs since the epoch
	PRIMARY KEY (prefix, token)
);

CREATE TABLE IF NOT EXISTS identities (
	prefix TEXT NOT NULL PRIMARY KEY,
	id     TEXT NOT NULL
) WITHOUT ROWID;

-- A row for each override, and one without an ID for the version, which ends with the last override.
CREATE TABLE IF NOT EXISTS overrides (
	prefix  TEXT    NOT NULL,
	id      TEXT    NOT NULL,
	record  TEXT    NOT NULL, -- JSON, or the version
	created INTEGER NOT NULL, -- µs since the epoch
	ends    INTEGER NOT NULL, -- likewise
	PRIMARY KEY (prefix, id)
) WITHOUT ROWID;

-- The head, the versions and the reports of processes. Only reports end.
CREATE TABLE IF NOT EXISTS published (
	prefix TEXT    NOT NULL,
	part   TEXT    NOT NULL, -- head, v:NUMBER or process:PLACE
	ends   INTEGER NOT NULL, -- µs since the epoch; 0 for never; before the record, which can be large and would be read first
	record BLOB    NOT NULL,
	PRIMARY KEY (prefix, part)
);

CREATE TABLE IF NOT EXISTS journal (
	number INTEGER PRIMARY KEY, -- in the order of writing
	prefix TEXT    NOT NULL,
	at     INTEGER NOT NULL, -- µs since the epoch
	text   TEXT    NOT NULL
);

CREATE TABLE IF NOT EXISTS published_history (
	number INTEGER PRIMARY KEY, -- in the order of writing
	prefix TEXT    NOT NULL,
	at     INTEGER NOT NULL, -- µs since the epoch
	text   TEXT    NOT NULL
);

-- A row for each key that was denied in a step. The row without subject and name counts the denials of all other keys
-- together; its last_at is 1 if some denials are counted nowhere, and otherwise 0.
CREATE TABLE IF NOT EXISTS denial_steps (
	prefix   TEXT    NOT NULL,
	length   INTEGER NOT NULL, -- of the step, in minutes
	number   INTEGER NOT NULL, -- of the step, since the epoch
	subject  TEXT    NOT NULL,
	name     TEXT    NOT NULL,
	count    INTEGER NOT NULL,
	last_at  INTEGER NOT NULL, -- µs since the epoch
	since    INTEGER NOT NULL, -- µs since the epoch
	blocked  INTEGER NOT NULL,
	compared INTEGER NOT NULL,
	allowed  INTEGER NOT NULL,
	limited  TEXT    NOT NULL, -- the limit
	override TEXT    NOT NULL, -- its ID
	PRIMARY KEY (prefix, length, number, subject, name)
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS limits_unused_at ON limits (unused_at);
CREATE INDEX IF NOT EXISTS tokens_ends ON tokens (ends);
