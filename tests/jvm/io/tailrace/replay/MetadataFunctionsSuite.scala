package io.tailrace.replay

import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
import org.apache.spark.sql.functions._
import org.apache.spark.sql.{AnalysisException, Column, Row}

import io.tailrace.testkit.SparkSuite

/** The functions as a query calls them, interpreted and as generated code. */
final class MetadataFunctionsSuite extends SparkSuite {
  private val modes = Seq("CODEGEN_ONLY", "NO_CODEGEN")

  private def inEachMode(body: => Unit): Unit = modes.foreach { mode =>
    val whole = mode == "CODEGEN_ONLY"
    withConf("spark.sql.codegen.factoryMode" -> mode, "spark.sql.codegen.wholeStage" -> whole)(body)
  }

  private def refused(condition: String)(body: => Unit): Unit =
    assert(intercept[AnalysisException](body).getCondition == condition)

  test("metadata is written and read as the golden vectors say") {
    import spark.implicits._
    val records = GoldenMetadata.records
    val frame =
      records.map(r => (r.pid, r.partition, r.offset, r.bytes)).toDF("p", "q", "o", "b").repartition(1)
    inEachMode {
      val rows = frame
        .select(
          call_function("stream_metadata", $"p", $"q", $"o"),
          call_function("parse_stream_metadata", $"b"),
          call_function("stream_metadata", $"p", $"q", $"o", lit("sqe"))
        )
        .collect()
      rows.zip(records).foreach { case (row, r) =>
        assert(Option(row.getAs[Array[Byte]](0)).map(_.toSeq) == r.tagged.map(_.toSeq))
        assert(row.getStruct(1) == Row(r.pid, r.partition, r.offset))
        assert(Option(row.getAs[Array[Byte]](2)).map(_.toSeq) == r.sqe.map(_.toSeq))
      }
      val invalid = (GoldenMetadata.invalid :+ null).toDF("b")
      assert(invalid.select(call_function("parse_stream_metadata", $"b")).collect().forall(_.isNullAt(0)))
    }
  }

  test("SQE reads what is written in its form: producer id, partition and offset, big-endian, in 20 bytes") {
    import spark.implicits._
    val records = GoldenMetadata.records.filter(_.sqe.nonEmpty)
    val frame = records.map(r => (r.pid, r.partition, r.offset)).toDF("p", "q", "o").repartition(1)
    inEachMode {
      val rows = frame.select(call_function("stream_metadata", $"p", $"q", $"o", lit("sqe"))).as[Array[Byte]]
      val read = rows.collect().map { bytes =>
        assert(bytes.length == 20)
        val in = new java.io.DataInputStream(new java.io.ByteArrayInputStream(bytes))
        (in.readLong(), in.readInt(), in.readLong())
      }
      assert(read.toSeq == records.map(r => (r.pid, r.partition, r.offset)))
    }
  }

  test("a format that isn't there is refused when the query is analyzed") {
    import spark.implicits._
    Seq(lit("SQE"), lit(""), lit(null), lit(20), $"id".cast("string")).foreach { format =>
      val call = call_function("stream_metadata", lit(1L), lit(1), $"id", format)
      refused("TAILRACE_OPTION_INVALID")(spark.range(1).select(call).queryExecution.analyzed: Unit)
    }
  }

  test("a null part makes no metadata; an int is taken for a long") {
    val sql = "SELECT stream_metadata(p, q, o) FROM VALUES (1L, 2, CAST(null AS BIGINT)), (null, 2, 3L), " +
      "(1L, null, 3L) t(p, q, o)"
    inEachMode(assert(spark.sql(sql).collect().forall(_.isNullAt(0))))
    val bytes = spark.sql("SELECT stream_metadata(1, 2, 3)").head().getAs[Array[Byte]](0)
    assert(bytes.toSeq == RecordMetadata.encode(1, 2, 3).toSeq)
  }

  test("producer_id is a constant, the same in SQL and in Scala, with and without an epoch") {
    GoldenMetadata.producers.foreach { p =>
      val found = spark.range(1).select(call_function("producer_id", p.parts.map(lit): _*)).head().getLong(0)
      assert(found == p.pid)
    }
    val sql = spark.sql("SELECT producer_id('sessions', 'clicks', 'b1:9092,b2:9092', 'topic-1') AS id")
    assert(sql.head().getLong(0) == GoldenMetadata.producers.head.pid)
    val frame = spark.range(1).select(call_function("producer_id", Seq.fill(4)(lit("x")): _*))
    val calls = frame.queryExecution.optimizedPlan.expressions.flatMap(_.collect { case call: StaticInvoke =>
      call
    })
    assert(calls.isEmpty)
  }

