import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from tests.planted_corpus import scene_corpus

from supdocnade import DampCounts, DocNADE, SupDocNADE, make_annotation_scorer
from supdocnade.corpus import Documents
from supdocnade.errors import BackendUnavailable, InvalidArgument, StorageError
from supdocnade.likelihood.contract import activate
from supdocnade.metrics import npmi_coherence, top_ranked
from supdocnade.model.inference import topic_features, word_log_proba
from supdocnade.model.network import SoftmaxOutput
from supdocnade.training.objective import ordered_batches
from supdocnade.training.trainer import Trainer, split_for_validation

FAST = {"n_topics": 8, "learning_rate": 0.01, "max_epochs": 40, "random_state": 0}


@pytest.fixture(scope="module")
def scenes():
    return scene_corpus(80, n_visual_words=40, mean_length=40)[0]


@pytest.fixture(scope="module")
def X(scenes):
    return sparse.csr_array(scenes.counts)


@pytest.fixture(scope="module", params=["tree", "softmax"])
def model(request, scenes, X):
    names = [f"tag{k}" for k in range(scenes.tags.shape[1])]
    return SupDocNADE(**FAST, output=request.param, annotation_weight=10.0).fit(
        X, scenes.labels, annotations=scenes.tags, annotation_names=names
    )


def test_a_row_gives_the_same_bits_alone_in_any_batch_and_in_any_order(model, X):
    def answers(part):
        return [
            model.transform(part),
            model.predict_proba(part),
            model.annotation_proba(part),
            model.annotation_log_proba(part),
        ]

    order = np.random.default_rng(0).permutation(X.shape[0])
    for whole, shuffled in zip(answers(X), answers(X[order]), strict=True):
        np.testing.assert_array_equal(whole[order], shuffled)
    for row in (0, 17, 79):
        for whole, alone in zip(answers(X), answers(X[[row]]), strict=True):
            np.testing.assert_array_equal(whole[[row]], alone)
    with_threads = [SupDocNADE.transform(model.set_params(n_jobs=n), X) for n in (1, 2, 3)]
    model.set_params(n_jobs=None)
    np.testing.assert_array_equal(with_threads[0], with_threads[1])
    np.testing.assert_array_equal(with_threads[0], with_threads[2])


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("output", ["tree", "softmax"])
def test_inference_agrees_with_the_network(scenes, X, activation, output):
    model = SupDocNADE(**{**FAST, "max_epochs": 3}, activation=activation, output=output)
    model.fit(X, scenes.labels, annotations=scenes.tags)
    (batch,) = ordered_batches(model._without_annotations(X), 80, 0, 0)
    with torch.no_grad():
        summary = model.network_.summary(batch)
        expected = model.network_.class_logits(summary).log_softmax(1)
        np.testing.assert_allclose(model.transform(X), activate(activation, summary), atol=1e-5)
    np.testing.assert_allclose(model.predict_log_proba(X), expected, rtol=1e-4, atol=1e-5)


def test_probabilities_sum_to_one(model, X):
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(model.annotation_proba(X).sum(axis=1), 1, rtol=1e-12)
    raw = np.exp(model.annotation_log_proba(X)).sum(axis=1)
    assert ((raw > 0) & (raw < 1)).all()


def test_planted_classes_and_tags_are_found(model, X, scenes):
    assert model.score(X, scenes.labels) > 0.9
    best = model.annotate(X, top=2)
    assert best.shape == (80, 2)
    hits = [
        scenes.tags[d, int(row[0][3:])] > 0 for d, row in enumerate(best) if any(scenes.tags[d])
    ]
    assert np.mean(hits) > 0.5


def test_annotations_are_ranked_and_named(model, X, scenes):
    proba = model.annotation_proba(X)
    best = model.annotate(X, top=1000)
    assert best.shape == proba.shape
    np.testing.assert_array_equal(
        best, model.annotation_names_[np.argsort(-proba, axis=1, kind="stable")]
    )
    unnamed = DocNADE(**FAST).fit(X, annotations=scenes.tags)
    assert unnamed.annotate(X, top=3).dtype.kind == "i"
    frame = pd.DataFrame(scenes.tags, columns=[f"t{k}" for k in range(scenes.tags.shape[1])])
    named = DocNADE(**FAST).fit(X, annotations=frame)
    assert str(named.annotate(X, top=1)[0, 0]).startswith("t")


