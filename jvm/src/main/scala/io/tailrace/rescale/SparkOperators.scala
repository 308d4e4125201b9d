package io.tailrace.rescale

import java.util.UUID

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.tailrace.{CheckpointOperator, SparkRepartition, SparkSession}

import io.tailrace.checkpoint.{DurableFiles, RepartitionTurn, SparkCheckpoint}
import io.tailrace.rewrite.StoppedQuery

/** The state of Spark's own operators in a query that is rescaled. Spark writes it for the new number into a
  * checkpoint of its own, which has only these operators, because Spark's rewriter takes all operators that it finds.
  * The query's own files don't change before the [[RepartitionTurn]].
  *
  * @param operators at least one
  */
private[rescale] final class SparkOperators(
    session: SparkSession,
    checkpoint: String,
    query: StoppedQuery,
    operators: Seq[CheckpointOperator]
) {
  import query.{completed, conf, root, spark}

  private val repartition = new SparkRepartition(session, root, completed, query.hasIds)
  private val staged = RepartitionTurn.stagedAt(root, UUID.randomUUID.toString)
  private val files = DurableFiles.in(root, conf)

  /** Refuses operators that can't be rescaled. */
  def check(): Unit = {
    val obstacles = operators.flatMap(of => repartition.obstacle(of).map(why => s"${of.name} ($why)"))
    if (obstacles.nonEmpty) throw RescaleErrors.unsupported(checkpoint, obstacles)
    if (query.readsAgain || query.wasTried)
      throw RescaleErrors.open(checkpoint, query.begun, operators.map(_.name))
  }

  /** Writes the new state.
    *
    * @param ids of the other operators, in Spark's checkpoint format 2
    * @return the turn that switches the query to it
    */
  def stage(partitions: Int, ids: Map[Long, Seq[Seq[String]]]): RepartitionTurn = {
    RepartitionTurn.deleteStaged(root, conf)
    operators.foreach(operator => copyMetadata(spark.directory(operator.id)))
    val entry = s"offsets/$completed"
    DurableFiles.copy(new Path(root, entry), new Path(staged, entry), conf, s"batch $completed")
    new SparkCheckpoint(staged, conf).setPartitions(completed, partitions)
    val written = repartition.write(staged, partitions).getOrElse(Map.empty)
    RepartitionTurn(
      completed,
      spark.emptyBatch(completed, partitions),
      spark.entryText(completed + 1),
      partitions,
      staged.getName,
      RepartitionTurn.filesOf(staged, conf),
      operators.map(_.id),
      (ids ++ written).map { case (operator, of) => operator.toString -> of }
    )
  }

  /** Deletes the files of [[stage]], before the turn. */
  def delete(): Unit = files.delete(staged)

  /** Spark keeps an operator's metadata beside its partitions, and schemas in the first one. */
  private def copyMetadata(directory: Path): Unit =
    files.list(directory).foreach { status =>
      val name = status.getPath.getName
      if (name.startsWith("_")) copy(status.getPath)
      else if (status.isDirectory && name == "0") copySchemas(status.getPath)
    }

  private def copySchemas(directory: Path): Unit =
    files.list(directory).filter(_.isDirectory).foreach { status =>
      if (status.getPath.getName.startsWith("_")) copy(status.getPath) else copySchemas(status.getPath)
    }

  private def copy(directory: Path): Unit =
    DurableFiles.copyAll(directory, new Path(staged, below(directory)), conf, s"batch $completed")

  private def below(path: Path): String = qualified(root).toUri.relativize(qualified(path).toUri).getPath

  private def qualified(path: Path): Path = path.getFileSystem(conf).makeQualified(path)
}
