"""The watermark server: a table of how far each host's log has been read, and the low watermarks of it.

Files import downwards alone, from `run`, which starts the process:

    run, store_url      address, tokens and store as the command line gives them; uvicorn
    connections, handshake      how many there are, and how long each may take
    api, parsing, guard, tokens routes of the protocol; who may ask, and how much at once
    page, sections, chart, drawing, api_page, metrics      what people and Prometheus see
    views               an application as the API, the page and the metrics show it
    worker              one thread owns state and database; reports that wait together share a commit
    reading             all that only reads, in another thread and on another connection
    ledger, apart       what a report, an override and a reader do, as transactions
    intake, identity, room      a report: what it makes of the state, whether its query may send it, and
                        whether there is room for it
    decisions, answering        a person's decision; what a client is told
    store, loading, records     the state of an application in a database
    opening, migration, schema, sqlite, postgresql, database        SQLite or PostgreSQL
    journal             what is written of a change; the store does it
    state, reporter     the same state in memory: operators, and what each query has told of them
    hosts, union, counted       hosts of a query, of several, and as the completeness rule sees them
    protocol, answers   the JSON of the API
    topology, rules, names, clock, wording     pure: low watermarks along a graph, the completeness rule,
                        names on the wire, times

`overview` is the other end: what `tailrace watermarks` asks a server and prints. Nothing here imports Spark.
"""
