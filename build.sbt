import scala.io.Source

// The version has one home, the Python package: wheel and jar can't disagree.
val tailraceVersion = {
  val source = Source.fromFile("python/tailrace/_version.py")
  try """__version__ = "([^"]+)"""".r.findFirstMatchIn(source.mkString).map(_.group(1)).get
  finally source.close()
}

val home = "github.com/tailrace/tailrace"

ThisBuild / organization := "io.tailrace"
ThisBuild / organizationName := "Tailrace"
ThisBuild / licenses := Seq(License.Apache2)
ThisBuild / homepage := Some(url(s"https://$home"))
ThisBuild / scmInfo := Some(
  ScmInfo(url(s"https://$home"), s"scm:git:https://$home.git", s"scm:git:ssh://git@$home.git")
)
ThisBuild / developers := List(Developer("tailrace", "The Tailrace maintainers", "", url(s"https://$home")))
ThisBuild / versionScheme := Some("early-semver")
ThisBuild / version := tailraceVersion
ThisBuild / scalaVersion := Versions.scala
// dev/release.py names a folder for a Maven repository of files.
ThisBuild / publishTo := sys.env.get("TAILRACE_MAVEN").map(folder => MavenCache("release", file(folder)))
// The same sources give the same jar, at any commit and any time.
ThisBuild / packageTimestamp := Some(1262304000000L)
ThisBuild / scalacOptions ++= Seq(
  "-deprecation",
  "-feature",
  "-unchecked",
  "-Xlint:_,-byname-implicit,-infer-any",
  "-Wunused",
  "-Wdead-code",
  "-Xfatal-warnings",
  "-release:17"
)

// Spark's own list (JavaModuleOptions): what a forked JVM needs to run Spark on JDK 17.
val sparkJavaOptions = Seq(
  "java.lang",
  "java.lang.invoke",
  "java.lang.reflect",
  "java.io",
  "java.net",
  "java.nio",
  "java.util",
  "java.util.concurrent",
  "java.util.concurrent.atomic"
).map(p => s"--add-opens=java.base/$p=ALL-UNNAMED") ++ Seq(
  "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
  "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
  "--add-opens=java.base/sun.nio.cs=ALL-UNNAMED",
  "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
  "--add-opens=java.base/sun.util.calendar=ALL-UNNAMED",
  "-Djdk.reflect.useDirectMethodHandle=false",
  "-Dio.netty.tryReflectionSetAccessible=true"
)

val firstCompilerOnly = "-XX:TieredStopAtLevel=1"

// Spark's suites stop the Spark of their JVM and start their own: they get a process to themselves, set up as Spark's own
// build sets it up. A simulation reckons for long enough for the second compiler: that one makes it four times as fast.
def testProcesses(suites: Seq[TestDefinition], fork: ForkOptions, target: File): Seq[Tests.Group] = {
  val (sparks, others) = suites.partition(_.name.startsWith("org.apache.spark."))
  val (simulations, inSparks) = others.partition(_.name.endsWith("SimulationSuite"))
  // It stops the threads that all stores of a process share, and Spark waits for what another suite lets them do: minutes.
  val (upkeep, ours) = inSparks.partition(_.name.endsWith(".UpkeepSuite"))
  val simulationsFork = fork.withRunJVMOptions(fork.runJVMOptions.filterNot(_ == firstCompilerOnly))
  val directory = target / "spark-suites"
  IO.createDirectory(directory)
  val sparksFork = fork
    .withWorkingDirectory(directory)
    .withRunJVMOptions(
      fork.runJVMOptions ++ Seq(
        "-Dspark.testing=1",
        "-Dspark.ui.enabled=false",
        "-Dspark.memory.debugFill=true",
        "-Xss4m",
        "-ea",
        "-Djdk.lang.Process.launchMechanism=VFORK"
      )
    )
    .withEnvVars(fork.envVars ++ Map("SPARK_TESTING" -> "1", "SPARK_LOCAL_IP" -> "127.0.0.1"))
  Seq(
    Tests.Group("tailrace", ours, Tests.SubProcess(fork)),
    Tests.Group("upkeep", upkeep, Tests.SubProcess(fork)),
    Tests.Group("simulations", simulations, Tests.SubProcess(simulationsFork)),
    Tests.Group("spark", sparks, Tests.SubProcess(sparksFork))
  ).filter(_.tests.nonEmpty)
}

/** Spark, for a project that is provided with it. */
def sparkLibraries(spark: SparkMinor): Seq[Setting[_]] = {
  val modules = Seq("spark-sql", "spark-connect")
  if (spark.isInWheelOnly)
    Seq(
      Compile / unmanagedJars ++= SparkJars.of(spark.version, (ThisBuild / baseDirectory).value).classpath,
      pomPostProcess := Pom.withProvided(modules, spark.version)
    )
  else Seq(libraryDependencies ++= modules.map("org.apache.spark" %% _ % spark.version % Provided))
}

