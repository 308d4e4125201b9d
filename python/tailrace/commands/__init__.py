"""The command line, `tailrace`."""
