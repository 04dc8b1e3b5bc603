"""Train small models and run commands, for `benchmarks.bits`, and write the digests to bits.json.

Inputs are drawn here from a fixed seed, so that they do not depend on the package.
"""

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from PIL import Image, ImageDraw

from benchmarks.bits import Digests, digest_array, digest_file, digest_output, digest_text

CLASSES = {"field": (90, 150, 60), "night": (25, 30, 70), "sand": (210, 180, 120)}
TAGS = ("boat", "fence", "moon", "stones")
SMALL = ("--topics", "8", "--words", "24", "--set", "max_epochs=4", "--set", "learning_rate=0.003")


def draw_photographs(folder: Path, n_per_class: int, seed: int) -> None:
    """Write small pictures of three classes with tags, and two without a class."""
    rng = np.random.default_rng(seed)
    lines = []
    for label, color in CLASSES.items():
        for number in range(n_per_class):
            unlabelled = label == "sand" and number == n_per_class - 1
            place = folder / ("_unlabelled" if unlabelled else label)
            place.mkdir(parents=True, exist_ok=True)
            tags = [tag for tag in TAGS if rng.random() < 0.4]
            path = place / f"{label}{number}.{'jpg' if number % 4 == 0 else 'png'}"
            draw_photograph(color, tags, rng).save(path, quality=90)
            lines.append({"file_name": str(path.relative_to(folder)), "tags": tags})
            os.utime(path, (1e9, 1e9))
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metadata.jsonl").write_text(text)


def draw_photograph(
    color: tuple[int, int, int], tags: Iterable[str], rng: np.random.Generator
) -> Image.Image:
    """Return a picture of 96 × 72 pixels: a noisy ground below a sky, and a shape for every tag."""
    noise = rng.normal(0, 12, (72, 96, 1)) + np.array(color)
    noise[: rng.integers(24, 40)] += (40, 40, 60)
    image = Image.fromarray(noise.clip(0, 255).astype(np.uint8))
    pen = ImageDraw.Draw(image)
    for tag in tags:
        x, y = int(rng.integers(8, 70)), int(rng.integers(8, 50))
        if tag == "moon":
            pen.ellipse((x, y, x + 16, y + 16), fill=(250, 250, 220))
        elif tag == "boat":
            pen.polygon([(x, y), (x + 22, y), (x + 16, y + 9), (x + 5, y + 9)], fill=(120, 40, 30))
        elif tag == "fence":
            for left in range(x, min(x + 36, 96), 6):
                pen.line((left, y, left, y + 18), fill=(240, 240, 240), width=2)
        else:
            for left, top in rng.integers(0, (90, 66), (8, 2)).tolist():
                pen.rectangle((left, top, left + 5, top + 3), fill=(110, 105, 100))
    return image


def write_texts(path: Path) -> None:
    """Write short texts of two labels."""
    rng = np.random.default_rng(0)
    words = {
        "sea": "wave sand gull boat tide shore salt sail",
        "town": "tram shop tower crowd wall",
    }
    rows = [
        {"text": " ".join(rng.choice(words[label].split(), 12)), "label": label}
        for label in ("sea", "town") * 20
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_network(path: Path) -> None:
    """Write a network whose features are the mean colours of patches, and its description."""
    import onnx
    from onnx import TensorProto, helper

    node = helper.make_node("AveragePool", ["image"], ["map"], kernel_shape=[8, 8], strides=[8, 8])
    shape: list[str | int | None] = ["batch", 3, "height", "width"]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)
    features = helper.make_tensor_value_info("map", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "tiny", [image], [features])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    description = {"name": "tiny", "side": 64, "mean": 127, "scale": 64, "licence": "CC0-1.0"}
    path.with_suffix(".json").write_text(json.dumps(description))


