package io.tailrace.join

import org.apache.spark.sql.types.StructType

/** What a start of a query with other columns means for its checkpoint.
  *
  * @param schemas  the checkpoint's, with that of the query
  * @param schema   the number of the query's
  * @param settings those that may differ: the texts of the columns
  * @param refused  why it can't be, as sentences
  * @param told     what becomes of rows that wait
  */
private[join] final case class SchemaChange(
    schemas: Seq[JoinSchema],
    schema: Int,
    settings: Set[String],
    refused: Seq[String],
    told: Seq[String]
)

private[join] object SchemaChange {
  import JoinCheckpoint.{LeftColumns, RightColumns, RightKeys}

  /** @param settings of the query now
    * @param now      the query's columns
    * @param areNamed whether all sources that the query has had are known by name: then it is known which come back
    */
  def of(
      checkpoint: JoinCheckpoint,
      settings: Map[String, String],
      now: JoinSchema,
      words: SettingWords,
      areNamed: Boolean
  ): SchemaChange = {
    val texts = Set(LeftColumns, RightColumns)
    val areSame = texts.forall(name => checkpoint.settings.get(name) == settings.get(name))
    val before =
      if (checkpoint.schemas.nonEmpty) Some(checkpoint.schemas)
      // Of an earlier release. With equal texts the columns are those of now.
      else if (areSame) Some(Seq(now))
      else ofTexts(checkpoint.settings).map(Seq(_))
    before.fold(SchemaChange(Nil, 0, Set.empty, Nil, Nil)) { schemas =>
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
      // A query that goes back to earlier columns finds the rows of then as they were.
      val known = schemas.indexOf(now)
      val (all, number) = if (known >= 0) (schemas, known) else (schemas :+ now, schemas.size)
      val returned = words.returned(checkpoint.settings, last.rightColumns, areNamed)
      val told = next.flatMap(_.told) ++ lost.distinct
      SchemaChange(all, number, texts, next.flatMap(_.refused) ++ returned, told)
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