def test_likelihoods(model, X):
    log_v = model.log_prob(X)
    several = model.log_prob(X, n_orderings=4)
    assert (model.log_prob(X, n_orderings=4, combine="log_mean") >= several).all()
    sizes = np.asarray(X.sum(axis=1)).ravel()
    assert model.perplexity(X) == pytest.approx(np.exp(-(log_v / sizes).mean()))
    assert model.perplexity(X, average="corpus") == pytest.approx(
        np.exp(-log_v.sum() / sizes.sum())
    )


def test_missing_labels_are_skipped(X, scenes):
    labels = scenes.labels.astype(object)
    labels[::3] = None
    as_float = scenes.labels.astype(float)
    as_float[::3] = np.nan
    as_pandas = pd.Series(scenes.labels, dtype="Int64")
    as_pandas[::3] = pd.NA
    models = [SupDocNADE(**FAST).fit(X, y) for y in (labels, as_float, as_pandas)]
    for model in models:
        np.testing.assert_array_equal(model.predict_proba(X), models[0].predict_proba(X))
    assert models[0].classes_.dtype.kind == "i"
    assert models[0].score(X, labels) == models[0].score(X[labels != None], labels[labels != None])  # noqa: E711


def test_partial_fit_learns_and_remembers_its_classes(X, scenes):
    model = SupDocNADE(n_topics=8, learning_rate=0.01, random_state=0)
    classes = np.unique(scenes.labels)
    for _ in range(15):
        model.partial_fit(X[:40], scenes.labels[:40], classes=classes)
        model.partial_fit(X[40:], [None] * 40)
        model.partial_fit(X[40:], scenes.labels[40:])
    assert model.score(X, scenes.labels) > 0.9
    assert len(model.history_.epochs) == 45
    with pytest.raises(InvalidArgument, match="classes must be those of the first call"):
        model.partial_fit(X, scenes.labels, classes=[1, 2, 99])
    with pytest.raises(InvalidArgument, match="classes must be given to the first call"):
        SupDocNADE().partial_fit(X, scenes.labels)


def test_topics_can_be_read(model, X):
    n_joint = 40 + model.n_annotations_
    assert model.components_.shape == (8, n_joint)
    rotation, network = model.topic_rotation(), model.network_.arrays()
    hidden = topic_features(network, sparse.eye_array(n_joint, format="csr"))
    topics = rotation.rotate(hidden)
    p = np.exp(word_log_proba(network, hidden, np.arange(n_joint)))
    rise = (topics - topics.mean(axis=0)).T @ p / np.sqrt(p.std(axis=0) * np.sqrt(p.mean(axis=0)))
    words = model.top_words(3, [f"w{k}" for k in range(40)])
    assert [row[0] for row in words] == [f"w{best}" for best in rise[:, :40].argmax(axis=1)]
    best = top_ranked(rise[:, :40], 5)
    np.testing.assert_allclose(model.coherence(X, n=5), npmi_coherence(best, X))
    weights = rotation.rotate_weights(network["label_weight"])
    np.testing.assert_array_equal(model.class_topics(2), top_ranked(weights, 2))
    with pytest.raises(InvalidArgument, match="feature_names must have 40 or"):
        model.top_words(3, ["only one"])


def test_topics_are_read_from_documents(model, X):
    words = model.top_words(2, documents=X)
    rotation = model.topic_rotation(X)
    present, topics = (X.toarray() > 0).astype(float), rotation.rotate(model.transform(X))
    assert len(words) == topics.shape[1]
    varies = present.std(axis=0) > 0
    expected = np.full(40, -2.0)
    expected[varies] = [np.corrcoef(topics[:, 3], each)[0, 1] for each in present.T[varies]]
    assert words[3][0] == f"x{expected.argmax()}"
    best = [[int(word[1:]) for word in row] for row in model.top_words(5, documents=X)]
    np.testing.assert_allclose(
        model.coherence(X, 5, documents=X), npmi_coherence(np.array(best), X)
    )
    with pytest.raises(InvalidArgument, match="feature_names must have 40 names"):
        model.top_words(2, ["w"] * (40 + model.n_annotations_), documents=X)
    weights = rotation.rotate_weights(model.network_.arrays()["label_weight"])
    np.testing.assert_array_equal(model.class_topics(1, documents=X)[:, 0], weights.argmax(axis=1))


