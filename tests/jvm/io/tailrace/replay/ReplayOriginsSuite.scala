package io.tailrace.replay

import org.apache.spark.SparkException

import io.tailrace.api.Tailrace

/** Records of one origin that are read from several partitions. */
final class ReplayOriginsSuite extends ReplayPipelineSuite {
  import spark.implicits._

  test("records of one origin from several partitions fail their batch, in one task and in several") {
    Seq(1, 8).foreach { tasks =>
      withDirectory { directory =>
        withConf("spark.sql.shuffle.partitions" -> tasks, "spark.sql.adaptive.enabled" -> false) {
          val pipeline = new Pipeline(directory, byKey).start()
          failsByName(pipeline, "TAILRACE_REPLAY_ORIGIN_SPLIT") {
            pipeline.add((0 until 20).map(i => written(i % 8, i.toLong, 1, 0, i.toLong)))
          }
          assert(pipeline.failure._2("places").matches("t/[0-7] and t/[0-7]"))
          assert(pipeline.values.isEmpty, "nothing of it is out")
          failsByName(pipeline, "TAILRACE_REPLAY_ORIGIN_SPLIT")(pipeline.start().query.processAllAvailable())
        }
      }
    }
    withConf("spark.sql.shuffle.partitions" -> 8, "spark.sql.adaptive.enabled" -> false) {
      val frame = (0 until 20).map(i => written(i % 8, i.toLong, 1, 0, i.toLong)).toDF()
      val error = intercept[SparkException](byKey(frame).collect())
      assert(error.getCondition == "TAILRACE_REPLAY_ORIGIN_SPLIT")
    }
  }

  test("an origin that is read at its home and elsewhere in one batch fails it, before any row is out") {
    Seq(0 -> 1, 1 -> 0).foreach { case (home, other) =>
      withDirectory { directory =>
        withConf("spark.sql.shuffle.partitions" -> 8, "spark.sql.adaptive.enabled" -> false) {
          val pipeline = new Pipeline(directory, byKey).start()
          pipeline.add(Seq(written(home, 0, 1, 0, 41), written(other, 0, 2, 0, 41)))
          failsByName(pipeline, "TAILRACE_REPLAY_ORIGIN_SPLIT") {
            pipeline.add(
              (42L to 44L).map(i => written(home, i, 1, 0, i)) ++ (44L to 45L)
                .map(i => written(other, i, 1, 0, i))
            )
          }
          assert(pipeline.failure._2("places").split(" and ").toSet == Set("t/0", "t/1"))
          assert(pipeline.values.sorted == Seq("1/0/41", "2/0/41"), "nothing of the second batch is out")
        }
      }
    }
  }

  test("an origin may move to another partition between batches; records below its mark are refused then") {
    withDirectory { directory =>
      val pipeline = new Pipeline(directory, byKey).start()
      pipeline.add(Seq(written(0, 0, 1, 0, 5), written(0, 1, 1, 0, 6)))
      pipeline.restart().add(Seq(written(1, 0, 1, 0, 6), written(1, 1, 1, 0, 7), written(1, 2, 1, 0, 6)))
      assert(pipeline.values == Seq("1/0/5", "1/0/6", "1/0/7"))
      failsByName(pipeline, "TAILRACE_REPLAY_ORIGIN_MOVED")(pipeline.add(Seq(written(0, 2, 1, 0, 6))))
      assert(
        pipeline.failure._2.filter(p => Set("from", "to", "mark")(p._1)) ==
          Map("from" -> "t/1", "to" -> "t/0", "mark" -> "7")
      )
    }
    withDirectory { directory =>
      val filter: Filter = Tailrace.filterReplays(_, ReplayOptions(disorder = 10))
      val pipeline = new Pipeline(directory, filter).start()
      pipeline.add(Seq(written(0, 0, 1, 0, 5), written(0, 1, 1, 0, 8)))
      pipeline.add(Seq(written(1, 0, 1, 0, 7), written(1, 1, 1, 0, 5)))
      assert(pipeline.values == Seq("1/0/5", "1/0/8", "1/0/7"), "the window knows of each")
    }
  }
}
