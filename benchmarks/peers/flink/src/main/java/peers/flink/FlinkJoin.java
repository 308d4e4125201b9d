package peers.flink;

import org.apache.flink.api.common.eventtime.*;
import org.apache.flink.api.common.functions.*;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.api.java.tuple.*;
import org.apache.flink.configuration.*;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.co.*;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.api.*;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;
import peers.*;
import java.time.*;
import java.util.*;

/** usage: FlinkJoin MODE rocksdb|heap FLAT.bin OUT.csv|- WORKDIR [flink.option=value ...]
 *  MODE: group     KeyedCoProcessFunction, both sides in ListState, the group is emitted at window expiry
 *        groupmap  the same on MapState keyed by event time (what Flink's own IntervalJoinOperator uses)
 *        interval  DataStream intervalJoin: inner, one row a pair, not grouped
 *        sql       SQL LEFT interval join: one row a pair or one null row, not grouped
 *        pipe      no join: source, key shuffle, count (the floor)
 *  group, groupmap, pipe run unbounded and end at the last input consumed; interval, sql run bounded (the end of input flushes the tail). */
public final class FlinkJoin {
    static final long W = Flat.WINDOW;
    static final TypeInformation<Tuple4<Byte, Long, Long, byte[]>> REC = new TypeHint<Tuple4<Byte, Long, Long, byte[]>>() {}.getTypeInfo();
    static final TypeInformation<Tuple2<Long, byte[]>> TV = new TypeHint<Tuple2<Long, byte[]>>() {}.getTypeInfo();
    /** key, lts, lv, labels */
    static final TypeInformation<Tuple4<Long, Long, byte[], List<byte[]>>> OUT =
        Types.TUPLE(Types.LONG, Types.LONG, PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO, Types.LIST(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));

