"""`tailrace demo`: the feature-label join on data of its own, checked against a brute-force answer.

`data` makes the streams, `query` joins them in a local Spark, `progress` reads what Spark reports of each
micro-batch, `oracle` computes and compares the right answer, `summary` sums up, `chart` and `page` show it,
and `run` calls them in that order.
"""
