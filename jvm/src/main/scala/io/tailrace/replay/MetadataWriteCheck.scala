package io.tailrace.replay

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, ExprId, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Generate, LogicalPlan, Union}
import org.apache.spark.sql.tailrace.{QueryStart, SparkPlans}

import io.tailrace.common.TailraceConf
import io.tailrace.plan.WriteCheck

/** Refuses a streaming query that writes records' metadata, if a reader would take its original records for
  * replays. The rows of a source partition must come to one partition of the sink, in their order, each with
  * an offset of its own.
  */
private[tailrace] object MetadataWriteCheck extends WriteCheck with Logging {
  override def apply(start: QueryStart): Unit = {
    val origins = MetadataOrigin.of(start.plan)
    val problems = of(start, origins)
    if (TailraceConf.ReplayProducerCheck.read(SparkPlans.activeSetting)) problems.headOption.foreach(throw _)
    else problems.foreach(problem => logWarning(problem.getMessage))
    if (origins.nonEmpty) TopicIds.check(start, origins)
  }

  private def of(start: QueryStart, origins: Seq[MetadataOrigin]): Seq[Throwable] = {
    val query = start.plan
    merges(query) ++ unions(query) ++ branches(origins) ++ origins.flatMap { origin =>
      val order = new MetadataOrder(origin)
      order.broken.map(MetadataErrors.order).toSeq ++ shared(origin) ++
        (if (KafkaRead.isKafka(start.sink)) spread(query, order) else Nil)
    }
  }

  private def merges(query: LogicalPlan): Seq[Throwable] = query.collect {
    case a: Aggregate
        if a.isStreaming && a.expressions.exists(_.exists(_.isInstanceOf[MergeStreamMetadata])) =>
      MetadataErrors.merge()
  }

  /** Two branches that may give the same origin. */
  private def unions(query: LogicalPlan): Seq[Throwable] = query
    .collect {
      case union: Union if union.isStreaming => union.children.map(MetadataOrigin.of(_).map(pid).toSet)
    }
    .collect {
      case branches if branches.flatten.size > branches.flatten.toSet.size => sameProducer
    }

  /** Two branches of a union below the node that makes the metadata. */
  private def branches(origins: Seq[MetadataOrigin]): Seq[Throwable] = {
    val together = origins.groupBy(origin => (origin.metadata, origin.input)).values.toSeq
    together.flatMap(_.combinations(2)).collect {
      case Seq(one, other) if names(one) == names(other) && !readOtherTopics(one, other) => sameProducer
    }
  }

  private def sameProducer: Throwable =
    MetadataErrors.shared("two branches of a union have the same producer id", "stream")

  /** The expressions that name the origin, without the offset. Columns go by their names. */
  private def names(origin: MetadataOrigin): Seq[String] =
    Seq(origin.metadata.producerId, origin.metadata.partition).map(origin.resolved).map { expression =>
      def named(a: Attribute) = AttributeReference(a.name, a.dataType)(ExprId(0))
      expression.transform { case a: Attribute => named(a) }.canonicalized.sql
    }

  private def readOtherTopics(one: MetadataOrigin, other: MetadataOrigin): Boolean =
    Seq(one, other).forall(namesTopic) && (Seq(one, other).map(_.below.last) match {
      case Seq(KafkaRead(a), KafkaRead(b)) =>
        (for { of <- a.topics; others <- b.topics } yield of.intersect(others).isEmpty).getOrElse(false)
      case _ => false
    })

  private def pid(origin: MetadataOrigin): Expression =
    MetadataOrigin.resolved(origin.metadata.producerId, origin.input).canonicalized

  private def shared(origin: MetadataOrigin): Seq[Throwable] = {
    val offsets = origin.metadata.offset.references
    val several = origin.nodes.collectFirst {
      case g: Generate if !offsets.exists(g.generatorOutput.contains) =>
        MetadataErrors.shared("one row becomes several (explode)", "offset")
    }
    val sameNumbers = "the source reads several topics, whose partitions have the same numbers"
    val topics = origin.below.lastOption.collect {
      case KafkaRead(read) if read.mayReadSeveral && !namesTopic(origin) =>
        MetadataErrors.shared(sameNumbers, "path")
    }
    several.toSeq ++ topics
  }

  private def namesTopic(origin: MetadataOrigin): Boolean =
    Seq(origin.metadata.producerId, origin.metadata.partition)
      .flatMap(origin.resolved(_).references)
      .exists(_.name == "topic")

  /** Checks that the sink is given a partition, which is the same for all rows of a source partition. */
  private def spread(query: LogicalPlan, order: MetadataOrder): Seq[Throwable] =
    query.output.find(_.name == "partition") match {
      case None => Seq(MetadataErrors.partition("the query gives the Kafka sink no column `partition`"))
      case Some(column) =>
        val made = MetadataOrigin.resolved(column, query)
        if (made.deterministic && made.references.subsetOf(order.partition)) Nil
        else
          Seq(MetadataErrors.partition(s"`partition` is made of more than the source partition: ${made.sql}"))
    }
}