@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_planted_topics_are_read(activation):
    rng = np.random.default_rng(0)
    group = np.arange(96) // 8  # Twelve groups of words; a document has words of two of them.
    pairs = np.array([rng.permutation(12)[:2] for _ in range(400)])
    counts = np.stack([rng.multinomial(20, np.isin(group, pair) / 16) for pair in pairs])
    model = DocNADE(15, activation=activation, learning_rate=1e-2, max_epochs=20, random_state=0)
    model.fit(counts)

    def groups(topics):
        """Return the groups that have a topic of their own."""
        of_words = [{int(group[int(word[1:])]) for word in words} for words in topics]
        return {min(each) for each in of_words if len(each) == 1}

    assert groups(model.top_words(6, documents=counts)) == set(range(12))
    assert groups(model.top_words(6)) == set(range(12))
    units = [[f"x{word}" for word in row] for row in top_ranked(model.components_, 6)]
    assert len(groups(units)) < 12  # The units themselves mix groups.


def test_documents_are_drawn_from_the_model(model):
    lengths = [0, 7, 30]
    drawn = model.sample(3, lengths, random_state=1)
    assert drawn.shape == (3, model.components_.shape[1])
    assert drawn.sum(axis=1).tolist() == lengths
    again = model.set_params(n_jobs=2).sample(3, lengths, random_state=1)
    model.set_params(n_jobs=None)
    np.testing.assert_array_equal(drawn.toarray(), again.toarray())
    other = model.sample(3, lengths, random_state=2)
    assert (drawn != other).nnz
    for arguments, message in (
        ((2, [3]), "length must be a whole number or 2 of them"),
        ((1, 2.5), "length must be a whole number"),
        ((1, -1), "length must not be negative"),
        ((0, 5), "n_samples must be"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            model.sample(*arguments)


def test_early_stopping_holds_a_part_of_every_class_out(X, scenes):
    model = SupDocNADE(**FAST, early_stopping=True, validation_fraction=0.25, metric="accuracy")
    corpus = Documents.from_counts(X, labels=scenes.labels, n_classes=scenes.n_classes)
    training, held_out = split_for_validation(corpus, model.trainer_config(0))
    assert len(training) + len(held_out) == 80
    for label in np.unique(scenes.labels):
        share = (held_out.label_B == label).sum() / (scenes.labels == label).sum()
        assert share == pytest.approx(0.25, abs=0.1)
    model.fit(X, scenes.labels)
    assert "accuracy" in model.history_.epochs[0].validation
    assert model.history_.best_epoch is not None


def test_damping():
    X = np.array([[0, 1, 2, 3], [100, 0.04, 0, 9]])
    np.testing.assert_array_equal(
        DampCounts().fit_transform(X).toarray(), [[0, 2, 3, 3], [20, 0, 0, 6]]
    )
    assert DampCounts(scale=1).fit_transform(X).toarray()[1, 0] == 10
    with pytest.raises(InvalidArgument, match="scale must be a finite number above 0, got 0"):
        DampCounts(scale=0).fit(X)


def bad_fits():
    X, y = np.ones((4, 3)), [0, 1, 0, 1]
    nan = np.where(np.eye(4, 3) > 0, np.nan, 1)
    return [
        (-X, y, {}, r"X must be counts, finite and not negative, got -1"),
        (nan, y, {}, r"X must be counts, finite and not negative, got NaN"),
        (X, [None] * 4, {}, r"y must have a label .* got none; DocNADE needs no labels"),
        (X, None, {}, r"requires y to be passed"),
        (X, [1, "a", 1, "a"], {}, r"y must be classes of one type, got \['int', 'str'\]"),
        (
            1e12 * X,
            y,
            {},
            r"X must add up to at most \d+ words, which fit into memory, got 1.2e\+13",
        ),
        (X, y[:3], {}, r"y must have a label or None for each of the 4 documents .* got 3"),
        (X, y, {"annotations": np.ones((3, 2))}, r"annotations must have shape \(4,\), got \(3,\)"),
        (X, y, {"annotations": -np.ones((4, 2))}, r"annotations must not be negative, got -1"),
        (X, y, {"annotation_mask": [True] * 4}, r"annotation_mask needs annotations"),
        (X, y, {"annotation_names": ["a"]}, r"annotation_names needs annotations"),
        (
            X,
            y,
            {"annotations": np.ones((4, 2)), "annotation_names": ["a"]},
            r"annotation_names must have 2 names, .* got 1",
        ),
        (X, y, {"sample_weight": [-1, 1, 1, 1]}, r"sample_weight must not be negative, got -1"),
    ]


@pytest.mark.parametrize(("X", "y", "options", "message"), bad_fits())
def test_bad_input_gets_one_sentence(X, y, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        SupDocNADE(n_topics=2, max_epochs=1).fit(X, y, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"device": "tpu"}, "device must be one of 'auto', 'cpu', 'cuda', got 'tpu'"),
        ({"n_topics": 0}, "n_topics must be a whole number of at least 1, got 0"),
        ({"n_topics": (8, 6)}, r"n_topics must be a whole number of at least 1, got \(8, 6\)"),
        ({"output": "leaf"}, "output must be one of"),
        ({"tree": "huffman"}, "tree must be one of 'random', 'clustered', got 'huffman'"),
        ({"validation_fraction": 0}, "validation_fraction must be a finite number above 0"),
        ({"n_jobs": 0}, "n_jobs must be None or a whole number other than 0, at most 1024, got 0"),
        ({"random_state": -1}, "random_state must be between 0"),
    ],
)
def test_bad_settings_get_one_sentence(setting, message):
    with pytest.raises(InvalidArgument, match=message):
        SupDocNADE(**{"max_epochs": 1, **setting}).fit(np.ones((4, 3)), [0, 1, 0, 1])


