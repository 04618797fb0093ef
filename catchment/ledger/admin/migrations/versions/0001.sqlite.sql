CREATE TABLE chain (
    id INTEGER NOT NULL,
    length BIGINT NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT only_one CHECK (id = 1)
);

CREATE TABLE contents (
    id INTEGER NOT NULL,
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
) WITHOUT ROWID;

CREATE TABLE history (
    id INTEGER NOT NULL,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    event TEXT NOT NULL,
    source_id BIGINT,
    item_id BIGINT,
    job_id BIGINT,
    sync_id BIGINT,
    attempt INTEGER,
    reason TEXT,
    hash BLOB NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX history_by_item ON history (item_id);

CREATE TABLE sources (
    id INTEGER NOT NULL,
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
    id INTEGER NOT NULL,
    content_id INTEGER NOT NULL,
    start INTEGER NOT NULL,
    stop INTEGER NOT NULL,
    heading TEXT NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(content_id) REFERENCES contents (id)
);
CREATE INDEX chunks_by_content ON chunks (content_id);

CREATE TABLE entities (
    content_id INTEGER NOT NULL,
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    value TEXT NOT NULL,
    detail TEXT NOT NULL,
    start INTEGER NOT NULL,
    stop INTEGER NOT NULL,
    confidence FLOAT NOT NULL,
    PRIMARY KEY (content_id, position),
    FOREIGN KEY(content_id) REFERENCES contents (id)
) WITHOUT ROWID;

CREATE TABLE turns (
    source_id INTEGER NOT NULL,
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
    "key" TEXT NOT NULL,
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
    PRIMARY KEY ("key")
);

CREATE TABLE slots (
    id INTEGER NOT NULL,
    host TEXT NOT NULL,
    owner TEXT NOT NULL,
    at_once INTEGER NOT NULL,
    held BOOLEAN NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX slots_by_host ON slots (host);

CREATE TABLE breakers (
    "key" TEXT NOT NULL,
    failures INTEGER NOT NULL,
    opened BIGINT,
    locked BOOLEAN NOT NULL,
    prober TEXT,
    PRIMARY KEY ("key")
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
    history_id INTEGER NOT NULL,
    item_id BIGINT NOT NULL,
    locator TEXT NOT NULL,
    PRIMARY KEY (history_id)
);
CREATE INDEX moves_by_item ON moves (item_id);

CREATE TABLE consents (
    source_id INTEGER NOT NULL,
    scope TEXT NOT NULL,
    wanted BOOLEAN NOT NULL,
    given_at BIGINT,
    given_by TEXT,
    expires_at BIGINT,
    withdrawn_at BIGINT,
    purged_at BIGINT,
    PRIMARY KEY (source_id, scope),
    FOREIGN KEY(source_id) REFERENCES sources (id)
) WITHOUT ROWID;

CREATE TABLE holds (
    id INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
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
    id INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
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
    content_id INTEGER NOT NULL,
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
) WITHOUT ROWID;
CREATE INDEX links_by_name ON links (name);

CREATE TABLE marks (
    source_id INTEGER NOT NULL,
    "key" TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (source_id, "key"),
    FOREIGN KEY(source_id) REFERENCES sources (id)
) WITHOUT ROWID;

CREATE TABLE syncs (
    id INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
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
    content_id INTEGER NOT NULL,
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
    content_id INTEGER NOT NULL,
    PRIMARY KEY (name, content_id),
    FOREIGN KEY(content_id) REFERENCES contents (id)
) WITHOUT ROWID;
CREATE INDEX mail_names_by_content ON mail_names (content_id);

CREATE TABLE documents (
    id INTEGER NOT NULL,
    item_id INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    content_id INTEGER NOT NULL,
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
    source_id INTEGER NOT NULL,
    path TEXT NOT NULL,
    sync_id BIGINT NOT NULL,
    content_id INTEGER,
    title TEXT,
    aliases TEXT,
    properties TEXT,
    modified BIGINT,
    metadata TEXT,
    kept_at BIGINT NOT NULL,
    PRIMARY KEY (source_id, path, sync_id),
    FOREIGN KEY(content_id) REFERENCES contents (id),
    FOREIGN KEY(source_id) REFERENCES sources (id)
) WITHOUT ROWID;
CREATE INDEX formers_by_content ON formers (content_id) WHERE content_id IS NOT NULL;
CREATE INDEX documents_live ON documents (source_id, content_id) WHERE removed_at IS NULL;

CREATE TABLE jobs (
    id INTEGER NOT NULL,
    source_id INTEGER NOT NULL,
    item_id INTEGER NOT NULL,
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
    job_id INTEGER NOT NULL,
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

CREATE VIRTUAL TABLE chunk_index
    USING fts5(heading, text, content = 'chunk_text', content_rowid = 'id',
    tokenize = 'unicode61 remove_diacritics 2');

CREATE VIRTUAL TABLE document_index
    USING fts5(title, aliases, path, properties, content = 'document_names', content_rowid = 'id',
    tokenize = 'unicode61 remove_diacritics 2');

CREATE VIRTUAL TABLE chunk_pairs USING fts5(pairs, content = '', detail = none, tokenize = 'ascii');

CREATE VIRTUAL TABLE document_pairs USING fts5(pairs, content = '', detail = none, tokenize = 'ascii');

CREATE TRIGGER history_no_update BEFORE UPDATE ON history
    BEGIN SELECT RAISE(ABORT, 'the history is append-only'); END;

CREATE TRIGGER history_no_delete BEFORE DELETE ON history
    BEGIN SELECT RAISE(ABORT, 'the history is append-only'); END;

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
INSERT INTO chain (id, length, hash) VALUES (1, 0, x'');
