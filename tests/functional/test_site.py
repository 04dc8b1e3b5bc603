"""The documentation site: it is built without warnings, and complete without a network."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import supdocnade
from supdocnade import baselines

ROOT = Path(__file__).parents[2]
pytest.importorskip("mkdocs", reason="the tools of the extra docs are not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site; return its folder."""
    folder = tmp_path_factory.mktemp("site")
    # Warnings are errors: links and anchors that lead nowhere, and pages without a place.
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    """Return the HTML of every page."""
    found = {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.html")}
    del found["404.html"]
    return found


def article(page):
    """Return the text of a page without its code."""
    (text,) = re.findall(r"<article.*?</article>", page, re.DOTALL)
    return re.sub(r"<pre.*?</pre>|<code>.*?</code>", "", text, flags=re.DOTALL)


def test_it_has_all_documents_commands_and_names(pages):
    documents = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    names = {path.with_suffix(".html").as_posix().replace("README", "index") for path in documents}
    assert names <= set(pages)
    public = {*supdocnade.__all__, *baselines.__all__}
    assert {f"reference/python/{name}.html" for name in public} <= set(pages)
    assert {"changelog.html", "contributing.html", "security-policy.html"} <= set(pages)
    assert "--min-probability" in pages["reference/commands.html"]
    assert 'src="page.png"' in pages["index.html"]


def test_nothing_is_loaded_from_other_servers(site, pages):
    for name, page in pages.items():
        loaded = re.findall(
            r'<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)="([^"]*)"', page
        )
        assert [each for each in loaded if re.match(r"(\w+:)?//", each)] == [], name
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text()), style


def test_lists_and_tables_of_the_documents_are_recognized(pages):
    for name, page in pages.items():
        text = article(page)
        # A list needs an empty line before it, for the site and for some readers of Markdown.
        assert re.findall(r"<p>[^<]*\n[-*] .*", text) == [], name
        assert "|---" not in text, name
        assert "```" not in text, name


def test_files_outside_of_the_documentation_are_part_of_it(site, pages):
    assert 'href="files/benchmarks/results/network.json"' in pages["scaling.html"]
    assert (site / "files/benchmarks/results/network.json").is_file()
    assert 'href="docnade-in-one-file.html"' in pages["index.html"]
    assert "Algorithm 1 of the paper" in pages["docnade-in-one-file.html"]
    assert 'href="decisions/0010-command-line.html"' in pages["contributing.html"]


def test_links_are_named_by_titles_instead_of_files(pages):
    assert '<a href="serving.html">Web page and API</a>' in pages["tour.html"]
    for name, page in pages.items():
        assert re.findall(r"<a[^>]*>[^<]*\.md</a>", article(page)) == [], name


def test_a_page_without_a_place_is_named(monkeypatch):
    from docs import hooks
    from mkdocs.exceptions import PluginError

    navigation = ["index.md", {"Decisions": "decisions/*"}]
    config = SimpleNamespace(nav=navigation)
    monkeypatch.setattr(hooks, "made_pages", dict)
    with pytest.raises(PluginError, match=r"docs/answers.md .* add it to `nav` in mkdocs.yml"):
        hooks.on_config(config)
    decisions = config.nav[1]["Decisions"]
    assert decisions[:2] == ["decisions/README.md", "decisions/0001-tree.md"]


def test_search_works_in_pages_that_are_opened_as_files(site):
    from tests.browser import BROWSER, PHONE, expect, launch_browser

    if BROWSER is None:
        pytest.skip("no browser is installed (Debian: apt-get install chromium)")
    with launch_browser() as browser:
        for options in ({"viewport": {"width": 1280, "height": 900}}, PHONE):
            page = browser.new_page(**options)
            requested, complaints = [], []
            page.on("request", lambda request, found=requested: found.append(request.url))
            page.on("pageerror", lambda error, found=complaints: found.append(str(error)))
            page.goto((site / "tour.html").as_uri())
            if options is PHONE:
                page.locator("label[for=__search]:visible").first.click()
            page.locator(".md-search__input").press_sequentially("perplexity")
            expect(page.locator(".md-search-result__item").first).to_be_attached()
            expect(page.locator(".md-search-result__meta")).to_contain_text("matching documents")
            # The list of results slides in, and is outside the page until it has arrived.
            fits = "limit => document.documentElement.scrollWidth <= limit"
            page.wait_for_function(fits, arg=options["viewport"]["width"])
            elsewhere = [url for url in requested if not url.startswith(("file:", "data:"))]
            assert (elsewhere, complaints) == ([], [])
            page.close()
