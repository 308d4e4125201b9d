"""The parts of `tailrace.reconcile`: rows of two sides by key, reasons, counts, a page."""