def test_labels_never_seen_are_refused(model, X):
    with pytest.raises(InvalidArgument, match=r"y must be among the classes .* got 'nowhere'"):
        model.partial_fit(X, ["nowhere"] * 80)
    with pytest.raises(InvalidArgument, match="fitted without annotations"):
        DocNADE(n_topics=2, max_epochs=1).fit(X).annotate(X)


@pytest.mark.parametrize("first", [True, False])
def test_a_partial_fit_that_is_interrupted_changes_nothing(X, scenes, first, monkeypatch):
    options = {"n_topics": 4, "batch_size": 10, "random_state": 0}
    model, twin = SupDocNADE(**options), SupDocNADE(**options)
    classes = np.unique(scenes.labels)
    if not first:
        model.partial_fit(X, scenes.labels, classes)
        twin.partial_fit(X, scenes.labels, classes)
        twin._trainer = None  # The optimiser's memory is what an interruption costs.
    gather, calls = Trainer.gather, []

    def interrupt(self, *args):
        calls.append(args)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return gather(self, *args)

    monkeypatch.setattr(Trainer, "gather", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, scenes.labels, classes)
    assert hasattr(model, "network_") != first
    for each in (model, twin):
        each.partial_fit(X[:40], scenes.labels[:40], classes)
    np.testing.assert_array_equal(model.predict_proba(X), twin.predict_proba(X))


def test_partial_fit_uses_settings_and_checks_names_of_later_calls(X, scenes):
    names = [f"t{k}" for k in range(scenes.tags.shape[1])]
    model = DocNADE(n_topics=4, random_state=0)
    model.partial_fit(X, annotations=scenes.tags, annotation_names=names)
    with pytest.raises(InvalidArgument, match="annotation_names must be those of the first call"):
        model.partial_fit(X, annotations=scenes.tags, annotation_names=names[::-1])
    before = model.transform(X)
    model.set_params(learning_rate=1e-12).partial_fit(X)
    np.testing.assert_allclose(model.transform(X), before, atol=1e-4)
    fitted = DocNADE(**FAST).fit(X)
    assert len(fitted.partial_fit(X).history_.epochs) == FAST["max_epochs"] + 1


