package io.tailrace.common

import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

final class LiteralPathSuite extends AnyFunSuite {
  test("a name with a colon is no scheme") {
    val in = LiteralPath.in(new Path("/a"), "12:00")
    assert(in.toString == "/a/12:00" && in.getName == "12:00" && in.getParent == new Path("/a"))
  }

  test("a name that is no pattern says which one it was") {
    assert(LiteralPath.plain("a*b?[c]{d}\\") == "a%2Ab%3F%5Bc%5D%7Bd%7D%5C")
    LiteralPath.checkStreamed(new Path("hdfs://[::1]:9000/12:00/%2A"))
    val e = intercept[TailraceAnalysisException](LiteralPath.checkStreamed(new Path("/a*/b")))
    assert(e.getCondition == "TAILRACE_PATH_INVALID")
  }
}
