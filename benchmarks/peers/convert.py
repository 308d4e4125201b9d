"""Parquet workload -> one flat arrival-ordered file: L slice 0, R slice 0, L slice 1, ...
Record, 117 bytes little endian: u1 side (0 left, 1 right) | i8 key | i8 ts (ms) | 100 bytes value.
usage: convert.py DATA_DIR OUT.bin"""

import glob, sys
import numpy as np, pyarrow.parquet as pq

REC = np.dtype([("side", "u1"), ("key", "<i8"), ("ts", "<i8"), ("value", "V100")])
data, out = sys.argv[1:]
n = 0
with open(out, "wb") as f:
    for lf, rf in zip(
        sorted(glob.glob(f"{data}/left/*.parquet")), sorted(glob.glob(f"{data}/right/*.parquet"))
    ):
        for side, p in ((0, lf), (1, rf)):
            t = pq.read_table(p).combine_chunks()
            a = np.zeros(len(t), REC)
            if len(t):
                a["side"] = side
                a["key"] = t["key"].to_numpy()
                a["ts"] = t["ts"].cast("int64").to_numpy() // 1000
                a["value"] = np.frombuffer(b"".join(t["value"].to_pylist()), "V100")
            f.write(a.tobytes())
            n += len(t)
print(out, n, "records")
