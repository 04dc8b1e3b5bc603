"""What trained models answer: settings are chosen on photographs held out, then tests are taken."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from supdocnade.errors import StorageError
from supdocnade.metrics import f_measure, top_ranked
from supdocnade.paper.plans import ACCURACY, Setting, Variant
from supdocnade.paper.study import Study
from supdocnade.paper.svms import Kernel, Tried, best, joined, predict_svm, rbf, try_svms
from supdocnade.paper.topic_models import (
    FIT,
    TRAIN,
    Described,
    Job,
    job_key,
    load_described,
    log_mean,
)
from supdocnade.scene.tags import add_class_term, class_tag_shares

TOP = 5
"""Tags of a photograph for the F-measure, as in the paper."""

ALPHAS = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Weights of what the classes' posterior says of tags, where a recipe asks for it."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What was chosen in one split for one variant."""

    setting: Setting
    """With the number of topics it was tuned at."""
    C: float
    gamma: float
    alpha: float
    held_out: float
    """How well it did on the photographs held out."""

    def params(self) -> dict[str, Any]:
        """Return the chosen hyper-parameters as results keep them."""
        found = {
            "generative_weight": self.setting.generative_weight,
            "learning_rate": self.setting.learning_rate,
            "annotation_weight": self.setting.annotation_weight,
            "C": self.C,
            "gamma": self.gamma,
            "alpha": self.alpha,
            "held_out": round(self.held_out, 4),
        }
        if not self.setting.supervised:
            del found["generative_weight"]
        if self.setting.tags is None:
            del found["annotation_weight"]
        if not self.alpha:
            del found["alpha"]
        return found


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of one model, or of several that differ by their seed."""

    setting: Setting
    split: int
    chosen: Chosen | None = None
    """None: settings are still to be tried, on the photographs held out."""

    def jobs(self, study: Study) -> list[Job]:
        """Return the models that answer it."""
        part = FIT if self.chosen is None else TRAIN
        members = study.plan.recipes[self.setting.recipe].members
        return [
            Job(setting=self.setting, split=self.split, part=part, member=member)
            for member in range(members)
        ]

    def key(self, study: Study) -> str:
        """Return the name of the answer."""
        jobs = self.jobs(study)
        chosen = self.chosen
        asked = [] if chosen is None else [chosen.C, chosen.gamma, chosen.alpha]
        recipe = study.plan.recipes[self.setting.recipe]
        more = repr((len(jobs), recipe.with_counts, recipe.class_tags, asked)).encode()
        digest = hashlib.blake2b(more, digest_size=4).hexdigest()
        return f"{job_key(study, jobs[0])}-{digest}"


def answer_questions(
    study: Study,
    questions: Sequence[Question],
    *,
    n_jobs: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> None:
    """Find the answers that are missing; their models are there."""
    wanted = {question.key(study): question for question in questions}
    missing = {key: each for key, each in wanted.items() if study.answer(key) is None}
    done = len(wanted) - len(missing)
    workers = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")
    for _ in workers(delayed(_answer)(study, key, each) for key, each in missing.items()):
        done += 1
        if on_progress is not None:
            on_progress(done, len(wanted))


def _answer(study: Study, key: str, question: Question) -> None:
    members = [load_described(study, job) for job in question.jobs(study)]
    if question.chosen is None:
        answer = _try(study, question, members)
    else:
        answer = _test(study, question, question.chosen, members)
    answer["device"] = members[0].description["device"]
    answer["seconds"] = round(sum(each.description["seconds"] for each in members), 2)
    study.write_answer(key, answer)


def _try(study: Study, question: Question, members: Sequence[Described]) -> dict[str, Any]:
    """Try every SVM, and the tags, on the photographs held out."""
    parts, place = study.protocol.parts(question.split), members[0].places_B
    fit, held = np.isin(place, parts.fit), np.isin(place, parts.held)
    label = study.label_B[place]
    kernel = _kernel(study, question, members, fit, held)
    tried = try_svms(kernel, label[fit], label[held])
    answer: dict[str, Any] = {"svm": [list(each) for each in tried]}
    if question.setting.tags is not None:
        true_BA = study.photos.annotations(question.setting.tags).annotations.toarray() > 0
        wanted = study.plan.recipes[question.setting.recipe].class_tags
        answer["f_measure"] = []
        for alpha in ALPHAS if wanted else ALPHAS[:1]:
            top = top_tags(study, question, members, place[fit], alpha)[held]
            answer["f_measure"].append([alpha, f_measure(top, true_BA[place[held]]).value])
    return answer


def _test(
    study: Study, question: Question, chosen: Chosen, members: Sequence[Described]
) -> dict[str, Any]:
    """Classify and tag the test photographs, in their order."""
    parts, place = study.protocol.parts(question.split), members[0].places_B
    train, test = np.isin(place, parts.train), np.isin(place, parts.test)
    kernel = _kernel(study, question, members, train, test)
    label = study.label_B[place]
    predicted = predict_svm(kernel, label[train], chosen.C, chosen.gamma)
    answer: dict[str, Any] = {"predicted": predicted.tolist()}
    if members[0].class_log_p_BC is not None:
        answer["softmax"] = class_log_proba(members)[test].argmax(axis=1).tolist()
    if question.setting.tags is not None:
        top = top_tags(study, question, members, place[train], chosen.alpha)
        answer["top_tags"] = top[test].tolist()
    if "classes" in members[0].description:
        answer["classes"] = members[0].description["classes"]
    return answer


def _kernel(
    study: Study,
    question: Question,
    members: Sequence[Described],
    learn: NDArray[np.bool_],
    ask: NDArray[np.bool_],
) -> Kernel:
    """Return the distances that the SVM sees; which photographs are among those described."""
    hidden = side_by_side(members, learn)
    topics = rbf(hidden[learn], hidden[ask])
    setting = question.setting
    if not study.plan.recipes[setting.recipe].with_counts:
        return topics
    roots = np.sqrt(study.histograms(setting.recipe, question.split, setting.grid))
    place = members[0].places_B
    return joined([topics, rbf(roots[place[learn]], roots[place[ask]])])


def side_by_side(members: Sequence[Described], learned: NDArray[np.bool_]) -> Floats:
    """Return the topics of all models, each standardised by the photographs learned from."""
    parts = []
    for each in members:
        hidden = each.hidden_BH.astype(np.float64)
        mean, scale = hidden[learned].mean(axis=0), hidden[learned].std(axis=0)
        scale[scale < 1e-12 * (1 + abs(mean))] = 1.0
        parts.append((hidden - mean) / scale)
    return np.hstack(parts)


def class_log_proba(members: Sequence[Described]) -> Floats:
    """Return the logarithm of the mean probability of every class."""
    parts = [each.class_log_p_BC for each in members if each.class_log_p_BC is not None]
    return log_mean(parts).astype(np.float64)


def top_tags(
    study: Study,
    question: Question,
    members: Sequence[Described],
    learned: NDArray[np.int64],
    alpha: float,
) -> NDArray[np.int64]:
    """Return the most probable tags of every photograph that the models describe."""
    parts = [each.tag_log_p_BA for each in members if each.tag_log_p_BA is not None]
    log_p_BA = log_mean(parts).astype(np.float64)
    if alpha and members[0].class_log_p_BC is not None:
        assert question.setting.tags is not None
        tags = study.photos.annotations(question.setting.tags).annotations[learned]
        share_CA = class_tag_shares(tags, study.label_B[learned], len(study.photos.classes))
        log_p_BA = add_class_term(log_p_BA, np.exp(class_log_proba(members)), share_CA, alpha)
    return top_ranked(log_p_BA, TOP)


def choose(study: Study, variant: Variant, split: int) -> Chosen:
    """Return the best candidate of a variant on the photographs held out; of equals the first."""
    found = []
    for setting in variant.candidates():
        answer = study.answer(Question(setting=setting, split=split).key(study))
        if answer is None:
            raise StorageError(f"{study.folder} lacks answers of models: run --stage models.")
        svm = best([Tried(*each) for each in answer["svm"]])
        alpha, f = max(answer.get("f_measure", [[0.0, 0.0]]), key=lambda each: float(each[1]))
        score = svm.accuracy if variant.chosen_for == ACCURACY else f
        found.append(
            Chosen(setting=setting, C=svm.C, gamma=svm.gamma or 0.0, alpha=alpha, held_out=score)
        )
    return max(found, key=lambda each: each.held_out)


def questions_of(study: Study, variant: Variant, split: int) -> list[Question]:
    """Return the final questions of a variant, one a number of topics."""
    chosen = choose(study, variant, split)
    return [
        Question(setting=replace(chosen.setting, n_topics=topics), split=split, chosen=chosen)
        for topics in variant.topics
    ]
