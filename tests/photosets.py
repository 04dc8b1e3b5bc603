"""Drawn scenes in the layout of the paper's data sets, and small studies of them."""

from dataclasses import replace

from experiments.paper.data_sets import (
    LABELME,
    data_set,
    read_photo_set,
)
from experiments.paper.plans import DOC, NO_WORDS, SUP, quick_plan
from experiments.paper.protocol import make_protocols
from experiments.paper.study import Study
from tests.scene_model import first_scene

from supdocnade.cli.demo import CLASSES, drawn_scenes
from supdocnade.images.decode import write_image

MAX_SIDE = 96
OTHER_NUMBERS = "ignore:.*holds other numbers of photographs than published"
"""Filter for the readers' warning about the number of photographs."""


def _draw(folder, classes, n_per_class, seed):
    """Write scenes of eight drawn classes into folders named as published; return their tags."""
    names = dict(zip(CLASSES, classes, strict=True))
    tags, numbers = {}, dict.fromkeys(classes, 0)
    for scene in drawn_scenes(n_per_class, first=first_scene(seed), max_side=MAX_SIDE):
        label = names[scene.label]
        numbers[label] += 1
        name = f"{label}/{label}_{numbers[label]:03d}.png"
        write_image(folder / name, scene.image)
        tags[name] = scene.tags
    return tags


def draw_labelme(folder, n_per_class=8, seed=0):
    """Write drawn scenes in the layout of LabelMe, with both sets of tags."""
    tags = _draw(folder, sorted(LABELME), n_per_class, seed)
    for file, most in (("tags_free.tsv", None), ("tags_33.tsv", 2)):
        lines = [f"{name}\t{'|'.join(some[:most])}" for name, some in tags.items()]
        (folder / file).write_text("\n".join(["file\ttags", *lines]) + "\n")
    return folder


def small_plan(dataset="labelme"):
    """Return a quick plan reduced to a few methods."""
    plan = quick_plan(data_set(dataset))
    selected = [
        each for each in plan.variants if each.recipe == "paper" and each.method in (SUP, DOC)
    ]
    selected = [
        each for each in selected if each.grid == "2×2" and each.tags in (None, "tags_free")
    ]
    selected += [each for each in plan.variants if each.method == NO_WORDS]
    return replace(
        plan,
        recipes={"paper": plan.recipes["paper"]},
        variants=tuple(selected),
        baselines=tuple(each for each in plan.baselines if each[1] == "paper"),
        tag_baselines=tuple(
            each for each in plan.tag_baselines if each[1:] == ("paper", "tags_free")
        ),
        others=tuple(each for each in plan.others if each.tags in (None, "tags_free")),
    )


def small_study(folder, data):
    """Start a study of drawn scenes with a few methods."""
    photos = read_photo_set("labelme", data)
    protocol = make_protocols({"labelme": photos}, n_splits=2)["labelme"]
    return Study.begin(folder, photos, protocol, small_plan())
