package io.tailrace.replay

import java.util.concurrent.{Future, TimeUnit}
import java.util.{Collection => JCollection, Collections, Locale, Map => JMap, Properties}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.expressions.{
  Alias,
  Attribute,
  AttributeMap,
  AttributeReference,
  AttributeSet,
  ExprId,
  Expression,
  RuntimeReplaceable
}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.tailrace._
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.json4s.JsonAST.{JField, JObject, JString}
import org.json4s.jackson.JsonMethods

import io.tailrace.checkpoint.{CheckedText, DurableFiles}
import io.tailrace.common.TailraceConf
import io.tailrace.plan.{TailraceNode, WrapsTable, WriteCheck}

/** One place in a query where metadata for its sink is made.
  *
  * @param metadata the expression that makes it
  * @param above    the nodes from the sink down to the one that makes it, inclusive
  * @param input    the child of that node
  * @param below    the nodes from there down to the source of the partition and the offset. Each branch of a
  *                 union is an origin of its own
  */
private[replay] final case class MetadataOrigin(
    metadata: StreamMetadata,
    above: Seq[LogicalPlan],
    input: LogicalPlan,
    below: Seq[LogicalPlan]
) {

  /** All nodes between the sink and the source. */
  def nodes: Seq[LogicalPlan] = above ++ below

  /** Rewrites an expression over the input's columns into one over the source's columns. */
  def resolved(expression: Expression): Expression = MetadataOrigin.along(expression, below)
}

private[replay] object MetadataOrigin {

  /** The origins of all metadata in a plan's columns. */
  def of(plan: LogicalPlan): Seq[MetadataOrigin] = carried(plan, plan.outputSet, Nil)

  private def carried(
      plan: LogicalPlan,
      wanted: AttributeSet,
      above: Seq[LogicalPlan]
  ): Seq[MetadataOrigin] = {
    val made = plan match {
      case Project(list, child) =>
        list
          .filter(e => wanted.contains(e.toAttribute))
          .flatMap(_.collect { case m: StreamMetadata => m })
          .flatMap { m =>
            val followed = AttributeSet(Seq(m.partition, m.offset).flatMap(_.references))
            paths(child, followed).map(MetadataOrigin(m, above :+ plan, child, _))
          }
      case _ => Nil
    }
    made ++ inputs(plan, wanted).flatMap { case (child, attributes) =>
      carried(child, attributes, above :+ plan)
    }
  }

  /** The children that some attributes of a node come from, each with its attributes that they are made of.
    */
  private def inputs(plan: LogicalPlan, wanted: AttributeSet): Seq[(LogicalPlan, AttributeSet)] = plan match {
    case Project(list, child) =>
      Seq(child -> AttributeSet(list.filter(e => wanted.contains(e.toAttribute)).flatMap(_.references)))
    case union: Union =>
      union.children.map { child =>
        child -> AttributeSet(union.output.zip(child.output).collect {
          case (o, c) if wanted.contains(o) => c
        })
      }
    case other =>
      val all = if (wanted.subsetOf(other.inputSet)) wanted else wanted ++ other.references
      other.children.map(child => child -> all.intersect(child.outputSet)).filter(_._2.nonEmpty)
  }

  private def paths(plan: LogicalPlan, wanted: AttributeSet): Seq[Seq[LogicalPlan]] = {
    val all = inputs(plan, wanted)
    val followed = if (plan.isInstanceOf[Union]) all else all.take(1)
    if (followed.isEmpty) Seq(Seq(plan))
    else followed.flatMap { case (child, attributes) => paths(child, attributes).map(plan +: _) }
  }

  private def along(expression: Expression, path: Seq[LogicalPlan]): Expression = path match {
    case (project: Project) +: rest => along(made(expression, project), rest)
    case (union: Union) +: (branch +: rest) =>
      val columns = AttributeMap(union.output.zip(branch.output))
      along(expression.transform { case a: Attribute if columns.contains(a) => columns(a) }, branch +: rest)
    case _ +: (next +: rest) if expression.references.subsetOf(next.outputSet) =>
      along(expression, next +: rest)
    case _ => expression
  }

  private def made(expression: Expression, project: Project): Expression = {
    val aliases = AttributeMap(project.projectList.collect { case a: Alias => a.toAttribute -> a.child })
    expression.transform { case a: Attribute if aliases.contains(a) => aliases(a) }
  }

  /** Rewrites an expression over a plan's columns into one over the columns of its sources. */
  def resolved(expression: Expression, plan: LogicalPlan): Expression = plan match {
    case project: Project => resolved(made(expression, project), project.child)
    case _: Union => expression
    case other =>
      other.children
        .find(child => expression.references.subsetOf(child.outputSet))
        .fold(expression)(resolved(expression, _))
  }
}

