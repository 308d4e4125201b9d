package io.tailrace.testkit

import java.net.URI
import java.nio.file.Files
import java.nio.file.attribute.PosixFilePermissions

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.permission.FsPermission

/** Hadoop's local file system as a `FileContext` has it, checksum files and all, that asks the JVM for links and permissions:
  * Hadoop's own starts a process each time, and that is most of what a small file costs.
  */
final class LocalFsInProcess(uri: URI, conf: Configuration)
    extends ChecksumFs(new LocalFsInProcess.Raw(uri, conf))

object LocalFsInProcess {

  /** The configuration, with it in the place of Hadoop's. */
  def in(conf: Configuration): Configuration = {
    val changed = new Configuration(conf)
    changed.set("fs.AbstractFileSystem.file.impl", classOf[LocalFsInProcess].getName)
    changed
  }

  private final class Raw(uri: URI, conf: Configuration)
      extends DelegateToFileSystem(uri, new Delegate, conf, "file", false) {
    override def getUriDefaultPort: Int = -1
    override def isValidName(path: String): Boolean = true
  }

  private final class Delegate extends RawLocalFileSystem {
    override def setPermission(path: Path, permission: FsPermission): Unit =
      Files.setPosixFilePermissions(
        pathToFile(path).toPath,
        PosixFilePermissions.fromString(permission.toString)
      ): Unit

    override def getFileLinkStatus(path: Path): FileStatus = {
      require(!Files.isSymbolicLink(pathToFile(path).toPath), s"$path is a link: tests have none")
      getFileStatus(path)
    }
  }
}
