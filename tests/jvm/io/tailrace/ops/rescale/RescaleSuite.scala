package io.tailrace.ops.rescale

import java.io.File

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.plan.GoldenCheckpoints.Left
import io.tailrace.plan.{GoldenCheckpoints, GoldenQuery}
import io.tailrace.testkit._

/** Checkpoints of queries that were cut off within a batch, to be rescaled. */
abstract class RescaleSuite extends SparkSuite {
  protected val joins = GoldenCheckpoints.archives.filter { case (query, _) =>
    Seq("lazy", "eager", "inner", "synced", "rescaled").exists(query.name.startsWith(_))
  }

  protected def withQuery(query: GoldenQuery, archive: File)(body: (File, Left) => Unit): Unit =
    withConf(query.settings: _*) {
      withDirectory { root =>
        body(root, GoldenCheckpoints.unpack(archive, root))
      }
    }

  protected def rescale(root: File, partitions: Int): RescaleReport =
    new Rescale(spark, checkpoint(root), partitions).run()

  protected def checkpoint(root: File) = new File(root, "checkpoint").getPath

  /** Whether the newest batch has another number than the one before it, which hasn't completed. */
  protected def isInTurn(root: File): Boolean = {
    val log = new SparkCheckpoint(new Path(checkpoint(root)), new Configuration)
    log.begunBatches.takeRight(2).map(log.partitions).distinct.size > 1
  }
}
