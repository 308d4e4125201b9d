"""The matrix: every operator with every option, and each action on each of them.

    shape.py       what an entry, a refusal and an outcome are
    operators.py   every public function with its options, compared with the signatures
    entries.py     operators with one set of options each: together they use every option
    refusals.py    combinations of options that are refused, with their conditions
    rows.py        what the streams of a run get
    builds.py      the query of an entry
    runs.py        a query from its first row to its last, with an action in between
    actions.py     the actions, and what each of them has to give
    waits.py       which rows wait in a join's state between the two phases, by counting
    outcomes.py    what each cell is: equal, refused by a condition, or not applicable for a reason
    restarts.py    what another value of each option does when a query resumes

`test_matrix_catalogue.py` compares the catalogue with the code, and `test_documented_options.py` compares the
pages with it. `test_matrix.py` runs the cells, `test_matrix_restarts.py` runs the restarts, and `pinning.py`
writes what is pinned of each entry into `tests/golden/pinned`.
"""
