import java.io.BufferedReader;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/**
 * HDFS with a NameNode and a DataNode, in a process of its own: run from its source by `hdfs_store.py`.
 *
 * <pre>
 *   java -cp JARS HdfsStore.java DIRECTORY
 *
 *   stdin   a request a line: a word, and what belongs to it, with tabs between
 *   stdout  an answer a line: `ok` or `failed`, and what belongs to it; the first one has the file system's URL
 *   stderr  everything that is logged
 * </pre>
 *
 * It ends when its input ends: however a parent dies, no server stays.
 */
final class HdfsStore {
    private final FileSystem files;

    private HdfsStore(FileSystem files) {
        this.files = files;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        Configuration settings = new Configuration();
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings, new File(arguments[0])).numDataNodes(1).build();
        cluster.waitActive();
        answers.println("ok\t" + cluster.getFileSystem().getUri());
        new HdfsStore(cluster.getFileSystem()).answer(answers);
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

    private String answerTo(String[] request) throws IOException {
        Path folder = new Path("/" + request[1]);
        switch (request[0]) {
            case "names": {
                StringBuilder names = new StringBuilder();
                try {
                    for (FileStatus found : files.listStatus(folder)) names.append('\t').append(found.getPath().getName());
                } catch (FileNotFoundException e) {
                    return "";
                }
                return names.toString();
            }
            case "fetch":
                // Without checksum files beside the copies.
                if (files.exists(folder)) files.copyToLocalFile(false, folder, new Path(request[2]), true);
                return "";
            default:
                throw new IllegalArgumentException("no such request: " + request[0]);
        }
    }
}