    public static void main(String[] a) throws Exception {
        String mode = a[0], backend = a[1], path = a[2], csv = a[3], work = a[4];
        Configuration c = new Configuration();
        Map<String, String> o = new LinkedHashMap<>();
        o.put("state.backend.type", backend.equals("heap") ? "hashmap" : "rocksdb");
        o.put("execution.checkpointing.interval", "10 s");
        o.put("execution.checkpointing.incremental", "true");
        o.put("execution.checkpointing.storage", "filesystem");
        o.put("execution.checkpointing.dir", "file://" + work + "/ckpt");
        o.put("state.backend.rocksdb.localdir", work + "/db");
        o.put("io.tmp.dirs", work + "/tmp");
        o.put("pipeline.object-reuse", "true");
        o.put("taskmanager.numberOfTaskSlots", "2");
        o.put("taskmanager.memory.managed.size", "1g");      // RocksDB block cache + memtables: 512 MiB a slot
        o.put("taskmanager.memory.network.max", "256m");
        o.put("restart-strategy.type", "none");
        for (int i = 5; i < a.length; i++) { String[] kv = a[i].split("=", 2); o.put(kv[0], kv[1]); }
        o.forEach(c::setString);
        Stats.open(csv);
        org.apache.flink.core.fs.FileSystem.initialize(c, null);
        boolean bounded = mode.equals("interval") || mode.equals("sql");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, c);
        var src = env.fromSource(new FlatSource(path, bounded), WatermarkStrategy.noWatermarks(), "flat", REC);
        var wm = WatermarkStrategy.<Tuple4<Byte, Long, Long, byte[]>>forBoundedOutOfOrderness(Duration.ofMillis(Flat.DELAY)).withTimestampAssigner((r, t) -> r.f2);
        var left = src.filter(r -> r.f0 == 0).assignTimestampsAndWatermarks(wm);
        var right = src.filter(r -> r.f0 == 1).assignTimestampsAndWatermarks(wm);
        var kl = left.keyBy(r -> r.f1, Types.LONG); var kr = right.keyBy(r -> r.f1, Types.LONG);
        switch (mode) {
            case "group" -> sink(kl.connect(kr).process(new GroupList(), OUT));
            case "groupmap" -> sink(kl.connect(kr).process(new GroupMap(), OUT));
            case "pipe" -> sink(kl.connect(kr).process(new Pipe(), OUT));
            case "interval" -> sink(kl.intervalJoin(kr).between(Duration.ZERO, Duration.ofMillis(W)).process(new Pair(), OUT));
            case "sql" -> sql(env, left, right);
            default -> throw new IllegalArgumentException(mode);
        }
        Stats.Dirs dirs = new Stats.Dirs("rocksdb", work + "/db", "ckpt", work + "/ckpt");
        long total = new Flat(path, 0, 1).count, start = Stats.start("-");
        JobClient job = env.executeAsync(mode);
        if (bounded) {
            job.getJobExecutionResult().get();
            Stats.in.add(total); if (Stats.firstIn == 0) Stats.firstIn = start; Stats.watermark.set(Long.MAX_VALUE);
            Stats.finish("flink-" + mode + "-" + backend, start, System.nanoTime(), dirs, "-");
        } else {
            var res = job.getJobExecutionResult();
            long limit = start + Long.getLong("limit.seconds", 86_400) * 1_000_000_000L;
            while (System.nanoTime() < limit && (Stats.in.sum() < total || System.nanoTime() - Stats.lastWork < 2_000_000_000L)) {
                if (res.isDone()) res.get();                 // failed
                Thread.sleep(50);
            }
            Stats.finish("flink-" + mode + "-" + backend, start, Stats.lastWork, dirs, "-");
            job.cancel().get();
        }
        System.exit(0);
    }
    static void sink(DataStream<Tuple4<Long, Long, byte[], List<byte[]>>> s) {
        s.filter(r -> { Stats.emit(r.f0, r.f1, r.f2, r.f3); return false; }).sinkTo(new DiscardingSink<>());
    }

    /** Both sides in ListState (an append is a RocksDB merge, no read); matched at expiry of the left record. */
    static final class GroupList extends KeyedCoProcessFunction<Long, Tuple4<Byte, Long, Long, byte[]>, Tuple4<Byte, Long, Long, byte[]>, Tuple4<Long, Long, byte[], List<byte[]>>> {
        private transient ListState<Tuple2<Long, byte[]>> left, right;
        @Override public void open(org.apache.flink.api.common.functions.OpenContext x) {
            left = getRuntimeContext().getListState(new ListStateDescriptor<>("left", TV));
            right = getRuntimeContext().getListState(new ListStateDescriptor<>("right", TV));
        }
        @Override public void processElement1(Tuple4<Byte, Long, Long, byte[]> r, Context x, Collector<Tuple4<Long, Long, byte[], List<byte[]>>> o) throws Exception { add(left, r, x); }
        @Override public void processElement2(Tuple4<Byte, Long, Long, byte[]> r, Context x, Collector<Tuple4<Long, Long, byte[], List<byte[]>>> o) throws Exception { add(right, r, x); }
        /** A left record closes, and a right record is of no more use, when event time passes its own time + W. */
        private void add(ListState<Tuple2<Long, byte[]>> s, Tuple4<Byte, Long, Long, byte[]> r, Context x) throws Exception {
            if (r.f2 + W <= x.timerService().currentWatermark()) Stats.late.increment();
            else { s.add(Tuple2.of(r.f2, r.f3)); x.timerService().registerEventTimeTimer(r.f2 + W); }
            Stats.consumed();
        }
        @Override public void onTimer(long t, OnTimerContext x, Collector<Tuple4<Long, Long, byte[], List<byte[]>>> o) throws Exception {
            Stats.watermark.accumulateAndGet(x.timerService().currentWatermark(), Math::max);
            long lts = t - W;
            List<Tuple2<Long, byte[]>> rs = get(right);
            List<Tuple2<Long, byte[]>> ls = get(left), keepL = new ArrayList<>(ls.size());
            for (Tuple2<Long, byte[]> l : ls) {
                if (l.f0 > lts) { keepL.add(l); continue; }
                List<byte[]> labels = new ArrayList<>(2);
                for (Tuple2<Long, byte[]> r : rs) if (r.f0 >= l.f0 && r.f0 <= l.f0 + W) labels.add(r.f1);
                o.collect(Tuple4.of(x.getCurrentKey(), l.f0, l.f1, labels));
            }
            put(left, ls, keepL);
            List<Tuple2<Long, byte[]>> keepR = new ArrayList<>(rs.size());
            for (Tuple2<Long, byte[]> r : rs) if (r.f0 > lts) keepR.add(r);
            put(right, rs, keepR);
        }
        private static List<Tuple2<Long, byte[]>> get(ListState<Tuple2<Long, byte[]>> s) throws Exception {
            Iterable<Tuple2<Long, byte[]>> it = s.get();
            if (it == null) return List.of();
            if (it instanceof List<Tuple2<Long, byte[]>> l) return l;
            List<Tuple2<Long, byte[]>> l = new ArrayList<>(); it.forEach(l::add); return l;
        }
        private static void put(ListState<Tuple2<Long, byte[]>> s, List<Tuple2<Long, byte[]>> was, List<Tuple2<Long, byte[]>> keep) throws Exception {
            if (keep.size() == was.size()) return;
            if (keep.isEmpty()) s.clear(); else s.update(keep);
        }
    }

    /** The same on MapState<event time, list of values>. */
    static final class GroupMap extends KeyedCoProcessFunction<Long, Tuple4<Byte, Long, Long, byte[]>, Tuple4<Byte, Long, Long, byte[]>, Tuple4<Long, Long, byte[], List<byte[]>>> {
        private transient MapState<Long, List<byte[]>> left, right;
        @Override public void open(org.apache.flink.api.common.functions.OpenContext x) {
            var v = Types.LIST(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);
            left = getRuntimeContext().getMapState(new MapStateDescriptor<>("left", Types.LONG, v));
            right = getRuntimeContext().getMapState(new MapStateDescriptor<>("right", Types.LONG, v));
        }
        @Override public void processElement1(Tuple4<Byte, Long, Long, byte[]> r, Context x, Collector<Tuple4<Long, Long, byte[], List<byte[]>>> o) throws Exception { add(left, r, x); }
        @Override public void processElement2(Tuple4<Byte, Long, Long, byte[]> r, Context x, Collector<Tuple4<Long, Long, byte[], List<byte[]>>> o) throws Exception { add(right, r, x); }
        private void add(MapState<Long, List<byte[]>> s, Tuple4<Byte, Long, Long, byte[]> r, Context x) throws Exception {
            if (r.f2 + W <= x.timerService().currentWatermark()) Stats.late.increment();
            else {
                List<byte[]> l = s.get(r.f2);
                if (l == null) l = new ArrayList<>(1);
                l.add(r.f3); s.put(r.f2, l);
                x.timerService().registerEventTimeTimer(r.f2 + W);
            }
            Stats.consumed();
        }
        @Override public void onTimer(long t, OnTimerContext x, Collector<Tuple4<Long, Long, byte[], List<byte[]>>> o) throws Exception {
            Stats.watermark.accumulateAndGet(x.timerService().currentWatermark(), Math::max);
            long lts = t - W;
            List<byte[]> ls = left.get(lts);
            if (ls != null) {
                List<byte[]> labels = new ArrayList<>(2);
                for (Map.Entry<Long, List<byte[]>> r : right.entries()) if (r.getKey() >= lts && r.getKey() <= t) labels.addAll(r.getValue());
                for (byte[] l : ls) o.collect(Tuple4.of(x.getCurrentKey(), lts, l, labels));
                left.remove(lts);
            }
            right.remove(lts);
        }
    }

    static final class Pair extends ProcessJoinFunction<Tuple4<Byte, Long, Long, byte[]>, Tuple4<Byte, Long, Long, byte[]>, Tuple4<Long, Long, byte[], List<byte[]>>> {
        @Override public void processElement(Tuple4<Byte, Long, Long, byte[]> l, Tuple4<Byte, Long, Long, byte[]> r, Context x, Collector<Tuple4<Long, Long, byte[], List<byte[]>>> o) {
            o.collect(Tuple4.of(l.f1, l.f2, l.f3, List.of(r.f3)));
        }
    }
    static final class Pipe extends CoProcessFunction<Tuple4<Byte, Long, Long, byte[]>, Tuple4<Byte, Long, Long, byte[]>, Tuple4<Long, Long, byte[], List<byte[]>>> {
        @Override public void processElement1(Tuple4<Byte, Long, Long, byte[]> r, Context x, Collector<Tuple4<Long, Long, byte[], List<byte[]>>> o) { Stats.consumed(); }
        @Override public void processElement2(Tuple4<Byte, Long, Long, byte[]> r, Context x, Collector<Tuple4<Long, Long, byte[], List<byte[]>>> o) { Stats.consumed(); }
    }

    static void sql(StreamExecutionEnvironment env, DataStream<Tuple4<Byte, Long, Long, byte[]>> left, DataStream<Tuple4<Byte, Long, Long, byte[]>> right) {
        StreamTableEnvironment t = StreamTableEnvironment.create(env);
        Schema s = Schema.newBuilder().column("f1", DataTypes.BIGINT()).column("f3", DataTypes.BYTES())
            .columnByMetadata("ts", DataTypes.TIMESTAMP_LTZ(3), "rowtime", false).watermark("ts", "SOURCE_WATERMARK()").build();
        t.createTemporaryView("L", left, s); t.createTemporaryView("R", right, s);
        Table j = t.sqlQuery("SELECT L.f1, CAST(L.ts AS TIMESTAMP_LTZ(3)) AS lts, L.f3 AS lv, R.f3 AS rv FROM L LEFT JOIN R ON L.f1 = R.f1 AND R.ts BETWEEN L.ts AND L.ts + INTERVAL '30' MINUTE");
        DataStream<Row> d = t.toDataStream(j);
        d.filter(r -> {
            byte[] rv = (byte[]) r.getField(3);
            Stats.emit((Long) r.getField(0), ((Instant) r.getField(1)).toEpochMilli(), (byte[]) r.getField(2), rv == null ? List.of() : List.of(rv));
            return false;
        }).sinkTo(new DiscardingSink<>());
    }
}
