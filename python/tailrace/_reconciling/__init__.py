"""What `tailrace.reconcile` compares and reports: rows of two sides by key, reasons, counts, a page."""