/** Whether the other minors compile no suites but those of the state store, and of what 4.2 lacks. CI runs these alone,
  * and to compile all of them takes minutes. With the next run of all suites, sbt compiles the others anew.
  */
val onlyStoreTests =
  settingKey[Boolean]("of other minors of Spark, only suites of the state store and of what 4.2 lacks")
ThisBuild / onlyStoreTests := false

// What the suites share is in these folders. The last three files are of what only Spark 4.3 has.
val notOfTheStore: FileFilter = new SimpleFileFilter(file =>
  file.isFile && !Set("testkit", "tailrace")(file.getParentFile.getName) &&
    !Set("OwnStore", "Upkeep", "JoinFormat", "NamedSources", "MixedState").exists(file.getName.startsWith)
)

/** Spark's own suites, which run on our provider: see docs/spark-suites.md. */
def sparkSuites(spark: SparkMinor): Seq[Setting[_]] =
  if (spark.minor != Versions.spark42.minor)
    // They are those of one minor version.
    Seq(
      Test / unmanagedSources / excludeFilter := HiddenFileFilter || "*Suites.scala" || "FileManagerSuite.scala" ||
        "OnTailrace.scala" || "NotApplicable.scala" || "ShortByDefault.scala" || "PythonFunctions.scala" ||
        (if (onlyStoreTests.value) notOfTheStore else NothingFilter)
    )
  else
    Seq(
      libraryDependencies ++= Seq("common-utils", "core", "catalyst", "sql-api", "sql", "tags")
        .map(module => ("org.apache.spark" %% s"spark-$module" % spark.version % Test).classifier("tests")),
      // Those suites open the checkpoints of earlier Sparks as files, which they are not inside of a jar.
      Test / unmanagedClasspath += Attributed.blank {
        val jar =
          (Test / update).value.matching(artifactFilter(name = "spark-sql_*", classifier = "tests")).head
        val files = target.value / "spark-test-files" / spark.version
        if (!files.exists) IO.unzip(jar, files, GlobFilter("structured-streaming/checkpoint-version-*"))
        files
      }
    )

/** One code base for all minor versions of Spark, and a few files for each. */
def onSpark(spark: SparkMinor): Seq[Setting[_]] = sparkLibraries(spark) ++ sparkSuites(spark) ++
  Seq(
    sourceDirectory := (ThisBuild / baseDirectory).value / "jvm" / "src",
    Compile / unmanagedSourceDirectories ++= spark.folders.map((Compile / sourceDirectory).value / _),
    libraryDependencies ++= Seq(
      "org.scalatest" %% "scalatest" % Versions.scalatest % Test,
      "org.scalatestplus" %% "scalacheck-1-18" % Versions.scalacheckTests % Test,
      "org.scalacheck" %% "scalacheck" % Versions.scalacheck % Test
    ),
    Compile / resourceGenerators += Def.task {
      val file = (Compile / resourceManaged).value / "tailrace-build.properties"
      IO.write(file, s"tailrace=$tailraceVersion\nspark=${spark.version}\nscala=${Versions.scala}\n")
      Seq(file)
    },
    Test / scalaSource := (ThisBuild / baseDirectory).value / "tests" / "jvm",
    Test / unmanagedSourceDirectories ++=
      spark.folders.map(name => (ThisBuild / baseDirectory).value / "tests" / name.replace("scala-", "jvm-")),
    Test / resourceDirectory := (ThisBuild / baseDirectory).value / "tests" / "jvm" / "resources",
    Test / fork := true,
    Test / baseDirectory := (ThisBuild / baseDirectory).value,
    Test / parallelExecution := false,
    // A simulation that failed, again.
    Test / javaOptions ++= sys.props.get("tailrace.seed").map(seed => s"-Dtailrace.seed=$seed").toSeq,
    // The first compiler only: nothing runs long enough for what the second one costs. And no collector that works beside the
    // tests: it takes a quarter more of the cores.
    Test / javaOptions ++= sparkJavaOptions ++ Seq("-Xmx3g", "-XX:+UseParallelGC", firstCompilerOnly),
    Test / testGrouping := testProcesses(
      (Test / definedTests).value,
      (Test / forkOptions).value,
      target.value
    ),
    Test / testOptions += Tests.Argument(TestFrameworks.ScalaTest, "-oDF"),
    // CONTRIBUTING.md says what a campaign is. `testOnly` runs whatever it is asked for.
    Test / test / testOptions += Tests
      .Argument(TestFrameworks.ScalaTest, "-l", "campaign", "-l", "long", "-l", "slow"),
    Compile / packageBin / packageOptions += Package.ManifestAttributes(
      "Tailrace-Version" -> tailraceVersion,
      "Tailrace-Spark-Version" -> spark.version,
      "Tailrace-Scala-Version" -> Versions.scala
    )
  )

