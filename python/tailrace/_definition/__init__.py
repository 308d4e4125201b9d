"""Parts of a definition of training examples, for `tailrace.examples`."""
