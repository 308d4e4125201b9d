"""The matrix's catalogue has every public option, and the code refuses what the catalogue says it refuses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import tailrace
from matrix.builds import Build
from matrix.entries import AT_SERVER, ENTRIES
from matrix.operators import OPERATORS, OTHERS, SCALA, choices, parameters
from matrix.refusals import REFUSALS
from matrix.rows import SCHEMAS
from matrix.shape import Entry

if TYPE_CHECKING:
    from pathlib import Path

    from matrix.shape import Call, Operator, Refusal
    from tailrace.testing import StreamTest

ALL = (*ENTRIES, *AT_SERVER)


def _ids(operator: Operator) -> str:
    return operator.name


def test_the_catalogue_has_every_public_function() -> None:
    ours = {name for name in OPERATORS if "." not in name}
    assert ours | OTHERS == set(tailrace.__all__)
    methods = {name for name in vars(tailrace.Examples) if not name.startswith("_")}
    assert {name.partition(".")[2] for name in OPERATORS if "." in name} == methods - {"stream", "batch"}


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=_ids)
def test_the_catalogue_has_every_argument_with_its_default(operator: Operator) -> None:
    found = parameters(operator)
    assert set(found) == {*operator.inputs, *operator.options}
    assert {name: found[name].default for name in operator.options} == operator.options


def test_what_the_matrix_asks_of_an_entry_are_options(repository: Path) -> None:
    # An option that was renamed here, and not where an outcome depends on it, would be one that no entry has.
    known = {name for operator in OPERATORS.values() for name in operator.options}
    asking = re.compile(r"""(?:\.has\(|options\.get\(|if )"(\w+)"(?:\)| in call\.options)""")
    asked = {
        (file.name, name)
        for file in (repository / "tests/python/matrix").glob("*.py")
        for name in asking.findall(file.read_text())
    }
    assert {name for _, name in asked} >= {"salted_keys", "one_to_one", "horizons"}
    assert sorted((file, name) for file, name in asked if name not in known) == []


def _fields(repository: Path, file: str, name: str) -> set[str]:
    """The fields of a case class, as Python spells them."""
    text = (repository / SCALA / file).read_text()
    whole = re.search(rf"case class {name}\((.*?)\n\)", text, re.DOTALL)
    one_line = re.search(rf"case class {name}\(([^\n]*)\)", text)
    found = whole or one_line
    assert found, f"{file} has no case class {name}"
    body = re.sub(r"(?m)^\s*(private\S* )?val ", "", found[1])
    names = re.findall(r"(?:^|[,(\n])\s*`?(\w+)`?:", body)
    return {re.sub(r"(?<=[a-z])([A-Z])", lambda m: f"_{m[1].lower()}", one) for one in names}


@pytest.mark.parametrize("operator", [one for one in OPERATORS.values() if one.scala is not None], ids=_ids)
def test_scala_has_the_same_options(operator: Operator, repository: Path) -> None:
    assert operator.scala is not None
    found = _fields(repository, *operator.scala)
    assert found == set(operator.options) | operator.scala_only


def _calls(of: str) -> list[Call]:
    return [call for entry in ALL for call in entry.calls if call.operator == of]


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=_ids)
def test_every_option_is_set_by_an_entry(operator: Operator) -> None:
    calls = _calls(operator.name)
    assert calls
    for name, default in operator.options.items():
        if name in operator.of_library:
            continue
        values = [call.options[name] for call in calls if name in call.options]
        assert [v for v in values if v != default], f"no entry sets {name} of {operator.name}"
        chosen = choices(operator, name)
        if chosen:
            missing = [value for value in chosen if value != default and value not in values]
            assert not missing, f"no entry has {name}={missing} of {operator.name}"


def test_names_are_unique_and_every_call_is_known() -> None:
    names = [entry.name for entry in ALL] + [refusal.name for refusal in REFUSALS]
    assert len(names) == len(set(names))
    for call in (call for entry in ALL for call in entry.calls if call.operator != "count"):
        operator = OPERATORS[call.operator]
        assert set(call.options) <= {*operator.options, *operator.inputs}


@pytest.mark.parametrize("refusal", REFUSALS, ids=[refusal.name for refusal in REFUSALS])
def test_what_is_refused_is_refused_by_its_condition(
    stream_test: StreamTest, refusal: Refusal, tmp_path: Path
) -> None:
    frames = {side: stream_test.source(schema).frame for side, schema in SCHEMAS.items()}
    with pytest.raises(tailrace.TailraceError) as caught:
        Build(Entry(refusal.name, refusal.calls), frames, tmp_path).result()
    assert caught.value.condition == refusal.condition
    given = {option for call in refusal.calls for option in call.options}
    assert caught.value.parameters.get("argument") in {None, *given}, "the user hasn't written that argument"
