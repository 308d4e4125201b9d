package peers;

import java.io.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.atomic.*;
import java.util.stream.Stream;

/** Process-wide counters of one run (all operators live in this JVM), the output sink, and a sampler of sizes on disk. */
public final class Stats {
    public static final LongAdder in = new LongAdder(), out = new LongAdder(), labels = new LongAdder(), bytes = new LongAdder(), late = new LongAdder();
    public static volatile long firstIn, lastWork; // nanoTime
    public static volatile long watermarkMax = Long.MIN_VALUE; // where tasks close windows on their own clocks
    public static final AtomicLong watermark = new AtomicLong(Long.MIN_VALUE);
    private static PrintWriter csv;                // only in check runs

    public static void open(String path) throws IOException {
        if (!path.equals("-")) csv = new PrintWriter(new BufferedWriter(new FileWriter(path)));
    }
    public static void consumed() {
        long t = System.nanoTime();
        if (firstIn == 0) firstIn = t;
        lastWork = t; in.increment();
    }
    /** One output row. */
    public static void emit(long key, long lts, byte[] lv, java.util.List<byte[]> rvs) {
        long b = lv.length; for (byte[] r : rvs) b += r.length;
        out.increment(); labels.add(rvs.size()); bytes.add(b); lastWork = System.nanoTime();
        if (csv != null) synchronized (csv) { csv.println(key + "," + lts + "," + rvs.size()); }
    }
    private static final Map<String, Double> cpu0 = new HashMap<>();
    /** Marks the start; other: pid of a helper process (the broker) whose CPU and memory are reported too, or "-". */
    public static long start(String other) { cpu0.put("self", cpu("self")); cpu0.put(other, cpu(other)); return System.nanoTime(); }
    public static double cpu(String pid) {               // user + system seconds
        try { String s = Files.readString(Path.of("/proc/" + pid + "/stat")); String[] f = s.substring(s.lastIndexOf(')') + 2).split(" "); return (Long.parseLong(f[11]) + Long.parseLong(f[12])) / 100.0; }
        catch (IOException e) { return 0; }
    }
    public static void finish(String name, long start, long end, Dirs dirs, String other) throws IOException {
        if (csv != null) csv.close();
        double s = (end - start) / 1e9, s1 = (end - firstIn) / 1e9, c = cpu("self") - cpu0.get("self");
        System.out.printf("RESULT %s rows=%d secs=%.1f rows/s=%,.0f | from first record: secs=%.1f rows/s=%,.0f | out=%d labels=%d bytes=%d late=%d wm=%d wmmax=%d | cpu=%.2fs rows/2cpu-s=%,.0f | rss=%s | disk %s%s%n",
            name, in.sum(), s, in.sum() / s, s1, in.sum() / s1, out.sum(), labels.sum(), bytes.sum(), late.sum(), watermark.get(), Math.max(watermark.get(), watermarkMax), c, in.sum() / c * 2, peakRss("self"), dirs,
            other.equals("-") ? "" : String.format("| broker cpu=%.0fs rss=%s", cpu(other) - cpu0.get(other), peakRss(other)));
        System.out.flush();
    }
    public static String peakRss(String pid) {
        try { for (String l : Files.readAllLines(Path.of("/proc/" + pid + "/status"))) if (l.startsWith("VmHWM")) return Long.parseLong(l.replaceAll("\\D", "")) / 1024 + "MiB"; }
        catch (IOException e) { }
        return "?";
    }

    /** Samples the size of directories once a second; DIR#TEXT#SUFFIX counts only the files that end in SUFFIX below the entries of DIR whose name has TEXT. */
    public static final class Dirs extends Thread {
        private final String[] names; private final String[] filters, suffixes; private final Path[] paths; private final long[] peak, last;
        public Dirs(String... namePath) {
            int n = namePath.length / 2; names = new String[n]; paths = new Path[n]; filters = new String[n]; suffixes = new String[n]; peak = new long[n]; last = new long[n];
            for (int i = 0; i < n; i++) { names[i] = namePath[2 * i]; String[] p = (namePath[2 * i + 1] + "##").split("#", 4); paths[i] = Path.of(p[0]); filters[i] = p[1]; suffixes[i] = p[2]; }
            setDaemon(true); start();
        }
        @Override public void run() {
            try { while (true) { sample(); Thread.sleep(1000); } } catch (InterruptedException e) { }
        }
        private synchronized void sample() {
            for (int i = 0; i < paths.length; i++) { last[i] = du(paths[i].toFile(), filters[i], suffixes[i]); peak[i] = Math.max(peak[i], last[i]); }
        }
        private static long du(File f, String in, String suffix) {
            File[] c = f.listFiles(); if (c == null) return f.getName().endsWith(suffix) ? f.length() : 0;
            long s = 0; for (File x : c) if (x.getName().contains(in)) s += du(x, "", suffix); return s;
        }
        @Override public synchronized String toString() {
            sample(); StringBuilder b = new StringBuilder();
            for (int i = 0; i < names.length; i++) b.append(String.format("%s peak=%dMB end=%dMB ", names[i], peak[i] / 1_000_000, last[i] / 1_000_000));
            return b.toString();
        }
    }
}
