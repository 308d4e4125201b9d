"""What an installation consists of: the jar, Java, Spark's version, and the settings of a session."""
