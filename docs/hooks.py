"""Hooks of the documentation site, which add pages that are made from other files.

The pages of `docs/` are shown as they are. To them are added the documents of the repository's
root, the notebooks, the commands with their help, and one page per public Python name. A `*` in
the navigation stands for all pages of a folder, and links that leave `docs/` become links within
the site.
"""

import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.notebooks import describe_notebook, list_notebooks
from docs.reference_pages import PUBLIC, describe_commands, describe_name, list_names

ROOT = Path(__file__).parents[1]

DOCUMENTS = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "changes/README.md": "change-fragments.md",
}
"""Documents outside `docs/`, and their pages."""

NOTEBOOKS = {f"examples/{path.name}": f"notebooks/{path.stem}.md" for path in list_notebooks()}
"""Notebooks, and their pages."""

SCRIPTS = {"examples/docnade_in_one_file.py": "docnade-in-one-file.md"}
"""Programs that are read as pages."""

SOURCES = {page: source for source, page in {**DOCUMENTS, **NOTEBOOKS}.items()}
"""Files outside `docs/` by their pages."""

LINK = re.compile(r"(?<=\]\()[^)#\s]+(?=[)#])")
NAMED_LINK = re.compile(r"\[[\w/.-]+\.md\]\(([^)#\s]+\.md)")
"""Link whose text is the name of a file."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in the `*` of the navigation, and check that every page has a place there."""
    docs = ROOT / "docs"
    written = [path.relative_to(docs).as_posix() for path in docs.rglob("*.md")]
    pages = {*written, *made_pages()}
    config.nav = [expand(entry, pages) for entry in config.nav or []]
    for page in sorted(pages - set(places(config.nav))):
        raise PluginError(f"docs/{page} needs a place in the site: add it to `nav` in mkdocs.yml.")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, and the other files of the repository that pages link to."""
    for path, text in made_pages().items():
        files.append(File.generated(config, path, content=text))
    for name in NOTEBOOKS:
        files.append(File.generated(config, f"files/{name}", abs_src_path=str(ROOT / name)))
        for picture, content in describe_notebook(ROOT / name)[1].items():
            files.append(File.generated(config, f"notebooks/{picture}", content=content))
    icon = ROOT / "src/supdocnade/serving/page/icon.svg"
    files.append(File.generated(config, "assets/icon.svg", abs_src_path=str(icon)))
    for file in list(files.documentation_pages()):
        for link in LINK.findall(file.content_string):
            path = path_in_site(link, file.src_uri)
            if path.startswith("files/") and path not in files.src_uris:
                source = ROOT / path.removeprefix("files/")
                files.append(File.generated(config, path, abs_src_path=str(source)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turn links to files of the repository into links within the site, named by title."""
    here = page.file.src_uri

    def name(link: re.Match[str]) -> str:
        return f"[{title_of(path_in_site(link[1], here))}]({link[1]}"

    def replace(link: re.Match[str]) -> str:
        path = path_in_site(link[0], here)
        return posixpath.relpath(path, posixpath.dirname(here) or ".") if path else link[0]

    return LINK.sub(replace, NAMED_LINK.sub(name, markdown))


def title_of(page: str) -> str:
    """Return the first heading of a page."""
    text = made_pages().get(page) or (ROOT / "docs" / page).read_text()
    return text.partition("# ")[2].partition("\n")[0]


def expand(entry: Any, pages: set[str]) -> Any:
    """Return an entry of the navigation with the pages in place of a `*`, index pages first."""
    if isinstance(entry, dict):
        return {title: expand(value, pages) for title, value in entry.items()}
    if isinstance(entry, list):
        return [expand(each, pages) for each in entry]
    if "*" not in entry:
        return entry
    found = (page for page in pages if fnmatch(page, entry))
    is_index = re.compile(r"(.*/)?(README|index)\.md").fullmatch
    return sorted(found, key=lambda page: (not is_index(page), page.lower()))


def places(navigation: Any) -> Iterator[str]:
    """Yield the pages of a navigation."""
    if isinstance(navigation, str):
        yield navigation
    else:
        for each in navigation.values() if isinstance(navigation, dict) else navigation:
            yield from places(each)


def path_in_site(link: str, page: str) -> str:
    """Return the path that a link of a page leads to, or "" if it leaves the repository."""
    source = SOURCES.get(page, f"docs/{page}")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    pages = {**DOCUMENTS, **NOTEBOOKS, **SCRIPTS}
    if path in pages:
        return pages[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"files/{path}" if (ROOT / path).is_file() else ""


def describe_script(path: Path) -> str:
    """Return the page of a program: its first sentence as title, and its code."""
    code = path.read_text()
    title = code.partition("\n")[0].strip('".').partition(",")[0]
    return f"# {title}\n\n`{path.relative_to(ROOT)}`:\n\n```python\n{code}```\n"


@cache
def made_pages() -> dict[str, str]:
    """Return the pages that are made, as Markdown by path."""
    reference = {
        "commands": describe_commands(),
        "python/index": list_names(),
        **{f"python/{name}": describe_name(name) for name in PUBLIC},
    }
    return {
        **{page: (ROOT / document).read_text() for document, page in DOCUMENTS.items()},
        **{page: describe_notebook(ROOT / name)[0] for name, page in NOTEBOOKS.items()},
        **{page: describe_script(ROOT / name) for name, page in SCRIPTS.items()},
        **{f"reference/{name}.md": "\n".join(lines) for name, lines in reference.items()},
    }
