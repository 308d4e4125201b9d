"""The watermark server: a table of how far each host's log has been read, and the low watermarks of it.

Files import downwards alone, from `run`, which starts the process:

    run                 address, token and store as the command line gives them; uvicorn
    api, guard          routes of the protocol; who may ask, and how much at once
    page, sections, chart, drawing, api_page, metrics      what people and Prometheus see
    views               an application as the API, the page and the metrics show it
    worker              one thread owns state and database; reports that wait together share a commit
    ledger              what a report, an override and a reader do, as transactions
    store, schema       the state of an application in a database
    opening, sqlite, postgresql, database        SQLite or PostgreSQL
    state, hosts        the same state in memory
    protocol            the JSON of the API
    topology, rules, wording     pure: low watermarks along a graph, the completeness rule, times for people

`overview` is the other end: what `tailrace watermarks` asks a server and prints. Nothing here imports Spark.
"""
