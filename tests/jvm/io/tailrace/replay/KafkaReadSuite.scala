package io.tailrace.replay

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.scalatest.funsuite.AnyFunSuite

final class KafkaReadSuite extends AnyFunSuite {
  private def read(options: (String, String)*) =
    KafkaRead(new CaseInsensitiveStringMap(options.toMap.asJava), getClass.getClassLoader)

  test("topics are known by name from either option, and not from a pattern") {
    assert(read("subscribe" -> " a, b,,").topics.contains(Seq("a", "b")))
    assert(read("Assign" -> """{"a":[0,1],"b":[2]}""").topics.contains(Seq("a", "b")))
    assert(read("subscribePattern" -> "a.*").topics.isEmpty)
    assert(read("subscribe" -> "a,b").mayReadSeveral && read("subscribePattern" -> "a.*").mayReadSeveral)
    assert(!read("subscribe" -> "a").mayReadSeveral && !read("assign" -> """{"a":[0,1]}""").mayReadSeveral)
  }

  test("options that the source can't read are left for the source to refuse") {
    Seq("", "{", "topic", "[1]", """{"a":[0}""", "null").foreach { text =>
      assert(read("assign" -> text).topics.isEmpty, text)
      assert(!read("assign" -> text).mayReadSeveral, text)
    }
  }
}
