"""The parts of an installation: the jar, Java, Spark's version, and the settings of a session."""
