package peers.flink;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;

/**
 * The events that `nexmark_events.write_flat` has written, as rows of Flink's tables: reader 0 reads the file 0, reader 1 the other one.
 * Its place in the file is in the checkpoints.
 */
public final class NexmarkSource implements Source<RowData, NexmarkSource.Split, Void> {
    public record Split(int part, long position) implements SourceSplit, Serializable {
        @Override public String splitId() {
            return Integer.toString(part);
        }
    }

    /** For each kind its columns: L a long, T a time, S a string. */
    static final String[] COLUMNS = {"LSSSSSTS", "LSSLLTTLLS", "LLLSSTS"};

    private final String folder;

    public NexmarkSource(String folder) {
        this.folder = folder;
    }

    @Override public Boundedness getBoundedness() {
        return Boundedness.BOUNDED;
    }

    @Override public SplitEnumerator<Split, Void> createEnumerator(SplitEnumeratorContext<Split> context) {
        return new Enumerator(context, false);
    }

    @Override public SplitEnumerator<Split, Void> restoreEnumerator(SplitEnumeratorContext<Split> context, Void nothing) {
        return new Enumerator(context, true);
    }

    @Override public SourceReader<RowData, Split> createReader(SourceReaderContext context) {
        return new Reader(folder);
    }

    @Override public SimpleVersionedSerializer<Split> getSplitSerializer() {
        return new SplitSerializer();
    }

    @Override public SimpleVersionedSerializer<Void> getEnumeratorCheckpointSerializer() {
        return new NothingSerializer();
    }

    private record Enumerator(SplitEnumeratorContext<Split> context, boolean restored) implements SplitEnumerator<Split, Void> {
        @Override public void start() {}

        @Override public void handleSplitRequest(int subtask, String host) {}

        @Override public void addSplitsBack(List<Split> splits, int subtask) {
            splits.forEach(split -> context.assignSplit(split, subtask));
        }

        @Override public void addReader(int subtask) {
            if (!restored) context.assignSplit(new Split(subtask, 0), subtask);
            context.signalNoMoreSplits(subtask);
        }

        @Override public Void snapshotState(long id) {
            return null;
        }

        @Override public void close() {}
    }

    private static final class Reader implements SourceReader<RowData, Split> {
        private final String folder;
        private final CompletableFuture<Void> assigned = new CompletableFuture<>();
        private final ByteBuffer buffer = ByteBuffer.allocate(1 << 20).order(ByteOrder.LITTLE_ENDIAN).limit(0);
        private int part;
        private long read;
        private FileChannel file;

        Reader(String folder) {
            this.folder = folder;
        }

        @Override public void start() {}

        @Override public void addSplits(List<Split> splits) {
            part = splits.get(0).part();
            read = splits.get(0).position();
            try {
                file = FileChannel.open(Path.of(folder, Integer.toString(part))).position(read);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            assigned.complete(null);
        }

        @Override public void notifyNoMoreSplits() {}

        @Override public InputStatus pollNext(ReaderOutput<RowData> output) throws IOException {
            if (file == null) return InputStatus.NOTHING_AVAILABLE;
            if (!has(4) || !has(4 + buffer.getInt(buffer.position()))) return InputStatus.END_OF_INPUT;
            output.collect(next());
            return InputStatus.MORE_AVAILABLE;
        }

        /** Whether so many bytes are left, which are in the buffer then. */
        private boolean has(int bytes) throws IOException {
            if (buffer.remaining() >= bytes) return true;
            buffer.compact();
            while (buffer.position() < bytes && file.read(buffer) >= 0) {}
            buffer.flip();
            return buffer.remaining() >= bytes;
        }

        private RowData next() {
            int size = buffer.getInt();
            read += 4 + size;
            int kind = buffer.get();
            String columns = COLUMNS[kind];
            GenericRowData row = new GenericRowData(columns.length());
            int strings = 0;
            for (int i = 0; i < columns.length(); i++) {
                if (columns.charAt(i) == 'L') row.setField(i, buffer.getLong());
                else if (columns.charAt(i) == 'T') row.setField(i, TimestampData.fromEpochMillis(buffer.getLong()));
                else strings++;
            }
            int lengths = buffer.position();
            int text = lengths + 4 * strings;
            for (int i = 0; i < columns.length(); i++) {
                if (columns.charAt(i) != 'S') continue;
                int length = buffer.getInt(lengths);
                row.setField(i, StringData.fromBytes(Arrays.copyOfRange(buffer.array(), text, text + length)));
                lengths += 4;
                text += length;
            }
            buffer.position(text);
            GenericRowData event = new GenericRowData(4);
            event.setField(0, kind);
            event.setField(1 + kind, row);
            return event;
        }

        @Override public List<Split> snapshotState(long id) {
            return file == null ? List.of() : List.of(new Split(part, read));
        }

        @Override public CompletableFuture<Void> isAvailable() {
            return assigned;
        }

        @Override public void close() throws IOException {
            if (file != null) file.close();
        }
    }

    private static final class SplitSerializer implements SimpleVersionedSerializer<Split> {
        @Override public int getVersion() {
            return 1;
        }

        @Override public byte[] serialize(Split split) {
            return ByteBuffer.allocate(12).putInt(split.part()).putLong(split.position()).array();
        }

        @Override public Split deserialize(int version, byte[] bytes) {
            ByteBuffer from = ByteBuffer.wrap(bytes);
            return new Split(from.getInt(), from.getLong());
        }
    }

    private static final class NothingSerializer implements SimpleVersionedSerializer<Void> {
        @Override public int getVersion() {
            return 1;
        }

        @Override public byte[] serialize(Void nothing) {
            return new byte[0];
        }

        @Override public Void deserialize(int version, byte[] bytes) {
            return null;
        }
    }
}
