"""`supdocnade topics` from end to end, on small texts with known topics."""

import re
import shutil

import pytest
from tests.commands import supdocnade
from tests.texts import CITY, FOREST, LABELS, SEA, write_jsonl, write_texts

from supdocnade.cli.console import ProgressBars
from supdocnade.estimators.text_model import TextModel

QUICK = ("--topics", "12")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return write_texts(tmp_path_factory.mktemp("data") / "texts")


@pytest.fixture(scope="module")
def trained(texts, tmp_path_factory):
    model = tmp_path_factory.mktemp("models") / "model"
    return model, supdocnade("topics", texts, "-o", model, *QUICK)


def test_topics_of_a_folder(trained):
    model, done = trained
    assert (done.code, done.err) == (0, "")
    # Twelve hidden units, of which some always say the same as others.
    assert re.match(r"learned [3-9] topics from 54 documents and 27 words[;\n]", done.out)
    assert re.search(r"perplexity \d+ per word on 6 held-out documents", done.out)
    assert "accuracy of classes on held-out documents: " in done.out
    assert sorted(path.name for path in model.iterdir()) == [
        "report.html", "topics.safetensors",
    ]  # fmt: skip
    assert [path.name for path in model.parent.iterdir()] == ["model"]


def test_the_report_shows_topics_words_and_documents(trained):
    model, _ = trained
    page = (model / "report.html").read_text()
    words = TextModel.load(model).words
    assert page.count('<article class="card"') == len(words)
    assert "<script" not in page
    for topic in words:
        assert all(f"<bdi>{each.word}</bdi>" in page for each in topic)
    assert "sea/" in page
    assert "Perplexity per word" in page
    assert "Accuracy of classes" in page


def test_topics_are_those_of_the_texts(trained):
    model = TextModel.load(trained[0])
    topics = model.topics([" ".join(words) for words in (SEA, CITY, FOREST)])
    for words, best in zip((SEA, CITY, FOREST), topics.argmax(axis=1), strict=True):
        assert {each.word for each in model.words[best][:5]} <= set(words)


def test_new_texts_have_topics_and_classes(trained, tmp_path):
    model, _ = trained
    new = tmp_path / "new"
    new.mkdir()
    (new / "one.txt").write_text("a boat in the harbour, gulls and a sail")
    (new / "two.txt").write_text("an oak and moss on the path")
    done = supdocnade("topics", new, "--predict", model)
    assert done.code == 0
    first, second = (line.split("\t") for line in done.out.splitlines())
    assert first[:2] == ["one.txt", "sea"]
    assert second[:2] == ["two.txt", "forest"]
    as_json = supdocnade("topics", new, "--predict", model, "--json").objects
    assert [each["class"] for each in as_json] == ["sea", "forest"]
    assert set(as_json[0]["topics"][0]["words"]) <= set(SEA)


def test_jsonl_and_csv_give_the_same_model(texts, trained, tmp_path):
    path = write_jsonl(tmp_path / "texts.jsonl", texts, text="body", label="section")
    fields = ("--fields", "body,section")
    done = supdocnade("topics", path, "-o", tmp_path / "a", *QUICK, *fields, "--json")
    (result,) = done.objects
    assert result["classes"] == sorted(LABELS)
    assert result["metrics"]["n_labelled"] == 6
    table = tmp_path / "texts.csv"
    rows = [f'{file.parent.name},"{file.read_text()}"' for file in sorted(texts.rglob("*.txt"))]
    table.write_text("section,body\n" + "\n".join(rows))
    again = supdocnade("topics", table, "-o", tmp_path / "b", *QUICK, *fields, "--json", "-j", 1)
    assert again.objects[0]["topics"] == result["topics"]
    assert again.objects[0]["metrics"] == result["metrics"]


def test_without_labels_and_held_out_documents(texts, tmp_path):
    given = ("labels=false", "held_out=0", "stop_words=none", "ngrams=2")
    options = [part for text in given for part in ("--set", text)]
    done = supdocnade("topics", texts, "-o", tmp_path / "m", *QUICK, *options)
    assert done.code == 0
    assert "accuracy" not in done.out
    assert "perplexity" not in done.out
    assert "boat harbour" in TextModel.load(tmp_path / "m").vocabulary
    assert "Perplexity" not in (tmp_path / "m" / "report.html").read_text()


def test_a_stopped_run_is_resumed(texts, trained, tmp_path, monkeypatch):
    model = tmp_path / "model"
    arguments = ("topics", texts, "-o", model, *QUICK)
    report = ProgressBars.__call__

    def stop(self, stage, done, total):
        if stage == "learning" and done > total / 2:
            raise KeyboardInterrupt
        report(self, stage, done, total)

    assert "no run to resume" in supdocnade(*arguments, "--resume").err
    with monkeypatch.context() as patched:
        patched.setattr(ProgressBars, "__call__", stop)
        stopped = supdocnade(*arguments)
    assert stopped.code == 130
    assert f"stopped; resume with: supdocnade topics {texts} -o {model} --resume" in stopped.err
    assert "continue it with --resume" in supdocnade(*arguments).err
    done = supdocnade(*arguments, "--resume")
    assert done.code == 0
    same = (model / "report.html").read_text() == (trained[0] / "report.html").read_text()
    assert same
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_model_is_replaced_only_by_force(texts, trained, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(trained[0], model)
    for place in (model, tmp_path / "missing/../model"):
        done = supdocnade("topics", texts, "-o", place, *QUICK)
        assert (done.code, done.err) == (1, f"error: {place} holds a model; --force replaces it.\n")
    assert supdocnade("topics", texts, "-o", model, *QUICK, "--force", "-q").code == 0


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ({}, (), "must hold texts, got none."),
        ({"a.txt": b"  \n"}, (), "must hold texts, got only empty ones."),
        ({"a.txt": b"fine", "b.txt": b"\xff"}, (), "b.txt, line 1: expected text in UTF-8"),
        ({"a.txt": b"one text"}, (), "the texts cannot be counted"),
        ({"a.txt": b"one two"}, ("--set", "min_df=x"), "min_df and max_df must be"),
        ({"a.txt": b"one two"}, ("--set", "stop_words=nowhere.txt"), "nowhere.txt cannot be read"),
    ],
)
def test_errors_are_one_sentence(tmp_path, files, options, message):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for name, content in files.items():
        (corpus / name).write_bytes(content)
    done = supdocnade("topics", corpus, "-o", tmp_path / "m", *options)
    assert done.code in (1, 2)
    assert message in done.err
    assert done.err.count("\n") == 1
    assert done.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]
