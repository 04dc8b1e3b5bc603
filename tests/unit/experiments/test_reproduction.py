"""docs/reproduction.md is made from the results that exist."""

import pytest
from experiments import reproduction


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduction, "HERE", tmp_path / "experiments")
    monkeypatch.setattr(reproduction, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(reproduction, "LOG", tmp_path / "pool.json")
    monkeypatch.setattr("sys.argv", ["reproduction"])
    return tmp_path


def test_without_results_the_page_says_so(here):
    reproduction.main()
    page = (here / "docs" / "reproduction.md").read_text()
    assert page.count("Not run yet.") == 3


def test_an_outdated_page_is_detected(here, monkeypatch):
    reproduction.main()
    monkeypatch.setattr("sys.argv", ["reproduction", "--check"])
    reproduction.main()
    page = here / "docs" / "reproduction.md"
    page.write_text(page.read_text().replace("Not run", "Run"))
    with pytest.raises(SystemExit, match="is not current: run make reproduction-page"):
        reproduction.main()
