"""The watermark server: it keeps how far each host's log has been read, and computes the low watermarks.

A file imports from its own layer and from the layers below it. `run` starts the process:

    run                             the process: address, TLS, uvicorn
    page, sections, choice, charts  what people see, and what each of them has chosen to see
    metrics, health                 what Prometheus sees; whether the process is well and ready
    api, parsing, guard, tokens     routes; parsing of reports; checks of requests and their rights
    connections                     how many there are, and how long each may take
    prefix, logs                    the path below which a proxy shows the server; the log of requests
    views, hostpages                an application and its hosts as the API, the page and metrics show them
    consequences                    what a person's decision would change, in words
    worker, reading                 the thread that owns state and database; the thread that only reads
    ledger, apart                   reports, decisions and reads as transactions
    intake, identity, room          takes in a report: checks, who may report, limits
    decisions, answering            a person's decision; the answer to a report
    store, loading, records         the state of an application in a database
    opening, schema, sqlite, postgresql, database       the store's URL, its tables, SQLite and PostgreSQL
    journal                         what is written of a change, as an interface
    state, reporter, hosts, counted the same state in memory: operators, clients, hosts
    protocol, answers               the JSON of requests and answers
    reporters                       queries that report an operator, in words
    topology, rules, names, times   pure: low watermarks along a graph, the completeness rule, names, times

`overview` is the client of `tailrace watermarks`; `failover` asks one of several servers for it. Nothing here
imports Spark.
"""
