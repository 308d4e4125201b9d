package peers;

import java.io.*;
import java.nio.*;
import java.nio.channels.FileChannel;
import java.nio.file.*;

/** Sequential reader of the flat file that convert.py writes; reads every `stride`-th record from `first`. */
public final class Flat implements Closeable {
    public static final int REC = 117;
    public static final long WINDOW = Long.getLong("window.minutes", 30) * 60_000L, DELAY = 2 * 60_000L;
    public final long count;                       // records in the whole file
    public byte side; public long key, ts; public byte[] value;
    private final FileChannel ch;
    private final ByteBuffer buf = ByteBuffer.allocateDirect(REC * 8192).order(ByteOrder.LITTLE_ENDIAN);
    private final int stride;
    private long next, bufFirst, bufEnd;           // record indexes

    public Flat(String path, long first, int stride) throws IOException {
        ch = FileChannel.open(Path.of(path), StandardOpenOption.READ);
        count = ch.size() / REC; next = first; this.stride = stride;
    }
    public long position() { return next; }
    public boolean read() throws IOException {
        if (next >= count) return false;
        if (next >= bufEnd) {
            bufFirst = next; buf.clear();
            long at = next * REC;
            while (buf.hasRemaining()) { int n = ch.read(buf, at); if (n < 0) break; at += n; }
            bufEnd = bufFirst + buf.position() / REC;
        }
        int o = (int) (next - bufFirst) * REC;
        side = buf.get(o); key = buf.getLong(o + 1); ts = buf.getLong(o + 9);
        value = new byte[100]; buf.get(o + 17, value);
        next += stride;
        return true;
    }
    @Override public void close() throws IOException { ch.close(); }
}