/** The licence and the notice, where each kind of jar has them. */
val legalTexts: Seq[Setting[_]] = Seq(packageBin, packageSrc, packageDoc).map { kind =>
  Compile / kind / mappings ++= Seq("LICENSE", "NOTICE").map { name =>
    (ThisBuild / baseDirectory).value / name -> s"META-INF/$name"
  }
}

/** The jar for a minor version of Spark, which the wheel takes from `jvm/target` by this name. */
def jar(spark: SparkMinor): Seq[Setting[_]] = {
  val artifact = s"tailrace-spark${spark.minor}"
  onSpark(spark) ++ legalTexts ++ Seq(
    name := artifact,
    // By itself it would have no dot, and the jar would have another name than its artifact.
    moduleName := artifact,
    description := s"Event-time joins that emit each training example once, for Structured Streaming of Spark ${spark.minor}",
    Compile / packageBin / artifactPath :=
      (ThisBuild / baseDirectory).value / "jvm" / "target" / s"${artifact}_2.13-$tailraceVersion.jar",
    // Scaladoc warns of links that it finds in no class path.
    Compile / doc / scalacOptions -= "-Xfatal-warnings",
    // Scaladoc's index has one link with an unresolved bound, in a class that varies between runs. The pages have the
    // resolved one.
    Compile / doc := {
      val folder = (Compile / doc).value
      val index = folder / "index.js"
      IO.write(index, IO.read(index).replace("[B<:<?>]", "[B>:A]"))
      folder
    }
  )
}

lazy val jvm = (project in file("jvm")).settings(jar(Versions.spark42))

/** The same for another minor version, below `jvm/target`. */
def forSpark(project: Project, spark: SparkMinor): Project = project
  .in(file(s"jvm/target/spark-${spark.minor}"))
  .settings(jar(spark))
  .settings(target := (jvm / target).value / s"spark-${spark.minor}")
  .settings(
    Compile / scalafmt / unmanagedSources := ofOneMinor.value,
    Compile / scalafix / unmanagedSources := ofOneMinor.value
  )

/** The sources that not every minor version has: for a tool that has looked at the common ones already. */
lazy val ofOneMinor = Def.task {
  val common = (Compile / scalaSource).value.toPath
  (Compile / unmanagedSources).value.filterNot(_.toPath.startsWith(common))
}

lazy val jvm41 = forSpark(project, Versions.spark41)
lazy val jvm43 = forSpark(project, Versions.spark43)

// The hot paths under JMH: `bench/Jmh/run`. Not part of `root`, so that `test` and `package` don't build it.
lazy val bench = (project in file("benchmarks/jvm"))
  .enablePlugins(JmhPlugin)
  .dependsOn(jvm)
  .settings(
    name := "tailrace-bench",
    publish / skip := true,
    // jvm has it as Provided, which doesn't reach the projects that depend on it.
    libraryDependencies += "org.apache.spark" %% "spark-sql" % Versions.spark,
    run / fork := true,
    run / javaOptions ++= sparkJavaOptions :+ "-Xmx3g",
    Jmh / javaOptions ++= sparkJavaOptions :+ "-Xmx2g"
  )

lazy val root = (project in file("."))
  .aggregate(jvm)
  .settings(
    name := "tailrace-root",
    publish / skip := true,
    // For all versions of Spark, though the rest of what one asks of all is for one of them.
    publishLocal := publishLocal.dependsOn(jvm41 / publishLocal, jvm43 / publishLocal).value,
    publishM2 := publishM2.dependsOn(jvm41 / publishM2, jvm43 / publishM2).value,
    Compile / sources := Nil,
    Test / sources := Nil
  )

// The other minor versions have sources of their own. Scalafix asks for the class path.
addCommandAlias(
  "lint",
  "scalafmtCheckAll; jvm41/Compile/scalafmtCheck; jvm43/Compile/scalafmtCheck; bench/scalafmtCheckAll; scalafmtSbtCheck; " +
    "jvm/scalafixAll --check; jvm41/Compile/scalafix --check"
)
addCommandAlias(
  "fmt",
  "scalafmtAll; jvm41/Compile/scalafmt; jvm43/Compile/scalafmt; bench/scalafmtAll; scalafmtSbt; jvm/scalafixAll; jvm41/Compile/scalafix"
)