/** Finds out whether rows with metadata come to the sink in the order of their source partition, all rows of
  * a partition in one task. If they don't, a reader takes original records for replays.
  *
  * An exchange by the source partition alone does no harm: rows that one task sends to another arrive in the
  * order in which they were sent.
  */
private[replay] final class MetadataOrder(origin: MetadataOrigin) {

  /** The columns that name a row's source partition. */
  val partition: AttributeSet = {
    val topics = origin.below.lastOption.toSeq.flatMap(_.output.filter(_.name == "topic"))
    // The columns of a union, and the columns of its branch.
    val made = Seq(
      MetadataOrigin.resolved(origin.metadata.partition, origin.input),
      origin.resolved(origin.metadata.partition)
    )
    AttributeSet(made.flatMap(_.references) ++ topics)
  }

  /** The reason why rows arrive out of order, in a user's words. */
  def broken: Option[String] =
    origin.nodes.flatMap(node => disturbs(node).orElse(KafkaRead.splits(node))).headOption

  private def isOfPartition(e: Expression, input: LogicalPlan): Boolean =
    MetadataOrigin.resolved(e, input).references.subsetOf(partition)

  private def disturbs(node: LogicalPlan): Option[String] = node match {
    case r: Repartition if !r.shuffle => None
    case r: RepartitionByExpression
        if r.partitionExpressions.nonEmpty && r.partitionExpressions.forall(isOfPartition(_, r.child)) =>
      None
    case _: RepartitionOperation | _: RebalancePartitions => Some("an exchange (repartition)")
    case _: Sort => Some("a sort")
    case _: Window => Some("a window function")
    case _: Aggregate | _: Distinct => Some("an aggregation")
    case _: Deduplicate | _: DeduplicateWithinWatermark => Some("the removal of duplicates")
    case _: GlobalLimit => Some("a limit")
    case j: Join if j.children.forall(_.isStreaming) => Some("a join of two streams")
    case j: Join if !isBroadcast(j) => Some("a join with a table that isn't broadcast")
    case node: TailraceNode => node.reorders
    // Groups by the source partition too: Spark promises no order of a group's rows, and the function may
    // reorder them.
    case _: MapGroups | _: FlatMapGroupsWithState | _: TransformWithState | _: CoGroup =>
      Some("groups of rows")
    case _: FlatMapGroupsInPandas | _: FlatMapGroupsInArrow | _: FlatMapGroupsInPandasWithState |
        _: TransformWithStateInPySpark | _: FlatMapCoGroupsInPandas | _: FlatMapCoGroupsInArrow =>
      Some("groups of rows")
    case _: FlatMapGroupsInR | _: FlatMapGroupsInRWithArrow => Some("groups of rows")
    case _: SetOperation => Some("a set operation")
    case _ => None
  }

  private def isBroadcast(join: Join): Boolean = {
    val (table, hint) =
      if (join.left.isStreaming) (join.right, join.hint.rightHint) else (join.left, join.hint.leftHint)
    // Before the optimizer has run, a hint is a node of its own.
    val hinted = hint.flatMap(_.strategy).contains(BROADCAST) || table.exists {
      case h: ResolvedHint => h.hints.strategy.contains(BROADCAST)
      case _ => false
    }
    hinted || table.stats.sizeInBytes <= SparkPlans.broadcastBytes
  }
}