def test_class_weights_are_checked(X, scenes):
    with pytest.raises(InvalidArgument, match=r"class_weight must name classes among .* got 'x'"):
        SupDocNADE(**FAST, class_weight={"x": 1.0}).fit(X, scenes.labels)
    with pytest.raises(InvalidArgument, match="class_weight must be one of 'balanced', got 'bal'"):
        SupDocNADE(**FAST, class_weight="bal").fit(X, scenes.labels)
    with pytest.raises(InvalidArgument, match="class_weight must be a dict or None for partial"):
        SupDocNADE(class_weight="balanced").partial_fit(X, scenes.labels, scenes.labels)
    # A batch may lack a class that the dict names.
    model = SupDocNADE(n_topics=2, class_weight={np.int64(0): 2.0})
    model.partial_fit(X, scenes.labels, np.unique(scenes.labels))
    some = scenes.labels > 0
    model.partial_fit(X[some], scenes.labels[some])


def test_scores_refuse_what_they_cannot_compare(X, scenes):
    model = SupDocNADE(**FAST).fit(X, scenes.labels)
    with pytest.raises(InvalidArgument, match=r"y must be classes like .* got '1'"):
        model.score(X, scenes.labels.astype(str))
    with pytest.raises(InvalidArgument, match=r"y must have 80 labels, .* got 79"):
        model.score(X, scenes.labels[1:])
    scorer = make_annotation_scorer()
    tagged = DocNADE(**FAST).fit(X, annotations=scenes.tags)
    with pytest.raises(InvalidArgument, match="annotations must be passed to the scorer"):
        scorer(tagged, X)
    with pytest.raises(InvalidArgument, match="annotations must have 12 columns"):
        scorer(tagged, X, annotations=scenes.tags[:, :2])
    with pytest.raises(InvalidArgument, match="estimator must have annotation_proba"):
        scorer(DampCounts(), X, annotations=scenes.tags)


def test_values_of_unknown_annotations_are_ignored(X, scenes):
    mask = np.arange(80) % 2 == 0
    unknown = np.where(mask[:, None], scenes.tags, np.nan)
    blanked = DocNADE(**FAST).fit(X, annotations=scenes.tags * mask[:, None])
    for tags in (unknown, sparse.csr_array(unknown)):
        model = DocNADE(**FAST).fit(X, annotations=tags, annotation_mask=mask)
        np.testing.assert_array_equal(model.transform(X), blanked.transform(X))
    with pytest.raises(InvalidArgument, match="annotation_mask must be true or false"):
        DocNADE().fit(X, annotations=scenes.tags, annotation_mask=["no"] * 80)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_gets_one_sentence():
    model = DocNADE(n_topics=2, device="cuda")
    with pytest.raises(BackendUnavailable, match="'cuda' is not available: torch finds no GPU"):
        model.fit([[1, 2], [3, 0]])


def test_verbose_prints_a_line_for_every_epoch(capsys, X):
    DocNADE(n_topics=2, max_epochs=2, verbose=1).fit(X)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["epoch 1/2", "epoch 2/2"]
    DocNADE(n_topics=2, max_epochs=2).fit(X)
    assert capsys.readouterr().out == ""


def test_a_checkpoint_brings_its_seed(tmp_path, X):
    options = {**FAST, "random_state": None, "checkpoint": tmp_path}
    first, again = DocNADE(**options).fit(X), DocNADE(**options).fit(X)
    np.testing.assert_array_equal(first.transform(X), again.transform(X))


def test_completion_predicts_half_of_the_words_from_the_other_half(model):
    twice, once = np.eye(40, dtype=np.int64)[[5, 11]] * 2, np.eye(40, dtype=np.int64)[[5, 11]]
    log_p_B = model.log_prob(twice) - model.log_prob(once)  # log p(v | v)
    assert model.completion_perplexity(twice) == pytest.approx(np.exp(-log_p_B.mean()), rel=1e-5)
    with pytest.raises(InvalidArgument, match="whole counts"):
        model.completion_perplexity(twice / 4)


