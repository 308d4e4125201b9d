package io.tailrace.state

import org.scalatest.funsuite.AnyFunSuite

final class StoreKindSuite extends AnyFunSuite {

  test("ids and names are part of the format: they never change") {
    assert(
      StoreKind.all.map(k => (k.id.toInt, k.name, k.timeSorted)) == Seq(
        (1, "left-time-sorted", true),
        (2, "left-key-sorted", false),
        (3, "right-key-sorted", false),
        (4, "joined-indicator", true),
        (5, "held-left", true),
        (6, "held-right", false),
        (7, "joined-right", true),
        (8, "right-newest", false),
        (9, "gone-left", true),
        (10, "gone-right", true),
        (11, "right-time-sorted", true),
        (12, "left-out", false),
        (13, "joined-left", true),
        (14, "matched-right", true)
      )
    )
  }

  test("a kind is found by its name") {
    StoreKind.all.foreach(k => assert(StoreKind.named(k.name).contains(k)))
    assert(StoreKind.named("joined").isEmpty)
  }

  test("all kinds exist, whichever is used first") {
    StoreKind.all.foreach { first =>
      val loader = new Loader
      def module(name: String): AnyRef = loader.loadClass(name).getField("MODULE$").get(null)
      module(first.getClass.getName)
      val kinds = module(StoreKind.getClass.getName)
      val all = kinds.getClass.getMethod("all").invoke(kinds).asInstanceOf[Seq[AnyRef]]
      assert(all.map(String.valueOf) == StoreKind.all.map(_.toString))
    }
  }

  /** Has classes of its own for the kinds, which are not initialized yet. */
  private final class Loader extends ClassLoader(getClass.getClassLoader) {
    override def loadClass(name: String, resolve: Boolean): Class[_] =
      if (!name.startsWith(classOf[StoreKind].getName)) super.loadClass(name, resolve)
      else Option(findLoadedClass(name)).getOrElse(define(name))

    private def define(name: String): Class[_] = {
      val file = getParent.getResourceAsStream(name.replace('.', '/') + ".class")
      try {
        val bytes = file.readAllBytes()
        defineClass(name, bytes, 0, bytes.length)
      } finally file.close()
    }
  }
}
