"""Calls into the JVM, over py4j or Spark Connect: arguments, results and errors."""
