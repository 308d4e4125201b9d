package peers.flink;

import java.io.BufferedWriter;
import java.io.FileWriter;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.atomic.LongAdder;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import peers.Flat;

/**
 * Flink's event-time temporal join on RocksDB, on a flat file of `convert.py`: each left row with the newest right row of its key.
 *
 * <p>usage: TemporalJoin FLAT.bin OUT.csv|- WORKDIR
 */
public final class TemporalJoin {
    private static final LongAdder OUT = new LongAdder();
    private static final LongAdder FOUND = new LongAdder();
    private static PrintWriter csv;

    public static void main(String[] arguments) throws Exception {
        String path = arguments[0];
        String work = arguments[2];
        if (!arguments[1].equals("-")) csv = new PrintWriter(new BufferedWriter(new FileWriter(arguments[1])));
        Configuration options = new Configuration();
        options.setString("state.backend.type", "rocksdb");
        options.setString("state.backend.rocksdb.localdir", work + "/db");
        options.setString("execution.checkpointing.interval", "10 s");
        options.setString("execution.checkpointing.incremental", "true");
        options.setString("execution.checkpointing.storage", "filesystem");
        options.setString("execution.checkpointing.dir", "file://" + work + "/checkpoints");
        options.setString("io.tmp.dirs", work + "/tmp");
        options.setString("pipeline.object-reuse", "true");
        options.setString("taskmanager.numberOfTaskSlots", "2");
        options.setString("taskmanager.memory.managed.size", "1g");
        options.setString("taskmanager.memory.network.max", "256m");
        options.setString("restart-strategy.type", "none");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, options);
        TypeInformation<Tuple4<Byte, Long, Long, byte[]>> type = new TypeHint<Tuple4<Byte, Long, Long, byte[]>>() {}.getTypeInfo();
        var all = env.fromSource(new FlatSource(path, true), WatermarkStrategy.noWatermarks(), "flat", type);
        var watermarks = WatermarkStrategy.<Tuple4<Byte, Long, Long, byte[]>>forBoundedOutOfOrderness(Duration.ofMillis(Flat.DELAY))
            .withTimestampAssigner((row, time) -> row.f2);
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        Schema.Builder left = columns();
        Schema.Builder right = columns().primaryKey("f1");
        tables.createTemporaryView("L", all.filter(row -> row.f0 == 0).assignTimestampsAndWatermarks(watermarks), left.build());
        tables.createTemporaryView("R", all.filter(row -> row.f0 == 1).assignTimestampsAndWatermarks(watermarks), right.build());
        DataStream<Row> joined = tables.toDataStream(tables.sqlQuery(
            "SELECT L.f1, L.f3 AS lv, R.f3 AS rv FROM L LEFT JOIN R FOR SYSTEM_TIME AS OF L.ts ON L.f1 = R.f1"));
        joined.filter(TemporalJoin::count).sinkTo(new DiscardingSink<>());

        long rows = new Flat(path, 0, 1).count;
        double cpu = cpuSeconds();
        long start = System.nanoTime();
        env.execute("temporal join");
        double seconds = (System.nanoTime() - start) / 1e9;
        if (csv != null) csv.close();
        System.out.printf("RESULT rows=%d secs=%.2f out=%d found=%d cpu=%.2f%n", rows, seconds, OUT.sum(), FOUND.sum(), cpuSeconds() - cpu);
        System.exit(0);
    }

    private static Schema.Builder columns() {
        return Schema.newBuilder().column("f1", DataTypes.BIGINT().notNull()).column("f3", DataTypes.BYTES())
            .columnByMetadata("ts", DataTypes.TIMESTAMP_LTZ(3), "rowtime", false).watermark("ts", "SOURCE_WATERMARK()");
    }

    private static boolean count(Row row) {
        byte[] found = (byte[]) row.getField(2);
        OUT.increment();
        if (found != null) FOUND.increment();
        if (csv != null) {
            synchronized (csv) {
                csv.println(id((byte[]) row.getField(1)) + "," + (found == null ? -1 : id(found)));
            }
        }
        return false;
    }

    /** The number that a value begins with. */
    private static long id(byte[] value) {
        return ByteBuffer.wrap(value).order(ByteOrder.LITTLE_ENDIAN).getLong();
    }

    /** User and system time of this process. */
    private static double cpuSeconds() throws Exception {
        String stat = Files.readString(Path.of("/proc/self/stat"));
        String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
        return (Long.parseLong(fields[11]) + Long.parseLong(fields[12])) / 100.0;
    }
}
