package peers.flink;

import org.apache.flink.api.connector.source.*;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.core.io.*;
import peers.*;
import java.io.*;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.CompletableFuture;

/** FLIP-27 source over the flat file: reader p of P reads records p, p+P, ... in arrival order; its position is checkpointed.
 *  (side, key, ts, value). When not bounded it idles at the end of the file, so that no MAX_WATERMARK is sent. */
public final class FlatSource implements Source<Tuple4<Byte, Long, Long, byte[]>, FlatSource.Split, Void> {
    public record Split(int part, long next) implements SourceSplit, Serializable { public String splitId() { return "" + part; } }
    /** Records that a reader takes between two checkpoints; -1: any number. */
    private static final long GATE = Long.getLong("gate.records", -1);
    private final String path; private final boolean bounded;
    public FlatSource(String path, boolean bounded) { this.path = path; this.bounded = bounded; }
    public Boundedness getBoundedness() { return bounded ? Boundedness.BOUNDED : Boundedness.CONTINUOUS_UNBOUNDED; }
    public SplitEnumerator<Split, Void> createEnumerator(SplitEnumeratorContext<Split> c) { return new Enumerator(c, false); }
    public SplitEnumerator<Split, Void> restoreEnumerator(SplitEnumeratorContext<Split> c, Void v) { return new Enumerator(c, true); }
    public SourceReader<Tuple4<Byte, Long, Long, byte[]>, Split> createReader(SourceReaderContext c) { return new Reader(c); }
    public SimpleVersionedSerializer<Split> getSplitSerializer() { return new SplitSer(); }
    public SimpleVersionedSerializer<Void> getEnumeratorCheckpointSerializer() { return new VoidSer(); }

    private static final class Enumerator implements SplitEnumerator<Split, Void> {
        private final SplitEnumeratorContext<Split> c; private final boolean restored;
        Enumerator(SplitEnumeratorContext<Split> c, boolean restored) { this.c = c; this.restored = restored; }
        public void start() {}
        public void handleSplitRequest(int s, String h) {}
        public void addSplitsBack(List<Split> l, int s) { for (Split x : l) c.assignSplit(x, s); }
        public void addReader(int s) { if (!restored) c.assignSplit(new Split(s, s), s); c.signalNoMoreSplits(s); }
        public Void snapshotState(long id) { return null; }
        public void close() {}
    }
    private final class Reader implements SourceReader<Tuple4<Byte, Long, Long, byte[]>, Split> {
        private final SourceReaderContext c; private final CompletableFuture<Void> assigned = new CompletableFuture<>(), never = new CompletableFuture<>();
        private Split split; private Flat in; private boolean end; private long open = GATE; private CompletableFuture<Void> gate;
        Reader(SourceReaderContext c) { this.c = c; }
        public void start() {}
        public void addSplits(List<Split> l) {
            split = l.get(0);
            try { in = new Flat(path, split.next, c.currentParallelism()); } catch (IOException e) { throw new UncheckedIOException(e); }
            assigned.complete(null);
        }
        public void notifyNoMoreSplits() {}
        public InputStatus pollNext(ReaderOutput<Tuple4<Byte, Long, Long, byte[]>> o) throws IOException {
            if (in == null) return InputStatus.NOTHING_AVAILABLE;
            if (open-- == 0) { open = 0; if (gate == null) gate = new CompletableFuture<>(); return InputStatus.NOTHING_AVAILABLE; }
            if (in.read()) { o.collect(Tuple4.of(in.side, in.key, in.ts, in.value)); return InputStatus.MORE_AVAILABLE; }
            end = true;
            return bounded ? InputStatus.END_OF_INPUT : InputStatus.NOTHING_AVAILABLE;
        }
        public List<Split> snapshotState(long id) { return in == null ? List.of() : List.of(new Split(split.part, in.position())); }
        public CompletableFuture<Void> isAvailable() { return end ? never : gate != null ? gate : assigned; }
        public void notifyCheckpointComplete(long id) {
            open = GATE;
            if (gate != null) { var g = gate; gate = null; g.complete(null); }
        }
        public void close() throws IOException { if (in != null) in.close(); }
    }
    private static final class SplitSer implements SimpleVersionedSerializer<Split> {
        public int getVersion() { return 1; }
        public byte[] serialize(Split s) { return ByteBuffer.allocate(12).putInt(s.part).putLong(s.next).array(); }
        public Split deserialize(int v, byte[] b) { ByteBuffer x = ByteBuffer.wrap(b); return new Split(x.getInt(), x.getLong()); }
    }
    private static final class VoidSer implements SimpleVersionedSerializer<Void> {
        public int getVersion() { return 1; }
        public byte[] serialize(Void s) { return new byte[0]; }
        public Void deserialize(int v, byte[] b) { return null; }
    }
}
