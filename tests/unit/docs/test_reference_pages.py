"""The reference pages, for docstrings and commands as they are written in the package."""

from docs import reference_pages as pages

from supdocnade import SupDocNADE


def documented():
    """Fit topics.

    See `SLDA` and docs/model.md.

    >>> 1 + 1
    2

    Parameters
    ----------
    X : (documents, words) counts, which may be sparse, or a `Corpus`, whose documents are
        read one after the other.
    rate : {"a rate that is a number", "one that falls as 1 / √n"} or float, default="falls"
        like a step size.
    n_jobs, seed
        As in `fit`.

    Returns
    -------
    The topics.
    """


def test_a_docstring_becomes_text_code_and_lists():
    lines = "\n".join(pages.describe(documented, 4)).split("\n")
    assert [line for line in lines if line] == [
        "Fit topics.",
        "See [`SLDA`](SLDA.md) and [model.md](../../model.md).",
        *("```pycon", ">>> 1 + 1", "2", "```"),
        "**Parameters**",
        "- `X`: (documents, words) counts, which may be sparse, or a [`Corpus`](Corpus.md), whose "
        "documents are read one after the other.",
        '- `rate`: *{"a rate that is a number", "one that falls as 1 / √n"} or float, '
        'default="falls"*<br> like a step size.',
        "- `n_jobs`, `seed`: As in `fit`.",
        "**Returns**",
        "The topics.",
    ]


def test_members_are_those_of_the_package_without_settings():
    members = list(pages.public_members(SupDocNADE))
    assert {"fit", "predict", "transform", "components_", "load"} <= set(members)
    assert not {"check", "trainer_config", "get_params"} & set(members)
    assert len(set(members)) == len(members)


def test_help_texts_keep_their_examples():
    text = "Take <class>/*.jpg, see `a_b`.\n\n\b\nExamples:\n  one --two\n  three"
    assert list(pages.help_paragraphs(text)) == [
        *("", r"Take &lt;class&gt;/\*.jpg, see `a_b`."),
        *("", "```text", "one --two", "three", "```"),
    ]
