"""`tailrace demo`: the feature-label join on data of its own, checked against a brute-force answer.

`data` makes the streams, `query` joins them in a local Spark, `progress` reads what Spark reports of each
micro-batch, `oracle` computes the right answer by brute force and compares, `chart` draws, `summary` has the
numbers and the page, and `run` calls them in that order. `watermark` is `tailrace demo-watermark`.
"""