/** A read from Kafka, in the plan of a query that isn't started yet.
  *
  * @param options of the source
  */
private[replay] final case class KafkaRead(options: CaseInsensitiveStringMap, loader: ClassLoader) {

  /** The topics by name; none if a pattern finds them, or if the source is going to refuse its options. */
  def topics: Option[Seq[String]] = Option(options.get("subscribe"))
    .map(KafkaJson.subscribed)
    .orElse(Option(options.get("assign")).flatMap(KafkaJson.topics).map(_.map(_._1)))

  /** True if records of several topics may arrive. */
  def mayReadSeveral: Boolean = {
    val isRefused = topics.isEmpty && options.containsKey("assign")
    !isRefused && !topics.exists(_.size == 1)
  }
}

private[replay] object KafkaRead {

  /** Options that split a partition's records over several tasks. */
  val Splitting: Seq[String] = Seq("minPartitions", "maxRecordsPerPartition")

  def isKafka(table: Table): Boolean = table.getClass.getName.startsWith("org.apache.spark.sql.kafka010.")

  def unapply(node: LogicalPlan): Option[KafkaRead] = node match {
    case r: StreamingRelationV2 if isKafka(r.table) =>
      Some(KafkaRead(r.extraOptions, r.table.getClass.getClassLoader))
    case _ => None
  }

  /** The reason why several tasks read a partition's records at the same time, in a user's words. */
  def splits(node: LogicalPlan): Option[String] = for {
    read <- unapply(node)
    option <- Splitting.find(read.options.containsKey(_))
  } yield s"several tasks to a partition (the Kafka source's $option)"
}

/** Finds out whether one task reads a partition of a topic, by its offsets. Then no shuffle and no sort is
  * needed to judge records in that order.
  */
object KafkaOrder {

  /** @param order topic, partition and offset */
  def isKept(plan: LogicalPlan, order: Seq[Attribute]): Boolean = plan match {
    case Project(_, child) => isKept(child, order)
    case Filter(_, child) => isKept(child, order)
    case EventTimeWatermark(_, _, _, child) => isKept(child, order)
    case node: TailraceNode if node.keepsTasks => node.children.forall(isKept(_, order))
    case scan: StreamingDataSourceV2ScanRelation =>
      KafkaRead.isKafka(source(scan.relation.table)) &&
      !KafkaRead.Splitting.exists(scan.relation.options.containsKey(_)) &&
      order.map(_.name) == Seq("topic", "partition", "offset") && AttributeSet(order).subsetOf(scan.outputSet)
    case _ => false
  }

  private def source(table: Table): Table = table match {
    case wrapper: WrapsTable => wrapper.source
    case other => other
  }
}

/** Notices by Kafka's topic id that a topic was deleted and created again. Its offsets begin again, so with
  * the same producer id its records would look like replays. The query's checkpoint has the id that each
  * producer's topic had when it was first read, in `tailrace-producer/topics` (`jvm/docs/formats.md`).
  */
