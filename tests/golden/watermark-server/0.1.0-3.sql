BEGIN TRANSACTION;
CREATE TABLE app (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        version BIGINT NOT NULL,
        told BIGINT,
        reported_at BIGINT NOT NULL,
        cleared BIGINT NOT NULL DEFAULT 0 -- of clients, operators and reporters
    );
INSERT INTO "app" VALUES(1,'app',1763700000000008,NULL,1763700010000000,0);
CREATE TABLE audit (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        app_id BIGINT NOT NULL,
        at BIGINT NOT NULL,
        action TEXT NOT NULL,
        operator TEXT NOT NULL, -- '' for the whole application
        advance_to BIGINT,
        host TEXT, -- or the client
        name TEXT NOT NULL,
        reason TEXT NOT NULL
    );
INSERT INTO "audit" VALUES(1,1,1763700010000000,'exclude','source',NULL,'lost','dana','a test');
INSERT INTO "audit" VALUES(2,1,1763700010000000,'advance','views',1763700030000000,NULL,'dana','a test');
CREATE TABLE client (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        app_id BIGINT NOT NULL,
        name TEXT NOT NULL,
        version BIGINT NOT NULL,
        run TEXT NOT NULL,
        heard_at BIGINT NOT NULL,
        leaving SMALLINT NOT NULL,
        told BIGINT,
        took TEXT NOT NULL DEFAULT '[]', -- a JSON array: clients whose place it has taken
        query TEXT NOT NULL DEFAULT '', -- what its user calls it
        UNIQUE (app_id, name)
    );
INSERT INTO "client" VALUES(1,1,'one',1763700000000002,'1',1763700000000000,0,NULL,'[]','');
INSERT INTO "client" VALUES(2,1,'two',1763700000000004,'1',1763700010000000,0,NULL,'[]','');
INSERT INTO "client" VALUES(3,1,'gone',1763700000000005,'1',1763700010000000,1,NULL,'[]','');
INSERT INTO "client" VALUES(4,1,'three',1763700000000006,'1',1763700010000000,0,NULL,'[]','nightly');
CREATE TABLE closed_window (
        operator_id BIGINT NOT NULL,
        start_at BIGINT NOT NULL,
        end_at BIGINT NOT NULL,
        late_rows BIGINT NOT NULL,
        passed BIGINT NOT NULL,
        expected BIGINT NOT NULL,
        missing TEXT NOT NULL, -- JSON: [{"host": ..., "progress": ...}]
        PRIMARY KEY (operator_id, end_at, start_at)
    ) WITHOUT ROWID;
CREATE TABLE excluded_host (
        operator_id BIGINT NOT NULL,
        name TEXT NOT NULL,
        PRIMARY KEY (operator_id, name)
    ) WITHOUT ROWID;
INSERT INTO "excluded_host" VALUES(1,'lost');
CREATE TABLE format (version BIGINT NOT NULL);
INSERT INTO "format" VALUES(5);
CREATE TABLE former_run (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        client_id BIGINT NOT NULL,
        run TEXT NOT NULL,
        UNIQUE (client_id, run)
    );
CREATE TABLE history (
        app_id BIGINT NOT NULL,
        at BIGINT NOT NULL,
        operator TEXT NOT NULL, -- '' for the global low watermark
        low_watermark BIGINT NOT NULL,
        PRIMARY KEY (app_id, at, operator)
    ) WITHOUT ROWID;
INSERT INTO "history" VALUES(1,1763700010000000,'views',1763700060000000);
CREATE TABLE host (
        reporter_id BIGINT NOT NULL,
        name TEXT NOT NULL,
        progress BIGINT NOT NULL, -- times.NEVER: never seen
        rostered SMALLINT NOT NULL,
        version BIGINT NOT NULL,
        risen BIGINT NOT NULL, -- reporter.active when it rose last; -1: of format 2
        PRIMARY KEY (reporter_id, name)
    ) WITHOUT ROWID;
INSERT INTO "host" VALUES(1,'host-0',1763700000000000,1,1763700000000001,0);
INSERT INTO "host" VALUES(1,'host-1',1763700001000000,1,1763700000000001,0);
INSERT INTO "host" VALUES(1,'host-2',1763700002000000,1,1763700000000001,0);
INSERT INTO "host" VALUES(1,'host-3',1763700003000000,1,1763700000000001,0);
INSERT INTO "host" VALUES(1,'host-4',1763700004000000,1,1763700000000001,0);
INSERT INTO "host" VALUES(1,'late',-9007199254740992,1,1763700000000001,0);
INSERT INTO "host" VALUES(1,'lost',-9007199254740992,1,1763700000000001,0);
INSERT INTO "host" VALUES(3,'b-1',1763700120000000,0,1763700000000004,10000000);
INSERT INTO "host" VALUES(3,'b-2',1763700000000000,0,1763700000000004,10000000);
INSERT INTO "host" VALUES(5,'x',-60000000,1,1763700000000006,0);
INSERT INTO "host" VALUES(5,'y',-1000000,1,1763700000000006,0);
INSERT INTO "host" VALUES(5,'z',-9007199254740992,1,1763700000000006,0);
CREATE TABLE key_group (
        reporter_id BIGINT NOT NULL,
        name TEXT NOT NULL,
        low_watermark BIGINT NOT NULL, -- times.EARLIEST: none
        version BIGINT NOT NULL,
        PRIMARY KEY (reporter_id, name)
    ) WITHOUT ROWID;