  test("source_partition: the same where there are enough partitions, else the remainder") {
    import spark.implicits._
    val frame = (0 until 8).toDF("p")
    def at(destinations: Int): Seq[Int] =
      frame.select(call_function("source_partition", $"p", lit(destinations))).as[Int].collect().toSeq
    inEachMode {
      Seq(8, 9, 100).foreach(n => assert(at(n) == (0 until 8)))
      assert(at(3) == Seq(0, 1, 2, 0, 1, 2, 0, 1))
      assert(at(1) == Seq.fill(8)(0))
    }
  }

  test("merge_stream_metadata: the greatest offset of a group, over partial results; null if one has none") {
    import spark.implicits._
    val rows =
      for { pid <- Seq(1L, -1L); partition <- 0 to 2; offset <- 0L to 99L } yield (pid, partition, offset)
    val frame = rows.toDF("p", "q", "o").repartition(5)
    val merged = call_function("merge_stream_metadata", call_function("stream_metadata", $"p", $"q", $"o"))
    inEachMode {
      val found = frame.groupBy("p", "q").agg(merged.as("m")).collect()
      assert(found.length == 6)
      found.foreach { r =>
        assert(r.getAs[Array[Byte]]("m").toSeq == RecordMetadata.encode(r.getLong(0), r.getInt(1), 99).toSeq)
      }
      val some = when($"o" =!= 7 || $"p" =!= 1, $"o")
      val withNull =
        call_function("merge_stream_metadata", call_function("stream_metadata", $"p", $"q", some))
      val nulls = frame.groupBy("p", "q").agg(withNull.as("m")).collect().groupBy(_.getLong(0))
      assert(nulls(1L).forall(_.isNullAt(2)))
      assert(nulls(-1L).forall(!_.isNullAt(2)))
    }
    assert(frame.limit(0).agg(merged).head().isNullAt(0))
  }

  test("merge_stream_metadata refuses two origins in a group, in one task or in two") {
    import spark.implicits._
    val merged =
      call_function("merge_stream_metadata", call_function("stream_metadata", $"p", lit(0), lit(5L)))
    Seq(1, 2).foreach { tasks =>
      val frame = spark.range(0, 2, 1, tasks).select($"id".as("p"))
      val error = intercept[Exception](frame.agg(merged).collect())
      val causes =
        Iterator.iterate[Throwable](error)(_.getCause).takeWhile(_ != null).map(_.getMessage).mkString
      assert(causes.contains("TAILRACE_METADATA_MIXED"), causes)
    }
  }

  test("arguments out of range are refused when the query is planned") {
    import spark.implicits._
    def select(column: Column): Unit = { spark.range(1).select(column).queryExecution.analyzed; () }
    refused("DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE")(
      select(call_function("stream_metadata", lit(1L), lit(-1), $"id"))
    )
    refused("DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE")(
      select(call_function("stream_metadata", lit(1L), lit(1), lit(-1L)))
    )
    refused("DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE")(
      select(call_function("stream_metadata", lit(1L), lit(1), lit(Long.MaxValue)))
    )
    refused("DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE")(select(call_function("source_partition", lit(1), lit(0))))
    refused("DATATYPE_MISMATCH.NON_FOLDABLE_INPUT")(
      select(call_function("source_partition", lit(1), $"id".cast("int")))
    )
    refused("TAILRACE_FUNCTION_ARGUMENTS")(select(call_function("stream_metadata", lit(1L))))
    refused("TAILRACE_FUNCTION_ARGUMENTS")(select(call_function("producer_id", lit("a"))))
  }

  test("an argument that is no whole number is refused when the query is analyzed") {
    import spark.implicits._
    val frame = Seq(("1", 1.5, 1)).toDF("s", "d", "i")
    def checked(argument: String, dataType: String)(function: String, arguments: Column*): Unit = {
      // Spark copies the exception, to add the place in the query.
      val error = intercept[AnalysisException](frame.select(call_function(function, arguments: _*)))
      assert(error.getCondition == "TAILRACE_FUNCTION_ARGUMENT_TYPE")
      val told =
        s"`$argument` of $function has the type $dataType. It has to be a whole number, INT or BIGINT."
      assert(error.getMessage.contains(told))
    }
    checked("producer_id", "STRING")("stream_metadata", $"s", $"i", $"i")
    checked("partition", "STRING")("stream_metadata", $"i", $"s", $"i")
    checked("offset", "DOUBLE")("stream_metadata", $"i", $"i", $"d")
    checked("offset", "ARRAY<INT>")("stream_metadata", $"i", $"i", array($"i"))
    checked("partition", "STRING")("source_partition", $"s", lit(3))
    checked("destination_partitions", "STRING")("source_partition", $"i", lit("3"))
  }

  test("an offset or partition in the data that is out of range makes null") {
    import spark.implicits._
    val frame = Seq(-1L -> 0, Long.MaxValue -> 0, 0L -> -1, 0L -> 0).toDF("o", "p")
    inEachMode {
      val bytes = frame.select(call_function("stream_metadata", lit(1L), $"p", $"o")).collect()
      assert(bytes.map(_.isNullAt(0)).toSeq == Seq(true, true, true, false))
    }
  }
}
