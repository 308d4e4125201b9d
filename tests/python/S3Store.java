import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.TreeSet;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import org.gaul.s3proxy.AuthenticationType;
import org.gaul.s3proxy.S3Proxy;
import org.gaul.shaded.org.eclipse.jetty.server.Request;
import org.gaul.shaded.org.eclipse.jetty.server.Server;
import org.gaul.shaded.org.eclipse.jetty.server.handler.HandlerWrapper;
import org.jclouds.ContextBuilder;
import org.jclouds.blobstore.BlobStore;
import org.jclouds.blobstore.BlobStoreContext;
import org.jclouds.blobstore.domain.PageSet;
import org.jclouds.blobstore.domain.StorageMetadata;
import org.jclouds.blobstore.domain.StorageType;
import org.jclouds.blobstore.options.ListContainerOptions;
import org.slf4j.LoggerFactory;

/**
 * S3Proxy over memory, in a process of its own: run from its source by `s3_store.py`.
 *
 * <pre>
 *   java -cp JARS S3Store.java BUCKET IDENTITY SECRET
 *
 *   stdin   a request a line: a word, and what belongs to it, with tabs between
 *   stdout  an answer a line: `ok` or `failed`, and what belongs to it; the first one has the endpoint
 *   stderr  everything that is logged
 *
 *   client ── HTTP ──> Noted (waits for the latency, notes the request) ──> S3Proxy ──> memory
 * </pre>
 *
 * It ends when its input ends: however a parent dies, no server stays. What is asked here passes by HTTP, so it isn't noted.
 */
final class S3Store {
    private final String bucket;
    private final BlobStore store;
    private final Noted noted;

    private S3Store(String bucket, BlobStore store, Noted noted) {
        this.bucket = bucket;
        this.store = store;
        this.noted = noted;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        ((Logger) LoggerFactory.getLogger(Logger.ROOT_LOGGER_NAME)).setLevel(Level.WARN);
        BlobStore store = ContextBuilder.newBuilder("transient").credentials("", "").overrides(new Properties())
            .build(BlobStoreContext.class).getBlobStore();
        store.createContainerInLocation(null, arguments[0]);
        // Hadoop's bulk delete has a header that S3Proxy doesn't know, and would refuse.
        S3Proxy proxy = S3Proxy.builder().blobStore(store).endpoint(URI.create("http://127.0.0.1:0"))
            .ignoreUnknownHeaders(true).awsAuthentication(AuthenticationType.AWS_V2_OR_V4, arguments[1], arguments[2]).build();
        Noted noted = new Noted();
        // S3Proxy shows no way to the server that it has made.
        Field field = S3Proxy.class.getDeclaredField("server");
        field.setAccessible(true);
        Server server = (Server) field.get(proxy);
        noted.setHandler(server.getHandler());
        server.setHandler(noted);
        proxy.start();
        answers.println("ok\thttp://127.0.0.1:" + proxy.getPort());
        new S3Store(arguments[0], store, noted).answer(answers);
        Runtime.getRuntime().halt(0);
    }

    private void answer(PrintStream answers) throws IOException {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            try {
                answers.println("ok" + answerTo(line.split("\t")));
            } catch (Exception e) {
                e.printStackTrace();
                answers.println("failed\t" + e);
            }
        }
    }

    private String answerTo(String[] request) throws Exception {
        switch (request[0]) {
            case "names": {
                String folder = request[1] + "/";
                TreeSet<String> names = new TreeSet<>();
                for (String key : keys(folder)) names.add(key.substring(folder.length()).split("/")[0]);
                return names.isEmpty() ? "" : "\t" + String.join("\t", names);
            }
            case "fetch": {
                String folder = request[1] + "/";
                for (String key : keys(folder)) {
                    Path file = Path.of(request[2], key.substring(folder.length()));
                    Files.createDirectories(file.getParent());
                    try (InputStream in = store.getBlob(bucket, key).getPayload().openStream()) {
                        Files.copy(in, file);
                    }
                }
                return "";
            }
            case "latency":
                noted.latencyMillis = Long.parseLong(request[1]);
                return "";
            case "requests":
                Files.write(Path.of(request[1]), noted.take());
                return "";
            default:
                throw new IllegalArgumentException("no such request: " + request[0]);
        }
    }

    /** Of the objects whose name begins so. Names that end with a slash stand for directories. */
    private List<String> keys(String prefix) throws InterruptedException {
        for (int attempts = 1; ; attempts++) {
            try {
                return keysNow(prefix);
            } catch (RuntimeException e) {
                // In a listing an object may be there before its attributes are.
                if (attempts == 100) throw e;
                Thread.sleep(20);
            }
        }
    }

    private List<String> keysNow(String prefix) {
        List<String> keys = new ArrayList<>();
        String marker = null;
        do {
            ListContainerOptions options = new ListContainerOptions().prefix(prefix).recursive();
            if (marker != null) options.afterMarker(marker);
            PageSet<? extends StorageMetadata> page = store.list(bucket, options);
            for (StorageMetadata found : page)
                if (found.getType() == StorageType.BLOB && !found.getName().endsWith("/")) keys.add(found.getName());
            marker = page.getNextMarker();
        } while (marker != null);
        return keys;
    }

    /** Each request of a client. */
    private static final class Noted extends HandlerWrapper {
        volatile long latencyMillis;
        private List<String> lines = new ArrayList<>();

        @Override
        public void handle(String target, Request base, HttpServletRequest request, HttpServletResponse response)
                throws IOException, ServletException {
            try {
                Thread.sleep(latencyMillis);
            } catch (InterruptedException e) {
                throw new IOException(e);
            }
            super.handle(target, base, request, response);
            boolean isCopy = request.getHeader("x-amz-copy-source") != null;
            String query = request.getQueryString();
            note(String.join("\t", isCopy ? "COPY" : request.getMethod(), request.getRequestURI(), query == null ? "" : query,
                String.valueOf(response.getStatus()), String.valueOf(Math.max(0, request.getContentLengthLong())),
                String.valueOf(base.getResponse().getContentCount())));
        }

        private synchronized void note(String line) {
            lines.add(line);
        }

        synchronized List<String> take() {
            List<String> taken = lines;
            lines = new ArrayList<>();
            return taken;
        }
    }
}