private[tailrace] object TopicIds extends Logging {
  private val text = new CheckedText("tailrace-producer-topics", "a list of topics", oldest = 1, newest = 1)
  private val LongestSeconds = 10L

  /** Producer and topic. */
  private[tailrace] type Ids = Map[(String, String), String]

  def check(start: QueryStart, origins: Seq[MetadataOrigin]): Unit = {
    val reads = for {
      origin <- origins
      case KafkaRead(read) <- origin.below.lastOption
      topics <- read.topics
    } yield (producer(origin), read, topics)
    for { directory <- start.checkpoint if reads.nonEmpty } {
      val file = new Path(new Path(directory, "tailrace-producer"), "topics")
      val files = DurableFiles.in(directory, start.hadoopConf)
      val known = files.find(file).fold(Map.empty: Ids)(decode(_, file.toString))
      val found: Ids = reads.flatMap { case (pid, read, topics) =>
        ask(read, topics).map { case (topic, id) => (pid, topic) -> id }
      }.toMap
      found.foreach { case (of @ (_, topic), id) =>
        known.get(of).filter(_ != id).foreach(before => throw MetadataErrors.topicAnew(topic, before, id))
      }
      if (!found.keySet.subsetOf(known.keySet)) files.write(file)(_.write(text.encode(json(known ++ found))))
    }
  }

  private def producer(origin: MetadataOrigin): String = {
    val id = MetadataOrigin.resolved(origin.metadata.producerId, origin.input)
    val calls: Expression = id.transform { case call: RuntimeReplaceable => call.replacement }
    if (calls.foldable) calls.eval().toString else calls.canonicalized.sql
  }

  private def json(ids: Ids): String = {
    val fields = ids.toList.groupBy(_._1._1).toList.sortBy(_._1).map { case (pid, topics) =>
      JField(pid, JObject(topics.sortBy(_._1._2).map { case ((_, topic), id) => JField(topic, JString(id)) }))
    }
    JsonMethods.compact(JObject(fields))
  }

  private[tailrace] def decode(bytes: Array[Byte], file: String): Ids = text.decode(bytes, file)(ids)

  private def ids(json: String): Ids = {
    val found = for {
      case (pid, topics) <- JsonMethods.parse(json).asInstanceOf[JObject].obj
      case (topic, JString(id)) <- topics.asInstanceOf[JObject].obj
    } yield (pid, topic) -> id
    found.toMap
  }

  /** Asks by the client that Spark's connector brings. If the broker doesn't answer, the next start asks
    * again: the source itself reports the broker's problem.
    */
  private def ask(read: KafkaRead, topics: Seq[String]): Map[String, String] =
    try new TopicQuestion(read).ids(topics)
    catch {
      case NonFatal(e) =>
        val created = s"whether ${topics.mkString(", ")} were created again"
        logWarning(s"TAILRACE_METADATA_TOPICS_UNKNOWN: can't find out $created", e)
        Map.empty
    }

  /** Uses reflection, because Tailrace is built without Spark's Kafka connector. */
  private final class TopicQuestion(read: KafkaRead) {
    private def of(name: String): Class[_] =
      Class.forName(s"org.apache.kafka.clients.admin.$name", true, read.loader)

    def ids(topics: Seq[String]): Map[String, String] = {
      val properties = new Properties
      read.options.asCaseSensitiveMap.asScala
        .filter(_._1.toLowerCase(Locale.ROOT).startsWith("kafka."))
        .foreach { case (key, value) => properties.put(key.drop("kafka.".length), value) }
      properties.put("default.api.timeout.ms", (LongestSeconds * 1000).toString)
      properties.put("request.timeout.ms", (LongestSeconds * 500).toString)
      val admin = of("Admin").getMethod("create", classOf[Properties]).invoke(null, properties)
      try topics.flatMap(topic => id(admin, topic).map(topic -> _)).toMap
      finally admin.asInstanceOf[AutoCloseable].close()
    }

    private def id(admin: AnyRef, topic: String): Option[String] = {
      val describe = of("Admin").getMethod("describeTopics", classOf[JCollection[_]])
      val result = describe.invoke(admin, Collections.singleton(topic))
      val future = of("DescribeTopicsResult").getMethod("allTopicNames").invoke(result)
      val found = future.asInstanceOf[Future[JMap[String, AnyRef]]].get(LongestSeconds, TimeUnit.SECONDS)
      val id = of("TopicDescription").getMethod("topicId").invoke(found.get(topic)).toString
      // Old brokers have no ids.
      Option.when(id != "AAAAAAAAAAAAAAAAAAAAAA")(id)
    }
  }
}

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
