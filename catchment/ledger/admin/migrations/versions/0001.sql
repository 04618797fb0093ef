-- Frozen. A line that begins with `-- sqlite: ` or `-- postgresql: ` is for that database only; r0001_first.py has the words in braces.
CREATE TABLE chain (
    id INTEGER NOT NULL,
    length BIGINT NOT NULL,
    hash {blob} NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT only_one CHECK (id = 1)
);

CREATE TABLE contents (
    id {id} NOT NULL,
    hash TEXT NOT NULL,
    normalizer TEXT NOT NULL,
    text TEXT NOT NULL,
    media_type TEXT NOT NULL,
    title TEXT,
    language TEXT,
    author TEXT,
    created BIGINT,
    modified BIGINT,
    properties TEXT,
    warnings TEXT,
    PRIMARY KEY (id),
    CONSTRAINT contents_by_hash UNIQUE (hash, normalizer)
);

CREATE TABLE counters (
    name TEXT NOT NULL,
    value BIGINT NOT NULL,
    PRIMARY KEY (name)
){rows};

CREATE TABLE history (
    id {id} NOT NULL,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    event TEXT NOT NULL,
    source_id BIGINT,
    item_id BIGINT,
    job_id BIGINT,
    sync_id BIGINT,
    attempt INTEGER,
    reason TEXT,
    hash {blob} NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX history_by_item ON history (item_id);

CREATE TABLE sources (
    id {id} NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    priority TEXT NOT NULL,
    state TEXT NOT NULL,
    state_reason TEXT,
    root TEXT,
    seen_root TEXT,
    failures INTEGER DEFAULT '0' NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT state_is_known CHECK (state IN ('active', 'paused', 'held', 'removed')),
    UNIQUE (name)
);

CREATE TABLE chunks (
    id {id} NOT NULL,
    content_id {id} NOT NULL,
    start INTEGER NOT NULL,
    stop INTEGER NOT NULL,
    heading TEXT NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(content_id) REFERENCES contents (id)
);
CREATE INDEX chunks_by_content ON chunks (content_id);

CREATE TABLE entities (
    content_id {id} NOT NULL,
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    value TEXT NOT NULL,
    detail TEXT NOT NULL,
    start INTEGER NOT NULL,
    stop INTEGER NOT NULL,
    confidence FLOAT NOT NULL,
    PRIMARY KEY (content_id, position),
    FOREIGN KEY(content_id) REFERENCES contents (id)
){rows};

CREATE TABLE turns (
    source_id {id} NOT NULL,
    sync_id BIGINT NOT NULL,
    owner TEXT NOT NULL,
    at_once INTEGER NOT NULL,
    tag BIGINT NOT NULL,
    waits_since BIGINT,
    counts_until BIGINT,
    PRIMARY KEY (source_id),
    FOREIGN KEY(source_id) REFERENCES sources (id)
);

CREATE TABLE timeline (
    id INTEGER NOT NULL,
    boot TEXT NOT NULL,
    ahead BIGINT NOT NULL,
    wall_ahead BIGINT NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT only_one CHECK (id = 1)
);

CREATE TABLE buckets (
    {key} TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    at BIGINT NOT NULL,
    not_before BIGINT NOT NULL,
    allowed INTEGER,
    used INTEGER NOT NULL,
    until BIGINT,
    sure BOOLEAN NOT NULL,
    multiplier FLOAT NOT NULL,
    since BIGINT NOT NULL,
    answers INTEGER NOT NULL,
    slow INTEGER NOT NULL,
    throttled INTEGER NOT NULL,
    rate INTEGER NOT NULL,
    burst INTEGER NOT NULL,
    PRIMARY KEY ({key})
);

CREATE TABLE slots (
    id {id} NOT NULL,
    host TEXT NOT NULL,
    owner TEXT NOT NULL,
    at_once INTEGER NOT NULL,
    held BOOLEAN NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX slots_by_host ON slots (host);

CREATE TABLE breakers (
    {key} TEXT NOT NULL,
    failures INTEGER NOT NULL,
    opened BIGINT,
    locked BOOLEAN NOT NULL,
    prober TEXT,
    PRIMARY KEY ({key})
);

CREATE TABLE throttles (
    scope TEXT NOT NULL,
    rule TEXT NOT NULL,
    began INTEGER NOT NULL,
    hour BIGINT,
    changed_at BIGINT NOT NULL,
    PRIMARY KEY (scope)
);

CREATE TABLE moves (
    history_id {id} NOT NULL,
    item_id BIGINT NOT NULL,
    locator TEXT NOT NULL,
    PRIMARY KEY (history_id)
);
CREATE INDEX moves_by_item ON moves (item_id);

CREATE TABLE consents (
    source_id {id} NOT NULL,
    scope TEXT NOT NULL,
    wanted BOOLEAN NOT NULL,
    given_at BIGINT,
    given_by TEXT,
    expires_at BIGINT,
    withdrawn_at BIGINT,
    purged_at BIGINT,
    PRIMARY KEY (source_id, scope),
    FOREIGN KEY(source_id) REFERENCES sources (id)
){rows};

CREATE TABLE holds (
    id {id} NOT NULL,
    source_id {id} NOT NULL,
    sync_id BIGINT NOT NULL,
    number INTEGER NOT NULL,
    reason TEXT NOT NULL,
    held_at BIGINT NOT NULL,
    resolved_at BIGINT,
    resolution TEXT,
    PRIMARY KEY (id),
    FOREIGN KEY(source_id) REFERENCES sources (id)
);
CREATE UNIQUE INDEX holds_open ON holds (source_id) WHERE resolved_at IS NULL;

CREATE TABLE items (
    id {id} NOT NULL,
    source_id {id} NOT NULL,
    locator TEXT NOT NULL,
    container TEXT NOT NULL,
    version TEXT NOT NULL,
    identity TEXT,
    size BIGINT,
    modified BIGINT,
    attributes TEXT,
    state TEXT NOT NULL,
    content_hash TEXT,
    first_seen_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    gone_at BIGINT,
    sync_id BIGINT,
    PRIMARY KEY (id),
    CONSTRAINT state_is_known CHECK (state IN ('present', 'missing', 'deleted', 'kept')),
    FOREIGN KEY(source_id) REFERENCES sources (id)
);
CREATE INDEX items_by_container ON items (source_id, container, state);
CREATE INDEX items_by_identity ON items (source_id, identity) WHERE identity IS NOT NULL;
CREATE UNIQUE INDEX items_by_locator ON items (source_id, locator) WHERE state <> 'deleted';
CREATE INDEX items_deleted ON items (source_id, state, locator) WHERE state = 'deleted';
CREATE INDEX items_missing ON items (source_id, state, identity) WHERE state = 'missing';

CREATE TABLE links (
    content_id {id} NOT NULL,
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    target TEXT NOT NULL,
    anchor TEXT NOT NULL,
    label TEXT NOT NULL,
    start INTEGER NOT NULL,
    stop INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (content_id, position),
    FOREIGN KEY(content_id) REFERENCES contents (id)
){rows};
CREATE INDEX links_by_name ON links (name);

CREATE TABLE marks (
    source_id {id} NOT NULL,
    {key} TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (source_id, {key}),
    FOREIGN KEY(source_id) REFERENCES sources (id)
){rows};

CREATE TABLE syncs (
    id {id} NOT NULL,
    source_id {id} NOT NULL,
    run TEXT,
    owner TEXT NOT NULL,
    code_version TEXT NOT NULL,
    outcome TEXT,
    began_at BIGINT NOT NULL,
    expected_at BIGINT,
    ended_at BIGINT,
    summary TEXT,
    error TEXT,
    circumstances TEXT,
    PRIMARY KEY (id),
    FOREIGN KEY(source_id) REFERENCES sources (id)
);
CREATE INDEX syncs_by_source ON syncs (source_id, id);
CREATE UNIQUE INDEX syncs_open ON syncs (source_id) WHERE outcome IS NULL;

CREATE TABLE mails (
    content_id {id} NOT NULL,
    name BIGINT NOT NULL,
    base BIGINT,
    sent BIGINT,
    thread BIGINT NOT NULL,
    orphan BOOLEAN NOT NULL,
    PRIMARY KEY (content_id),
    FOREIGN KEY(content_id) REFERENCES contents (id)
);
CREATE INDEX mails_by_thread ON mails (thread);
CREATE INDEX mails_by_base ON mails (base, sent);
CREATE INDEX mails_orphaned ON mails (base) WHERE orphan;

CREATE TABLE mail_names (
    name BIGINT NOT NULL,
    content_id {id} NOT NULL,
    PRIMARY KEY (name, content_id),
    FOREIGN KEY(content_id) REFERENCES contents (id)
){rows};
CREATE INDEX mail_names_by_content ON mail_names (content_id);

CREATE TABLE documents (
    id {id} NOT NULL,
    item_id {id} NOT NULL,
    source_id {id} NOT NULL,
    content_id {id} NOT NULL,
    title TEXT NOT NULL,
    aliases TEXT NOT NULL,
    properties TEXT NOT NULL,
    path TEXT NOT NULL,
    modified BIGINT,
    metadata TEXT,
    removed_at BIGINT,
    PRIMARY KEY (id),
    FOREIGN KEY(content_id) REFERENCES contents (id),
    FOREIGN KEY(item_id) REFERENCES items (id),
    FOREIGN KEY(source_id) REFERENCES sources (id),
    UNIQUE (item_id)
);
CREATE INDEX documents_by_content ON documents (content_id);

CREATE TABLE formers (
    source_id {id} NOT NULL,
    path TEXT NOT NULL,
    sync_id BIGINT NOT NULL,
    content_id {id},
    title TEXT,
    aliases TEXT,
    properties TEXT,
    modified BIGINT,
    metadata TEXT,
    kept_at BIGINT NOT NULL,
    PRIMARY KEY (source_id, path, sync_id),
    FOREIGN KEY(content_id) REFERENCES contents (id),
    FOREIGN KEY(source_id) REFERENCES sources (id)
){rows};
CREATE INDEX formers_by_content ON formers (content_id) WHERE content_id IS NOT NULL;
CREATE INDEX documents_live ON documents (source_id, content_id) WHERE removed_at IS NULL;

CREATE TABLE jobs (
    id {id} NOT NULL,
    source_id {id} NOT NULL,
    item_id {id} NOT NULL,
    version TEXT NOT NULL,
    current BOOLEAN NOT NULL,
    state TEXT NOT NULL,
    reason TEXT,
    attempt INTEGER NOT NULL,
    due BIGINT NOT NULL,
    enqueued_at BIGINT NOT NULL,
    not_before BIGINT NOT NULL,
    token BIGINT,
    owner TEXT,
    lease_until BIGINT,
    failed_at BIGINT,
    finished_at BIGINT,
    error TEXT,
    sync_id BIGINT,
    PRIMARY KEY (id),
    CONSTRAINT state_is_known CHECK (state IN ('pending', 'running', 'retrying', 'succeeded', 'quarantined', 'skipped', 'cancelled', 'superseded')),
    FOREIGN KEY(item_id) REFERENCES items (id),
    FOREIGN KEY(source_id) REFERENCES sources (id)
);
CREATE INDEX jobs_by_item ON jobs (item_id);
CREATE UNIQUE INDEX jobs_current ON jobs (item_id) WHERE current;
CREATE INDEX jobs_fresh ON jobs (source_id, due, id) WHERE state = 'pending';
CREATE INDEX jobs_running ON jobs (token) WHERE state = 'running';
CREATE INDEX jobs_tried ON jobs (source_id, due, id) WHERE state = 'retrying';

CREATE TABLE quarantine (
    job_id {id} NOT NULL,
    reason TEXT NOT NULL,
    failure_class TEXT NOT NULL,
    error TEXT NOT NULL,
    message TEXT NOT NULL,
    traceback TEXT NOT NULL,
    retry_helps BOOLEAN NOT NULL,
    cluster TEXT NOT NULL,
    first_failed_at BIGINT NOT NULL,
    last_failed_at BIGINT NOT NULL,
    notes TEXT,
    run TEXT,
    resolved_at BIGINT,
    resolution TEXT,
    circumstances TEXT,
    PRIMARY KEY (job_id),
    FOREIGN KEY(job_id) REFERENCES jobs (id)
);
CREATE INDEX quarantine_open ON quarantine (cluster) WHERE resolved_at IS NULL;

CREATE VIEW chunk_text AS
    SELECT chunks.id, chunks.heading, substr(contents.text, chunks.start + 1, chunks.stop - chunks.start) AS text
    FROM chunks JOIN contents ON contents.id = chunks.content_id;

CREATE VIEW document_names AS SELECT id, title, aliases, path, properties FROM documents WHERE removed_at IS NULL;

-- sqlite: CREATE VIRTUAL TABLE chunk_index
-- sqlite:     USING fts5(heading, text, content = 'chunk_text', content_rowid = 'id',
-- sqlite:     tokenize = 'unicode61 remove_diacritics 2');
-- postgresql: CREATE TABLE chunk_index (id BIGINT PRIMARY KEY, words TSVECTOR NOT NULL);
-- postgresql: CREATE INDEX chunk_index_words ON chunk_index USING gin (words);

-- sqlite: CREATE VIRTUAL TABLE document_index
-- sqlite:     USING fts5(title, aliases, path, properties, content = 'document_names', content_rowid = 'id',
-- sqlite:     tokenize = 'unicode61 remove_diacritics 2');
-- postgresql: CREATE TABLE document_index (id BIGINT PRIMARY KEY, words TSVECTOR NOT NULL);
-- postgresql: CREATE INDEX document_index_words ON document_index USING gin (words);

-- sqlite: CREATE VIRTUAL TABLE chunk_pairs USING fts5(pairs, content = '', detail = none, tokenize = 'ascii');
-- postgresql: CREATE TABLE chunk_pairs (id BIGINT PRIMARY KEY, pairs TSVECTOR NOT NULL);
-- postgresql: CREATE INDEX chunk_pairs_pairs ON chunk_pairs USING gin (pairs);

-- sqlite: CREATE VIRTUAL TABLE document_pairs USING fts5(pairs, content = '', detail = none, tokenize = 'ascii');
-- postgresql: CREATE TABLE document_pairs (id BIGINT PRIMARY KEY, pairs TSVECTOR NOT NULL);
-- postgresql: CREATE INDEX document_pairs_pairs ON document_pairs USING gin (pairs);

-- sqlite: CREATE TRIGGER history_no_update BEFORE UPDATE ON history
-- sqlite:     BEGIN SELECT RAISE(ABORT, 'the history is append-only'); END;
-- postgresql: CREATE FUNCTION history_is_append_only() RETURNS trigger LANGUAGE plpgsql
-- postgresql:     AS $$ BEGIN RAISE EXCEPTION 'the history is append-only'; END $$;

-- sqlite: CREATE TRIGGER history_no_delete BEFORE DELETE ON history
-- sqlite:     BEGIN SELECT RAISE(ABORT, 'the history is append-only'); END;
-- postgresql: CREATE TRIGGER history_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON history
-- postgresql:     FOR EACH STATEMENT EXECUTE FUNCTION history_is_append_only();

INSERT INTO counters (name, value) VALUES ('sources', 0);
INSERT INTO counters (name, value) VALUES ('syncs', 0);
INSERT INTO counters (name, value) VALUES ('items', 0);
INSERT INTO counters (name, value) VALUES ('jobs', 0);
INSERT INTO counters (name, value) VALUES ('contents', 0);
INSERT INTO counters (name, value) VALUES ('chunks', 0);
INSERT INTO counters (name, value) VALUES ('documents', 0);
INSERT INTO counters (name, value) VALUES ('holds', 0);
INSERT INTO counters (name, value) VALUES ('token', 0);
INSERT INTO counters (name, value) VALUES ('slots', 0);
-- sqlite: INSERT INTO chain (id, length, hash) VALUES (1, 0, x'');
-- postgresql: INSERT INTO chain (id, length, hash) VALUES (1, 0, '');
