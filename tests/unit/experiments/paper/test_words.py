"""Words in small files: the counts of every grid are those of the transformer itself."""

import numpy as np
import pytest
from experiments.paper.words import GRIDS, WordRecipe, encode_words, load_words, save_words

from supdocnade import BagOfVisualWords
from supdocnade.cli.demo import drawn_scenes
from supdocnade.errors import InvalidArgument, StorageError

RECIPE = WordRecipe(n_words=20, patch_size=(16, 32))


@pytest.fixture(scope="module")
def images():
    return [scene.image for scene in drawn_scenes(1, max_side=88)]


@pytest.fixture(scope="module")
def words(images):
    return encode_words(images, np.arange(4), RECIPE, max_side=80, seed=3)[0]


@pytest.mark.parametrize("grid", GRIDS)
def test_counts_are_those_of_a_bag_of_visual_words(words, images, grid):
    bag = BagOfVisualWords(20, list(GRIDS[grid]), patch_size=(16, 32), max_side=80, random_state=3)
    wanted = bag.fit(images[:4]).transform(images)
    assert abs(words.counts(GRIDS[grid]) - wanted).sum() == 0


def test_a_file_is_small_and_gives_the_same_words(words, tmp_path):
    path = tmp_path / "words.safetensors"
    save_words(path, words, {"recipe": "r"})
    again = load_words(path, {"recipe": "r"})
    assert again.ids_N.tolist() == words.ids_N.tolist()
    assert again.length_SB.tolist() == words.length_SB.tolist()
    assert path.stat().st_size < words.ids_N.nbytes
    with pytest.raises(StorageError, match=r"must be made from .*'other'.*; remove it"):
        load_words(path, {"recipe": "other"})


def test_what_does_not_fit_is_refused(words, images):
    with pytest.raises(InvalidArgument, match="n_words must be at most 4096, got 5000"):
        encode_words(images, np.arange(4), WordRecipe(n_words=5000), max_side=None, seed=0)
    with pytest.raises(InvalidArgument, match=r"grids must divide 4 × 4 cells, got \(3, 3\)"):
        words.counts(((3, 3),))
