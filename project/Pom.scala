import scala.xml.transform.{RewriteRule, RuleTransformer}
import scala.xml.{Elem, Node}

/** What sbt can't know of a POM. */
object Pom {

  /** Spark as a dependency that users bring, though it was compiled against jars that Maven Central lacks. */
  def withProvided(modules: Seq[String], spark: String): Node => Node = {
    val added = modules.map { module =>
      <dependency>
        <groupId>org.apache.spark</groupId>
        <artifactId>{s"${module}_2.13"}</artifactId>
        <version>{spark}</version>
        <scope>provided</scope>
      </dependency>
    }
    val rule = new RewriteRule {
      override def transform(node: Node): Seq[Node] = node match {
        case dependencies: Elem if dependencies.label == "dependencies" =>
          dependencies.copy(child = dependencies.child ++ added)
        case other => other
      }
    }
    new RuleTransformer(rule).transform(_).head
  }
}
