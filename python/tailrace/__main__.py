"""`python -m tailrace` is `tailrace`."""

import sys

from tailrace.commands.cli import main

sys.exit(main())
