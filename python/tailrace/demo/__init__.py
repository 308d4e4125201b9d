"""`tailrace demo`: the feature-label join on data of its own, checked against a brute-force answer.

`data` makes the streams. `query` joins them in a local Spark, in a process of its own (`worker`), which
`process` starts and kills. `progress` reads what Spark reports of each micro-batch. `oracle` computes the
right answer by brute force and compares. `comparison` has the numbers of Spark's own join, `chart` draws,
`summary` has the numbers and the page, and `run` calls them in that order.
`watermark` is `tailrace demo-watermark`.
"""
