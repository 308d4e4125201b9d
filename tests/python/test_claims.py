"""The numbers in the README and on the page about speed are those of the result files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import claims


def test_the_documents_have_the_numbers_of_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    assert claims.main(["--check"]) == 0, capsys.readouterr()


def test_each_document_has_a_generated_block(repository: Path) -> None:
    for name in claims._DOCUMENTS:
        assert "<!-- numbers:" in (repository / name).read_text()


def test_a_number_that_somebody_has_changed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(claims._BLOCKS, "peers", lambda: ["| 1.3x |"])
    text = "<!-- numbers:peers -->\n| 1.6x |\n<!-- /numbers -->\n"
    assert claims.generated(text) == "<!-- numbers:peers -->\n| 1.3x |\n<!-- /numbers -->\n"
    assert claims.main(["--check"]) == 1


def test_a_chart_of_other_numbers_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = claims.bar_chart("speed", "rows per second", [("ours", 1_000), ("a <peer>", 250)])
    monkeypatch.setattr(claims, "_PICTURES", {"docs/images/speed.svg": lambda: other})
    assert claims.main(["--check"]) == 1
    assert capsys.readouterr().out.startswith("docs/images/speed.svg: differs from the results")
    assert 'class="first" x="330" y="40" width="420.0"' in other
    assert 'class="bar" x="330" y="74" width="105.0"' in other
    assert ">a &lt;peer&gt;</text>" in other


def test_a_block_that_nothing_writes_is_refused() -> None:
    with pytest.raises(claims.ClaimError, match="nothing writes the block other"):
        claims.generated("<!-- numbers:other -->\n<!-- /numbers -->")


@pytest.fixture
def result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A result file, beside no other."""
    monkeypatch.setattr(claims, "_RESULTS", tmp_path)
    file = tmp_path / "peers-2600000.txt"
    file.write_text("date           2026-01-01 12:00 UTC\ntailrace       0.1.0, abcdef1234\n")
    return file


def test_a_result_that_is_older_than_the_code_is_refused(
    result: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert result.exists()
    monkeypatch.setattr(claims, "age", lambda _: claims._MOST_COMMITS + 1)
    assert claims.main(["--check"]) == 1
    assert "was measured at abcdef1234, 151 commits to the measured code ago" in capsys.readouterr().err


def test_a_result_of_a_commit_that_is_not_in_the_history_is_refused(
    result: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert result.exists()
    assert claims.main(["--check"]) == 1
    assert "commit abcdef1234 is not in the history" in capsys.readouterr().err


def test_a_missing_result_is_refused(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result.unlink()
    assert claims.main(["--check"]) == 1
    assert "peers-2600000.txt is missing" in capsys.readouterr().err


def test_ratios_and_cpu_are_medians_over_the_runs_of_the_file(result: Path) -> None:
    runs = [
        '{"engine": "tailrace", "rows": 1000, "seconds": 1, "cpu_seconds": 0.002}',
        '{"engine": "tailrace", "rows": 1000, "seconds": 2, "cpu_seconds": 0.004}',
        '{"engine": "tailrace", "rows": 1000, "seconds": 9, "cpu_seconds": 0.1}',
    ]
    result.write_text(result.read_text() + "\n".join(runs))
    read = claims.read("peers-2600000")
    assert read.commit == "abcdef1234"
    assert read.rate("tailrace") == 500
    assert read.cpu("tailrace") == 4
    with pytest.raises(claims.ClaimError, match="no run of flink-heap"):
        read.rate("flink-heap")
