package io.tailrace.checkpoint

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement
import org.apache.spark.sql.internal.SQLConf

/** Where the checkpoint of a query that is being started will be, for checks that read what an earlier start has left there. */
private[tailrace] object CheckpointLocation {

  /** @return none for a query without a checkpoint that stays */
  def of(write: WriteToStreamStatement): Option[Path] = {
    val ofSession = for {
      root <- SQLConf.get.checkpointLocation
      name <- write.userSpecifiedName
    } yield new Path(root, name)
    write.userSpecifiedCheckpointLocation.map(new Path(_)).orElse(ofSession).map { path =>
      path.getFileSystem(write.hadoopConf).makeQualified(path)
    }
  }
}
