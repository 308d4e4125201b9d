import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the descendants in a forest by a topic that feeds itself, in Kafka Streams.
 *
 * <pre>java -cp JARS DescendantsLoop.java SERVERS EDGES.csv TOTAL STATE_DIR [COUNTS.csv]</pre>
 *
 * Writes the edges ("node,parent" lines, in the order of arrival) to the topics `nodes` and `parents`, then starts:
 * each node is an update of its parent, each update of a node that has a parent is one of that parent too. Ends when
 * TOTAL updates have been counted. The topic `updates` must be there, and empty. Prints, as JSON, the seconds that
 * loading the table of parents took, and those from then on to the last count. Writes the counts, if asked to.
 *
 * Stores are in memory, and the counts logged to a topic, as is Kafka Streams' default. In trials with 200,000 nodes
 * RocksDB for the table took about half as long again; for the counts it made no difference, as all fit into the cache.
 */
public final class DescendantsLoop {
    private static final Serde<Long> LONG = Serdes.Long();
    private static final Serde<byte[]> BYTES = Serdes.ByteArray();
    /** An update says all with its key; but a value of null wouldn't be counted. */
    private static final byte[] EMPTY = {};

    private static final List<String> TOPICS = List.of("parents", "nodes");
    private static final int PARTITIONS = 2;
    private static final int PATIENCE_SECONDS = 60;
    private static final int BATCH_BYTES = 256 << 10;

    private DescendantsLoop() {}

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0];
        preload(servers, Path.of(arguments[1]));
        long total = Long.parseLong(arguments[2]);
        LongAdder made = new LongAdder();
        try (KafkaStreams streams = new KafkaStreams(topology(made), settings(servers, arguments[3]))) {
            streams.setUncaughtExceptionHandler(
                failure -> {
                    end(failure);
                    return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
                });
            long started = System.nanoTime();
            // Comes back when the global table is loaded; the threads that process begin then.
            streams.start();
            long loaded = System.nanoTime();
            await(made, total);
            long ended = System.nanoTime();
            if (arguments.length > 4) {
                write(streams, Path.of(arguments[4]));
            }
            System.out.printf(
                "{\"loading\": %.3f, \"seconds\": %.3f}%n", (loaded - started) / 1e9, (ended - loaded) / 1e9);
        }
    }

    private static void await(LongAdder made, long total) throws InterruptedException {
        long seen = 0;
        long since = System.nanoTime();
        while (made.sum() < total) {
            Thread.sleep(5);
            if (made.sum() > seen) {
                seen = made.sum();
                since = System.nanoTime();
            } else if (System.nanoTime() - since > PATIENCE_SECONDS * 1_000_000_000L) {
                throw new IllegalStateException(
                    seen + " of " + total + " counts, and not one more for " + PATIENCE_SECONDS + " s");
            }
        }
    }

    private static Topology topology(LongAdder made) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<Long, Long> nodes = builder.stream("nodes", Consumed.with(LONG, LONG));
        GlobalKTable<Long, Long> parents =
            builder.globalTable(
                "parents",
                Consumed.with(LONG, LONG),
                Materialized.as(Stores.inMemoryKeyValueStore("parents")));
        KStream<Long, byte[]> updates = builder.stream("updates", Consumed.with(LONG, BYTES));

        updates
            .groupByKey(Grouped.with(LONG, BYTES))
            .count(
                Materialized.<Long, Long>as(Stores.inMemoryKeyValueStore("counts"))
                    .withKeySerde(LONG)
                    .withValueSerde(LONG)
                    .withCachingEnabled());

        nodes
            .map((node, parent) -> KeyValue.pair(parent, EMPTY))
            .to("updates", Produced.with(LONG, BYTES));
        updates
            .join(parents, (node, nothing) -> node, (nothing, parent) -> parent)
            .map((node, parent) -> KeyValue.pair(parent, EMPTY))
            .to("updates", Produced.with(LONG, BYTES));

        // Last, and so after the count of the same update.
        updates.foreach((node, nothing) -> made.increment());
        return builder.build();
    }

    private static Properties settings(String servers, String stateDirectory) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "descendants");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, stateDirectory);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, PARTITIONS);
        // All counts fit: each is written once a commit, every 30 s by default.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 512L << 20);
        settings.put(StreamsConfig.BUFFERED_RECORDS_PER_PARTITION_CONFIG, 10_000);
        settings.put(StreamsConfig.consumerPrefix("max.poll.records"), 10_000);
        settings.put(StreamsConfig.consumerPrefix("max.partition.fetch.bytes"), 4 << 20);
        // The two threads join one after the other; the first one hears of it at a heartbeat, 3 s by default.
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 200);
        // The time that a batch is waited for is Kafka Streams' own, 100 ms: trials with 20 and 5 ms were slower.
        settings.put(StreamsConfig.producerPrefix("batch.size"), BATCH_BYTES);
        return settings;
    }

    private static void preload(String servers, Path edges) throws Exception {
        Map<String, Object> settings =
            Map.of("bootstrap.servers", servers, "linger.ms", 100, "batch.size", BATCH_BYTES);
        try (Admin admin = Admin.create(settings)) {
            List<NewTopic> topics =
                TOPICS.stream().map(name -> new NewTopic(name, PARTITIONS, (short) 1)).toList();
            admin.createTopics(topics).all().get();
        }
        List<String> lines = Files.readAllLines(edges);
        try (KafkaProducer<Long, Long> producer =
            new KafkaProducer<>(settings, new LongSerializer(), new LongSerializer())) {
            // All parents first: a table is joined as it was at a record's time.
            for (String topic : TOPICS) {
                for (String line : lines) {
                    int comma = line.indexOf(',');
                    Long node = Long.valueOf(line.substring(0, comma));
                    Long parent = Long.valueOf(line.substring(comma + 1));
                    producer.send(
                        new ProducerRecord<>(topic, node, parent),
                        (written, failure) -> {
                            if (failure != null) {
                                end(failure);
                            }
                        });
                }
                producer.flush();
            }
        }
    }

    /** Ends the process: it would wait for counts that never come. */
    private static void end(Throwable failure) {
        failure.printStackTrace();
        Runtime.getRuntime().halt(1);
    }

    private static void write(KafkaStreams streams, Path file) throws IOException {
        ReadOnlyKeyValueStore<Long, Long> counts =
            streams.store(StoreQueryParameters.fromNameAndType("counts", QueryableStoreTypes.keyValueStore()));
        try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(file));
            KeyValueIterator<Long, Long> all = counts.all()) {
            all.forEachRemaining(count -> out.println(count.key + "," + count.value));
        }
    }
}
