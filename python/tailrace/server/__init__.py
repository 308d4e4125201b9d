"""The watermark server: it stores the progress of each host's log, and computes the low watermarks.

A file imports from its own layer and from the layers below it. `run` starts the process:

    run                             the process: address, TLS, uvicorn
    page, sections, choice, charts  the page for people, and each person's choice of what to see
    metrics, health                 metrics for Prometheus; liveness and readiness of the process
    api, parsing, guard, tokens     routes; parsing of reports; checks of requests and their rights
    connections                     their number and their time limits
    prefix, logs                    the path below which a proxy shows the server; the log of requests
    views, hostpages                an application and its hosts as the API, the page and metrics show them
    consequences                    the consequences of a person's decision, in words
    worker, reading                 the thread that owns state and database; the thread that only reads
    ledger, apart                   reports, decisions and reads as transactions
    intake, identity, room          acceptance of a report: checks, permitted reporters, limits
    decisions, answering            a person's decision; the answer to a report
    store, loading, records         the state of an application in a database
    opening, schema, sqlite, postgresql, database       the store's URL, its tables, SQLite and PostgreSQL
    journal                         the writes of a change, as an interface
    state, reporter, hosts, counted the same state in memory: operators, clients, hosts
    protocol, answers               the JSON of requests and answers
    reporters                       queries that report an operator, in words
    topology, rules, names, times   pure: low watermarks along a graph, the completeness rule, names, times

`overview` is the client of `tailrace watermarks`; `failover` asks one of several servers for it. Nothing here
imports Spark.
"""