INSERT INTO "key_group" VALUES(2,'0',1763700000000000,1763700000000002);
INSERT INTO "key_group" VALUES(2,'1',1763700001000000,1763700000000002);
INSERT INTO "key_group" VALUES(4,'0',1763700060000000,1763700000000005);
INSERT INTO "key_group" VALUES(6,'0',-60000000,1763700000000006);
CREATE TABLE operator (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        app_id BIGINT NOT NULL,
        name TEXT NOT NULL,
        version BIGINT NOT NULL,
        kind TEXT NOT NULL,
        upstreams TEXT NOT NULL, -- a JSON array: of a removed one, what it read from
        advanced_to BIGINT,
        told_input BIGINT,
        told_output BIGINT,
        removed SMALLINT NOT NULL,
        UNIQUE (app_id, name)
    );
INSERT INTO "operator" VALUES(1,1,'source',1763700000000007,'source','[]',NULL,NULL,1763700000000000,0);
INSERT INTO "operator" VALUES(2,1,'sink',1763700000000007,'sink','[]',NULL,1763700000000000,1763700000000000,0);
INSERT INTO "operator" VALUES(3,1,'views',1763700000000008,'source','[]',1763700030000000,NULL,1763700060000000,0);
INSERT INTO "operator" VALUES(4,1,'old',1763700000000005,'sink','[]',NULL,1763700060000000,1763700060000000,0);
INSERT INTO "operator" VALUES(5,1,'archive',1763700000000006,'source','[]',NULL,NULL,NULL,0);
INSERT INTO "operator" VALUES(6,1,'nights',1763700000000006,'sink','[]',NULL,NULL,NULL,0);
CREATE TABLE reporter (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        app_id BIGINT NOT NULL,
        operator_id BIGINT NOT NULL,
        client_id BIGINT NOT NULL,
        version BIGINT NOT NULL,
        cleared BIGINT NOT NULL, -- of hosts and key groups
        upstreams TEXT NOT NULL, -- a JSON array
        completeness TEXT NOT NULL,
        idle_after BIGINT,
        key_groups BIGINT, -- NULL: its client doesn't say; -1: of format 2, and not reported since
        reads TEXT, -- a JSON array; NULL: unknown
        reported_at BIGINT NOT NULL,
        stamps BIGINT,
        told_input BIGINT,
        told_output BIGINT,
        roster_stated SMALLINT NOT NULL,
        roster_version TEXT NOT NULL,
        roster_wanted TEXT NOT NULL,
        has_roster SMALLINT NOT NULL,
        active BIGINT NOT NULL,
        overflowed BIGINT,
        warnings TEXT NOT NULL, -- a JSON array
        label TEXT NOT NULL DEFAULT '', -- empty: its client has never said
        logs TEXT NOT NULL DEFAULT '', -- empty: they are its own
        batches BIGINT, -- micro-batches that it includes; NULL: its client doesn't say
        begun SMALLINT NOT NULL DEFAULT 1, -- whether this run has said so
        had BIGINT, -- how many it had included when it went back; NULL: it hasn't, or has caught up
        UNIQUE (operator_id, client_id)
    );
INSERT INTO "reporter" VALUES(1,1,1,1,1763700000000001,1763700000000001,'[]','0.8',NULL,NULL,'["topic:clicks"]',1763700000000000,NULL,NULL,NULL,1,'','',1,0,NULL,'[]','','',NULL,1,NULL);
INSERT INTO "reporter" VALUES(2,1,2,1,1763700000000002,1763700000000002,'["source"]','1',NULL,2,NULL,1763700000000000,NULL,NULL,NULL,0,'','',0,0,NULL,'[]','','',NULL,1,NULL);
INSERT INTO "reporter" VALUES(3,1,3,2,1763700000000004,1763700000000003,'[]','1',60000000,NULL,'["topic:views"]',1763700010000000,NULL,1763700060000000,1763700060000000,0,'','',0,10000000,NULL,'[]','source views (files)','',NULL,1,NULL);
INSERT INTO "reporter" VALUES(4,1,4,3,1763700000000005,1763700000000005,'["views"]','1',NULL,NULL,NULL,1763700010000000,NULL,1763700000000000,1763700000000000,0,'','',0,0,NULL,'[]','','',NULL,1,NULL);
INSERT INTO "reporter" VALUES(5,1,5,4,1763700000000006,1763700000000006,'[]','1',NULL,NULL,NULL,1763700010000000,NULL,NULL,NULL,1,'','',1,0,NULL,'[]','','web',7,1,NULL);
INSERT INTO "reporter" VALUES(6,1,6,4,1763700000000006,1763700000000006,'["archive"]','1',NULL,1,NULL,1763700010000000,NULL,NULL,NULL,0,'','',0,0,NULL,'[]','','',7,1,NULL);
CREATE TABLE store (name TEXT NOT NULL);
CREATE INDEX reporter_of_app ON reporter (app_id, version);
CREATE INDEX audit_of_app ON audit (app_id, id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('app',1);
INSERT INTO "sqlite_sequence" VALUES('client',4);
INSERT INTO "sqlite_sequence" VALUES('operator',6);
INSERT INTO "sqlite_sequence" VALUES('reporter',6);
INSERT INTO "sqlite_sequence" VALUES('audit',2);
COMMIT;
