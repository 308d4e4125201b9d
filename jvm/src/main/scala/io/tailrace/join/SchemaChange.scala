package io.tailrace.join

import org.apache.spark.sql.types.StructType

/** Errors' words for columns that have changed since a checkpoint was written. */
private[tailrace] trait ColumnWords {

  /** The consequences of other columns on a side. */
  def columns(side: String, from: StructType, to: StructType): ColumnChanges.Told

  /** Reasons why right columns can't be there again that the query had once, and lacked meanwhile.
    *
    * @param settings of the checkpoint
    * @param from     the right columns that it had last
    * @param areNamed whether it is known by name which sources come back
    */
  def returned(settings: Map[String, String], from: StructType, areNamed: Boolean): Seq[String]
}

private[tailrace] object ColumnWords {
  case object OfJoin extends ColumnWords {
    override def columns(side: String, from: StructType, to: StructType): ColumnChanges.Told =
      ColumnChanges.tell(side, from, to)

    override def returned(settings: Map[String, String], from: StructType, areNamed: Boolean): Seq[String] =
      Nil
  }
}

/** The consequences of other columns for a checkpoint whose query resumes.
  *
  * @param schemas the checkpoint's, with that of the query
  * @param schema  the number of the query's
  * @param isKnown whether the columns of the checkpoint are known. Otherwise their texts must be the same
  * @param refused sentences about columns that can't change so
  * @param told    what becomes of buffered rows
  */
private[join] final case class SchemaChange(
    schemas: Seq[JoinSchema],
    schema: Int,
    isKnown: Boolean,
    refused: Seq[String],
    told: Seq[String]
)

private[join] object SchemaChange {
  import JoinCheckpoint.{LeftColumns, RightColumns, RightKeys}

  /** @param settings of the query
    * @param now      the query's columns
    */
  def of(
      checkpoint: JoinCheckpoint,
      settings: Map[String, String],
      now: JoinSchema,
      words: ColumnWords
  ): SchemaChange = {
    val areSame =
      Seq(LeftColumns, RightColumns).forall(name => checkpoint.settings.get(name) == settings.get(name))
    val before =
      if (checkpoint.schemas.nonEmpty) Some(checkpoint.schemas)
      // The checkpoint is of an earlier release. With equal texts, its columns are the query's.
      else if (areSame) Some(Seq(now))
      else ofTexts(checkpoint.settings).map(Seq(_))
    before.fold(SchemaChange(Nil, 0, isKnown = false, Nil, Nil)) { schemas =>
      val last = schemas(checkpoint.schema)
      def changes(from: JoinSchema) = Seq(
        words.columns(Side.Left, from.leftColumns, now.leftColumns),
        words.columns(Side.Right, from.rightColumns, now.rightColumns)
      )
      val next = changes(last)
      // Rows of earlier starts may be buffered, too, and each is read by the schema that it was written with.
      val lost =
        if (now == last) Nil
        else schemas.filterNot(s => s == last || s == now).flatMap(changes(_).flatMap(_.lost))
      // A query that returns to earlier columns finds the rows of that time as they were.
      val known = schemas.indexOf(now)
      val (all, number) = if (known >= 0) (schemas, known) else (schemas :+ now, schemas.size)
      // If all sources that the query has had are known by name, it is known which come back.
      val returned = words.returned(checkpoint.settings, last.rightColumns, checkpoint.sources.nonEmpty)
      val told = next.flatMap(_.told) ++ lost.distinct
      SchemaChange(all, number, isKnown = true, next.flatMap(_.refused) ++ returned, told)
    }
  }

  /** The columns of a checkpoint that has their texts only. */
  private def ofTexts(settings: Map[String, String]): Option[JoinSchema] = for {
    left <- settings.get(LeftColumns).flatMap(ColumnTexts.read)
    right <- settings.get(RightColumns).flatMap(ColumnTexts.read)
    keys <- settings.get(RightKeys).flatMap(ColumnTexts.read)
  } yield {
    val names = keys.map(_.name).toSet
    JoinSchema.of(left, StructType(right.filterNot(column => names(column.name))))
  }
}
