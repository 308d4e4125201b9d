package peers.flink;

import java.io.BufferedWriter;
import java.io.FileWriter;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.List;
import java.util.StringJoiner;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.TableDescriptor;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.Row;

/**
 * Nexmark's queries 8 and 20, and 20 as a left join, on RocksDB.
 *
 * <p>usage: Nexmark sql|interval|process q20|q20-left|q8 FOLDER OUT.tsv|- WORKDIR
 *
 * <p>sql is the SQL that the benchmark publishes, interval has a bound in time, process is a KeyedCoProcessFunction.
 */
public final class Nexmark {
    private static final String[][] NAMES = {
        {"id", "name", "emailAddress", "creditCard", "city", "state", "dateTime", "extra"},
        {"id", "itemName", "description", "initialBid", "reserve", "dateTime", "expires", "seller", "category", "extra"},
        {"auction", "bidder", "price", "channel", "url", "dateTime", "extra"},
    };
    private static final List<String> KINDS = List.of("person", "auction", "bid");
    private static final String COLUMNS = "SELECT auction, bidder, price, channel, url, CAST(B.`dateTime` AS TIMESTAMP(3)) AS bid_dateTime, B.extra AS bid_extra, "
        + "itemName, description, initialBid, reserve, CAST(A.`dateTime` AS TIMESTAMP(3)) AS auction_dateTime, expires, seller, category, "
        + "A.extra AS auction_extra ";
    private static final String NEAR =
        "AND A.`dateTime` BETWEEN B.`dateTime` - INTERVAL '10' SECOND AND B.`dateTime` + INTERVAL '10' SECOND ";
    private static final String Q8 = "SELECT P.id, P.name, P.starttime FROM ("
        + "SELECT id, name, window_start AS starttime, window_end AS endtime "
        + "FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)) GROUP BY id, name, window_start, window_end) P "
        + "JOIN (SELECT seller, window_start AS starttime, window_end AS endtime "
        + "FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)) GROUP BY seller, window_start, window_end) A "
        + "ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime";

    private static PrintWriter tsv;

    public static void main(String[] arguments) throws Exception {
        String engine = arguments[0];
        String query = arguments[1];
        String work = arguments[4];
        if (!arguments[3].equals("-")) tsv = new PrintWriter(new BufferedWriter(new FileWriter(arguments[3])));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, options(work));
        DataStream<RowData> events =
            env.fromSource(new NexmarkSource(arguments[2]), WatermarkStrategy.noWatermarks(), "events", InternalTypeInfo.of(type()));

        double cpu = cpuSeconds();
        long start = System.nanoTime();
        if (engine.equals("process")) {
            run(env, query.equals("q8") ? NexmarkProcess.q8(events) : NexmarkProcess.q20(events, query.equals("q20-left")));
        } else {
            StreamTableEnvironment tables = StreamTableEnvironment.create(env);
            views(tables, events);
            Table result = tables.sqlQuery(sql(engine, query));
            if (tsv != null) run(env, tables.toDataStream(result));
            else result.insertInto(TableDescriptor.forConnector("blackhole").build()).execute().await();
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        if (tsv != null) tsv.close();
        System.out.printf("RESULT secs=%.2f cpu=%.2f%n", seconds, cpuSeconds() - cpu);
        System.exit(0);
    }

    private static Configuration options(String work) {
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
        options.setString("table.local-time-zone", "UTC");
        return options;
    }

    /** As the benchmark publishes its source: the kind of event, and a row of each kind, two of which are null. */
    private static RowType type() {
        DataTypes.Field[] fields = new DataTypes.Field[4];
        fields[0] = DataTypes.FIELD("event_type", DataTypes.INT());
        for (int kind = 0; kind < 3; kind++) {
            DataTypes.Field[] columns = new DataTypes.Field[NAMES[kind].length];
            for (int i = 0; i < columns.length; i++) {
                DataType type = switch (NexmarkSource.COLUMNS[kind].charAt(i)) {
                    case 'L' -> DataTypes.BIGINT();
                    case 'T' -> DataTypes.TIMESTAMP(3);
                    default -> DataTypes.STRING();
                };
                columns[i] = DataTypes.FIELD(NAMES[kind][i], type);
            }
            fields[1 + kind] = DataTypes.FIELD(KINDS.get(kind), DataTypes.ROW(columns));
        }
        return (RowType) DataTypes.ROW(fields).getLogicalType();
    }

    private static void views(StreamTableEnvironment tables, DataStream<RowData> events) {
        Schema schema = Schema.newBuilder()
            .columnByExpression("dateTime",
                "CASE WHEN event_type = 0 THEN person.`dateTime` WHEN event_type = 1 THEN auction.`dateTime` ELSE bid.`dateTime` END")
            .watermark("dateTime", "`dateTime` - INTERVAL '4' SECOND")
            .build();
        tables.createTemporaryView("events", events, schema);
        for (int kind = 0; kind < 3; kind++) {
            StringJoiner columns = new StringJoiner(", ");
            for (String name : NAMES[kind]) columns.add(name.equals("dateTime") ? "`dateTime`" : KINDS.get(kind) + "." + name);
            Table view = tables.sqlQuery("SELECT " + columns + " FROM events WHERE event_type = " + kind);
            tables.createTemporaryView(KINDS.get(kind), view);
        }
    }

    private static String sql(String engine, String query) {
        if (query.equals("q8")) return Q8;
        String near = engine.equals("interval") ? NEAR : "";
        if (query.equals("q20-left")) {
            return COLUMNS + "FROM bid AS B LEFT JOIN auction AS A ON B.auction = A.id " + near + "AND A.category = 10";
        }
        return COLUMNS + "FROM bid AS B INNER JOIN auction AS A ON B.auction = A.id " + near + "WHERE A.category = 10";
    }

    static WatermarkStrategy<RowData> watermarks() {
        return WatermarkStrategy.<RowData>forBoundedOutOfOrderness(Duration.ofSeconds(4)).withTimestampAssigner((event, before) -> {
            int kind = event.getInt(0);
            int at = NexmarkSource.COLUMNS[kind].indexOf('T');
            return event.getRow(1 + kind, NexmarkSource.COLUMNS[kind].length()).getTimestamp(at, 3).getMillisecond();
        });
    }

    private static void run(StreamExecutionEnvironment env, DataStream<Row> result) throws Exception {
        result.filter(Nexmark::written).sinkTo(new DiscardingSink<>());
        env.execute("nexmark");
    }

    private static boolean written(Row row) {
        if (tsv != null) {
            StringJoiner line = new StringJoiner("\t");
            for (int i = 0; i < row.getArity(); i++) {
                Object value = row.getField(i);
                if (value instanceof LocalDateTime time) value = time.toInstant(ZoneOffset.UTC).toEpochMilli();
                line.add(value == null ? "\\N" : value.toString());
            }
            synchronized (tsv) {
                tsv.println(line);
            }
        }
        return false;
    }

    /** User and system time of this process. */
    private static double cpuSeconds() throws Exception {
        String stat = Files.readString(Path.of("/proc/self/stat"));
        String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
        return (Long.parseLong(fields[11]) + Long.parseLong(fields[12])) / 100.0;
    }
}