@pytest.mark.parametrize("kind", [DocNADE, SupDocNADE])
def test_settings_for_texts_follow_the_number_of_documents(kind):
    few, many = kind.for_texts(np.ones((100, 3))), kind.for_texts(sparse.csr_array((10**6, 3)))
    assert (few.n_topics, few.batch_size, few.max_epochs) == (5, 8, 93)
    assert (many.n_topics, many.batch_size, many.max_epochs) == (50, 64, 30)
    assert (many.activation, many.tree) == ("sigmoid", "clustered")
    assert getattr(many, "generative_weight", 1.0) == 1.0
    given = kind.for_texts(np.ones((100, 3)), 7, tree="random", max_epochs=2)
    assert (given.n_topics, given.tree, given.max_epochs) == (7, "random", 2)


def test_a_corpus_without_words_has_no_likelihood(X):
    with pytest.raises(InvalidArgument, match="perplexity needs a document with words"):
        DocNADE(n_topics=2, max_epochs=1).fit(X).score(np.zeros((2, 40)))


def test_labels_keep_their_type(X):
    half = [None] * 40
    for given, kind in (
        ([1, 2] * 20 + half, "i"),
        (pd.array([1, 2] * 20 + half, dtype="Int64"), "i"),
        (pd.Series([True, False] * 20 + half, dtype="boolean"), "b"),
        ([np.str_("a"), "b"] * 20 + half, "U"),
    ):
        assert SupDocNADE(n_topics=2, max_epochs=1).fit(X, given).classes_.dtype.kind == kind
    dates = np.array(["2020-01-01", "2021-01-01"] * 40, "datetime64[D]")
    dates[0] = "NaT"
    assert len(SupDocNADE(n_topics=2, max_epochs=1).fit(X, dates).classes_) == 2


def test_a_callback_gets_the_metrics_of_every_epoch_and_may_end_the_training(tmp_path):
    X, y = np.eye(6).repeat(3, axis=0), ["a", "b"] * 9
    settings = {"n_topics": 3, "max_epochs": 4, "random_state": 0}
    seen = []

    def watch(epoch, metrics):
        seen.append((epoch, dict(metrics)))
        return epoch == stop_at

    stop_at = None
    model = SupDocNADE(**settings, early_stopping=True).fit(X, y, on_epoch=watch)
    records = model.history_.epochs
    assert [epoch for epoch, _ in seen] == [1, 2, 3, 4]
    assert [each["loss"] for _, each in seen] == [each.loss for each in records]
    assert [each["validation_loss"] for _, each in seen] == [
        each.validation["loss"] for each in records
    ]
    unwatched = SupDocNADE(**settings, early_stopping=True).fit(X, y)
    np.testing.assert_array_equal(unwatched.predict_proba(X), model.predict_proba(X))

    seen.clear()
    stop_at = 2
    for _ in range(2):  # The second fit finds the training finished.
        stopped = SupDocNADE(**settings, checkpoint=tmp_path).fit(X, y, on_epoch=watch)
        assert stopped.history_.stopped_early
        assert len(stopped.history_.epochs) == 2
    assert len(seen) == 2
    assert set(seen[0][1]) == {"loss", "learning_rate"}


def test_a_failing_callback_leaves_the_model_as_it_was():
    model = DocNADE(n_topics=2, max_epochs=1, random_state=0).fit(np.eye(3))
    network = model.network_

    def fail(epoch, metrics):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        model.fit(np.eye(3), on_epoch=fail)
    assert model.network_ is network


def test_functions_are_not_saved(tmp_path):
    for name, function in (("activation", torch.sin), ("output", SoftmaxOutput)):
        model = DocNADE(n_topics=2, max_epochs=1, **{name: function}).fit(np.eye(3))
        with pytest.raises(InvalidArgument, match=f"its {name} is a function"):
            model.save(tmp_path / "model")
    resumed = DocNADE(n_topics=2, activation=torch.sin, max_epochs=1, checkpoint=tmp_path)
    resumed.set_params(random_state=0).fit(np.eye(3))
    with pytest.raises(StorageError, match="activation"):
        resumed.set_params(activation=torch.cos).fit(np.eye(3))