class Recorder:
    """Runs commands, and keeps the digests of what they print and write.

    Parameters
    ----------
    threads : number of workers of commands that have the option --jobs.
    """

    def __init__(self, threads: int):
        self.threads = threads
        self.digests: Digests = {}

    def command(
        self, line: str, *, name: str = "", writes: str = "", jobs: bool = True, code: int = 0
    ) -> None:
        """Run a command.

        Parameters
        ----------
        name : name of its digests; the command itself by default.
        writes : file or folder that it writes.
        jobs : whether it has the option --jobs.
        code : the exit code that is expected.
        """
        from supdocnade.cli.main import run

        out, err = io.StringIO(), io.StringIO()
        arguments = [*line.split(), *(["--jobs", str(self.threads)] if jobs else [])]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            received = run(arguments)
        if received != code:
            sys.exit(f"supdocnade {line}\nended with exit code {received}:\n{err.getvalue()}")
        found = digest_output(out.getvalue())
        self.digests[f"supdocnade {name or line}"] = {
            **found,
            "stderr": digest_text(err.getvalue()),
        }
        if writes:
            self.files(writes)

    def files(self, name: str) -> None:
        """Keep the digests of a file or of all files in a folder."""
        path = Path(name)
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        self.digests |= {str(each): digest_file(each) for each in files if each.is_file()}

    def arrays(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Keep the digests of arrays."""
        self.digests[name] = {key: digest_array(np.asarray(each)) for key, each in arrays.items()}


def record_all(threads: int) -> Digests:
    """Return the digests of all models and commands; files are written to the current folder."""
    draw_photographs(Path("photos"), 12, seed=0)
    draw_photographs(Path("fresh"), 3, seed=1)
    write_texts(Path("texts.jsonl"))
    write_network(Path("tiny.onnx"))
    recorder = Recorder(threads)
    _record_training(recorder)
    _record_estimators(recorder)
    _record_use(recorder)
    return recorder.digests


def _record_training(recorder: Recorder) -> None:
    command = recorder.command
    command("features --import tiny.onnx", jobs=False)
    command("features --json", jobs=False)
    command("check photos")
    command("check photos --json")
    small = " ".join(SMALL)
    for name, options in {
        "sift": "--features sift --json",
        "tiny": "--features tiny",
        "lite": "--set min_tag_count=5",
    }.items():
        command(f"train photos -o {name} {small} {options}", name=f"train {name}", writes=name)
    with patch("supdocnade.unfinished.PART_SIZE", 10):
        command("encode sift photos -o corpus", writes="corpus")
    line = f"train corpus -o from-corpus {small}".replace("--words 24 ", "")
    command(line, name="train from-corpus", writes="from-corpus")
    corrections = [
        {"file_name": "fresh/night/night1.png", "label": "sand"},
        {"file_name": "fresh/sand/sand0.jpg", "tags": ["moon", "stones"]},
    ]
    Path("fixes.jsonl").write_text("".join(json.dumps(each) + "\n" for each in corrections))
    command("train fresh --add sift --corrections fixes.jsonl -o added", writes="added")
    command("topics texts.jsonl -o texts --topics 6 --set max_epochs=5 --json", writes="texts")


def _record_estimators(recorder: Recorder) -> None:
    """Models of the classes of the package, with settings that commands do not have."""
    from supdocnade import DocNADE, SupDocNADE
    from supdocnade.baselines import MMLDA, SLDA, ReplicatedSoftmax
    from supdocnade.scene.model import scene_model

    run: dict[str, Any] = {"random_state": 0, "n_jobs": recorder.threads}
    small: dict[str, Any] = {"n_topics": 8, "n_words": 24, "max_epochs": 4, "learning_rate": 3e-3}
    scene_model(annotation_output="sigmoid", mirror=False, **small, **run).fit("photos").save(
        "sift-logistic"
    )
    scene_model(
        features="tiny",
        annotation_output="words",
        **small,
        **run,
    ).fit("photos").save("tiny-words")

    def stop(stage: str, done: int, total: int | None) -> None:
        if stage == "learning from all":
            raise KeyboardInterrupt

    resumed = scene_model(checkpoint="checkpoint", **small, **run)
    with contextlib.suppress(KeyboardInterrupt):
        resumed.fit("photos", progress=stop)
    resumed.fit("photos").save("resumed")
    for name in ("sift-logistic", "tiny-words", "resumed"):
        recorder.files(name)

    rng = np.random.default_rng(0)
    X, A = rng.poisson(1.0, (60, 40)), rng.poisson(0.5, (60, 5))
    y = np.array(["a", "b", "c"] * 20)
    short: dict[str, Any] = {"n_topics": 6, "max_epochs": 3, "learning_rate": 1e-3, **run}
    for name, topics in {
        "docnade": DocNADE(output="softmax", activation="tanh", **short).fit(X),
        "clustered": DocNADE(tree="clustered", optimizer="sgd", **short).fit(X),
        "supdocnade": SupDocNADE(early_stopping=True, **short).fit(X, y, annotations=A),
    }.items():
        topics.save(name)
        recorder.files(name)
        results = {"topics": topics.transform(X), "perplexity": topics.perplexity(X)}
        recorder.arrays(f"{name} results", results)
    few: dict[str, Any] = {"n_topics": 4, "random_state": 0}
    for model in (SLDA(**few, max_iter=5, n_jobs=recorder.threads), MMLDA(**few, max_iter=5)):
        model.fit(X, y, annotations=A)
        arrays = {"components": model.components_, "topics": model.transform(X)}
        recorder.arrays(type(model).__name__, arrays)
    recorder.arrays("RSM", {"topics": ReplicatedSoftmax(**few, max_epochs=3).fit(X).transform(X)})


def _record_use(recorder: Recorder) -> None:
    """Everything that commands do with models."""
    command = recorder.command
    for name in (
        "sift",
        "tiny",
        "lite",
        "from-corpus",
        "added",
        "sift-logistic",
        "tiny-words",
        "resumed",
    ):
        command(f"predict {name} fresh --json")
    command("predict sift fresh/night/night0.jpg")
    command("predict sift fresh --csv")
    command("predict sift fresh --top 2 --json")
    with patch("supdocnade.unfinished.PART_SIZE", 4):
        command("predict sift fresh -o predictions", writes="predictions")
    command("tag tiny fresh --min-probability 0.3 --record written.jsonl")
    recorder.files("fresh")
    command("tag --undo written.jsonl")
    command("predict sift texts.jsonl tiny.onnx", code=1)
    command("info sift", jobs=False)
    command("info lite --json", jobs=False)
    command("evaluate sift fresh --json")
    command("evaluate tiny fresh --all")
    for options in ("", " --label night", " --tag moon"):
        line = f"explain sift fresh/field/field1.png --json -o picture.png{options}"
        command(line, writes="picture.png", jobs=False)
    command("explain lite fresh/field/field1.png --json -o lite.png", writes="lite.png", jobs=False)
    command("suggest sift fresh --csv")
    command("suggest lite fresh -n 3 --json")
    command("report sift -o report.html", writes="report.html", jobs=False)
    command("card sift", jobs=False)
    command("card lite -o shared --strip --licence cc-by-4.0", writes="shared", jobs=False)
    command("index sift fresh -o sift.index --json", writes="sift.index")
    command("index sift fresh -o sift.index --json")
    command("topics texts.jsonl --predict texts --json")
    command("train nowhere -o nothing", code=1)
    command("--help", jobs=False)


if __name__ == "__main__":
    Path("bits.json").write_text(json.dumps(record_all(int(sys.argv[1]))))
