import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.Stream;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A Kafka broker, and the clients of whoever has started it, in one process: run from its source by `tailrace.kafka`.
 *
 * <pre>
 *   java -cp JARS KafkaProcess.java CONFIG CLUSTER SERVERS DIRECTORY PARENT
 *
 *   stdin   requests: a letter, then what the methods below read
 *   stdout  answers: 0 and what the methods write, or 1 and a text; the first one when the broker is up
 *   stderr  everything that is logged
 * </pre>
 *
 * It ends, and deletes its directory, when its input ends or its parent is gone: however a parent dies, no broker stays.
 */
final class KafkaProcess {
    private static final long LONGEST_MS = 30_000;

    private final DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
    private final DataOutputStream out;
    private final Map<String, Object> settings = new HashMap<>();
    private final Admin admin;
    private KafkaProducer<byte[], byte[]> producer;

    private KafkaProcess(OutputStream answers, String servers) {
        out = new DataOutputStream(new BufferedOutputStream(answers));
        settings.put("bootstrap.servers", servers);
        settings.put("default.api.timeout.ms", Integer.toString((int) LONGEST_MS));
        settings.put("request.timeout.ms", "10000");
        admin = Admin.create(settings);
    }

    public static void main(String[] arguments) throws Exception {
        OutputStream answers = System.out;
        System.setOut(System.err);
        Path directory = Path.of(arguments[3]);
        endWith(Long.parseLong(arguments[4]), directory);
        int formatted = kafka.tools.StorageTool.execute(
            new String[] {"format", "--cluster-id=" + arguments[1], "-c", arguments[0]}, new PrintStream(System.err));
        if (formatted != 0) throw new IllegalStateException("the broker's storage can't be formatted");
        Thread broker = new Thread(() -> kafka.Kafka.main(new String[] {arguments[0]}), "broker");
        broker.setDaemon(true);
        broker.start();
        try {
            new KafkaProcess(answers, arguments[2]).answer();
        } catch (Throwable e) {
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        end(directory);
    }

    /** A child of the parent's may hold its end of our input open: the end of that isn't enough. */
    private static void endWith(long parent, Path directory) {
        Thread watch = new Thread(() -> {
            try {
                ProcessHandle process = ProcessHandle.of(parent).orElse(null);
                while (process != null && process.isAlive()) Thread.sleep(500);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            end(directory);
        }, "parent");
        watch.setDaemon(true);
        watch.start();
    }

    /** The broker writes until the process has ended: what comes in between is deleted by a second round. */
    private static synchronized void end(Path directory) {
        for (int round = 0; round < 2; round++) {
            try (Stream<Path> files = Files.walk(directory)) {
                for (Path path : files.sorted(Comparator.reverseOrder()).toList()) path.toFile().delete();
            } catch (IOException | java.io.UncheckedIOException e) {
                System.err.println("Not all of " + directory + " is deleted: " + e);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private void answer() throws Exception {
        admin.describeCluster().nodes().get();
        out.writeByte(0);
        out.flush();
        for (int request = in.read(); request >= 0; request = in.read()) {
            try {
                switch (request) {
                    case 'C' -> createTopic(text(), in.readInt());
                    case 'D' -> deleteTopic(text());
                    case 'E' -> endOffsets(text());
                    case 'I' -> topicId(text());
                    case 'P' -> produce(text());
                    default -> throw new IllegalArgumentException("no such request: " + request);
                }
            } catch (EOFException e) {
                return;
            } catch (Exception e) {
                Throwable cause = e instanceof ExecutionException ? e.getCause() : e;
                out.writeByte(1);
                write(cause.getClass().getSimpleName() + ": " + cause.getMessage());
            }
            out.flush();
        }
    }

    private void createTopic(String topic, int partitions) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        until(topic, true);
        out.writeByte(0);
    }

    private void deleteTopic(String topic) throws Exception {
        admin.deleteTopics(List.of(topic)).all().get();
        until(topic, false);
        out.writeByte(0);
    }

    /** Topics come and go a moment after the broker has said so. */
    private void until(String topic, boolean isThere) throws Exception {
        long end = System.currentTimeMillis() + LONGEST_MS;
        while (System.currentTimeMillis() < end) {
            try {
                describe(topic);
                if (isThere) return;
            } catch (ExecutionException e) {
                if (!(e.getCause() instanceof UnknownTopicOrPartitionException)) throw e;
                if (!isThere) return;
            }
            Thread.sleep(20);
        }
        throw new IllegalStateException("the broker hasn't done it within " + LONGEST_MS + " ms");
    }

    private TopicDescription describe(String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    }

    private void topicId(String topic) throws Exception {
        String id = describe(topic).topicId().toString();
        out.writeByte(0);
        write(id);
    }

    private void endOffsets(String topic) throws Exception {
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        describe(topic).partitions().forEach(p -> asked.put(new TopicPartition(topic, p.partition()), OffsetSpec.latest()));
        Map<Integer, Long> ends = new TreeMap<>();
        admin.listOffsets(asked).all().get().forEach((partition, end) -> ends.put(partition.partition(), end.offset()));
        out.writeByte(0);
        out.writeInt(ends.size());
        for (Map.Entry<Integer, Long> end : ends.entrySet()) {
            out.writeInt(end.getKey());
            out.writeLong(end.getValue());
        }
    }

    /** Records until one that isn't: all of them are read, whatever fails. Then how many failed, and of the first what and why. */
    private void produce(String topic) throws Exception {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        while (in.readBoolean()) {
            int partition = in.readInt();
            byte[] key = bytes();
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, partition < 0 ? null : partition, key, bytes());
            for (int left = in.readInt(); left > 0; left--) record.headers().add(text(), bytes());
            records.add(record);
        }
        int partitions = describe(topic).partitions().size();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (ProducerRecord<byte[], byte[]> record : records) sent.add(send(record, partitions));
        producer().flush();
        int failed = 0;
        int first = -1;
        String why = "";
        for (int i = 0; i < sent.size(); i++) {
            try {
                sent.get(i).get();
            } catch (ExecutionException e) {
                if (failed == 0) {
                    first = i;
                    why = e.getCause().getClass().getSimpleName() + ": " + e.getCause().getMessage();
                }
                failed++;
            }
        }
        out.writeByte(0);
        out.writeInt(failed);
        out.writeInt(first);
        write(why);
    }

    /** A partition that the topic hasn't would be waited for. */
    private Future<RecordMetadata> send(ProducerRecord<byte[], byte[]> record, int partitions) {
        if (record.partition() != null && record.partition() >= partitions) {
            return java.util.concurrent.CompletableFuture.failedFuture(new IllegalArgumentException(
                "the topic has " + partitions + " partitions, and none with the number " + record.partition()));
        }
        try {
            return producer().send(record);
        } catch (RuntimeException e) {
            return java.util.concurrent.CompletableFuture.failedFuture(e);
        }
    }

    private KafkaProducer<byte[], byte[]> producer() {
        if (producer == null) {
            Map<String, Object> own = new HashMap<>(settings);
            own.remove("default.api.timeout.ms");
            own.put("acks", "all");
            own.put("max.block.ms", Long.toString(LONGEST_MS));
            own.put("delivery.timeout.ms", Long.toString(LONGEST_MS));
            own.put("linger.ms", "5");
            producer = new KafkaProducer<>(own, new ByteArraySerializer(), new ByteArraySerializer());
        }
        return producer;
    }

    private byte[] bytes() throws IOException {
        int length = in.readInt();
        return length < 0 ? null : in.readNBytes(length);
    }

    private String text() throws IOException {
        return new String(bytes(), StandardCharsets.UTF_8);
    }

    private void write(String text) throws IOException {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        out.writeInt(bytes.length);
        out.write(bytes);
    }
}
