package io.tailrace.join

import org.apache.spark.SparkConf

/** Settings of Spark with which partitions wander between executors. Each one that comes to another executor copies its state
  * from the checkpoint there. The output stays right, so a query is warned of them, and not refused.
  */
private[join] object ClusterSettings {

  /** @return for each of them its name, its value, what it does, and what to set */
  def thatMovePartitions(conf: SparkConf): Seq[String] = {
    def isOn(key: String) = conf.getBoolean(key, defaultValue = false)
    val speculation = Option.when(isOn("spark.speculation")) {
      "spark.speculation is true: a second copy of a slow task runs on another executor, and reads its partition's state " +
        "there. Set it to false"
    }
    val allocation = Option.when(isOn("spark.dynamicAllocation.enabled")) {
      "spark.dynamicAllocation.enabled is true: an executor that goes takes the local state of its partitions with it. Set " +
        "it to false for a query that always runs"
    }
    val wait = "spark.locality.wait"
    val locality = Option.when(conf.getTimeAsMs(s"$wait.process", conf.get(wait, "3s")) == 0) {
      s"$wait is 0: a task runs wherever a core is free, and not where its partition's state is. Set it to 3s or more"
    }
    Seq(speculation, allocation, locality).flatten
  }
}
