"""DocNADE and SupDocNADE in one file of plain torch, to be read from top to bottom.

    python examples/docnade_in_one_file.py

Zheng, Zhang and Larochelle, "A Supervised Neural Autoregressive Topic Model for Simultaneous Image
Classification and Annotation". Numbers in brackets, as (3), are equations of the paper. The package
`supdocnade` computes the same numbers, faster and with more options; a test compares the two.

A picture is a bag of visual words. DocNADE predicts its words one after the other, in any order:
word i from hidden units h_i, which are computed from the words before it. After the last word the
hidden units describe the whole picture: they are its topic features h_y. SupDocNADE predicts the
class from them. Tags are words of the same vocabulary; at test time the model is asked which of
them is likely to come next.

Sizes in comments:
    B  pictures of a batch      K  words: visual words first, then tags    C  classes
    D  words of a picture       L  steps from the root to a leaf           A  tags
    H  topics (hidden units)    T  inner nodes of the tree, K - 1
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import log_softmax, logsigmoid

PADDING = -1
"""Fills the row of a picture with fewer than D words. Everything computed for it is set to 0."""


# The tree -----------------------------------------------------------------------------------------
# A softmax over all words costs O(K) per word (2). With words at the leaves of a balanced tree,
# p(word) is a product of L = log2(K) decisions: right or left at every node on its path.


def tree_paths(leaf_of_word: Tensor) -> tuple[Tensor, Tensor]:
    """Return the path from the root to every word.

    The node over the leaves low .. high - 1 divides them at `middle`, and its number is middle - 1.
    So the K - 1 inner nodes have the numbers 0 .. K - 2.

    Returns
    -------
    nodes : (K, L), l(v) in the paper, the nodes on the path.
    turns : (K, L), π(v) in the paper: 1 right, -1 left (0 in the paper), 0 after the last node.
    """
    n_words = len(leaf_of_word)
    depth = (n_words - 1).bit_length()  # L
    nodes = torch.zeros(n_words, depth, dtype=torch.long)  # (K, L)
    turns = torch.zeros(n_words, depth, dtype=torch.long)  # (K, L)
    for word, leaf in enumerate(leaf_of_word.tolist()):
        low, high, step = 0, n_words, 0
        while high - low > 1:
            middle = (low + high + 1) // 2
            nodes[word, step] = middle - 1
            turns[word, step] = 1 if leaf >= middle else -1
            low, high = (middle, high) if leaf >= middle else (low, middle)
            step += 1
    return nodes, turns


# The model ----------------------------------------------------------------------------------------


class SupDocNADE(nn.Module):
    """The joint distribution p(v, y) of the words v of a picture and its class y."""

    def __init__(self, n_visual_words: int, n_tags: int, n_classes: int, n_topics: int):
        super().__init__()
        n_words = n_visual_words + n_tags  # K
        self.n_visual_words, self.n_words = n_visual_words, n_words
        self.W = nn.Parameter(0.01 * torch.randn(n_words, n_topics))  # (K, H); in the paper H × K
        self.c = nn.Parameter(torch.zeros(n_topics))  # (H,)
        self.V = nn.Parameter(0.01 * torch.randn(n_words - 1, n_topics))  # (T, H)
        self.b = nn.Parameter(torch.zeros(n_words - 1))  # (T,)
        self.U = nn.Parameter(torch.zeros(n_classes, n_topics))  # (C, H)
        self.d = nn.Parameter(torch.zeros(n_classes))  # (C,)
        self.nodes, self.turns = tree_paths(torch.randperm(n_words))  # (K, L): random leaves

    def word_log_prob(self, words: Tensor, h: Tensor) -> Tensor:
        """Return log p(word | h), the sum of the log probabilities of the turns on its path (3).

        `words` has any shape (…), and h one more axis: (…, H). They may broadcast.
        """
        nodes, turns = self.nodes[words], self.turns[words]  # (…, L) each
        z = self.b[nodes] + (self.V[nodes] @ h[..., None])[..., 0]  # (…, L) = (…, L, H) @ (…, H, 1)
        # (4): right has the probability sigm(z), and left 1 - sigm(z) = sigm(-z).
        return (logsigmoid(turns * z) * turns.abs()).sum(dim=-1)  # (…)

    def log_likelihood(self, words: Tensor) -> Tensor:
        """Return log p(v_i | v_<i) of every word, (B, D), in the order in which the words stand.

        This is Algorithm 1 of the paper. For one picture it reads

            a = c
            for word in words:
                log_p += word_log_prob(word, g(a))  # h_i = g(a) depends on the words before i only
                a = a + W[word]

        Here all positions are computed at once, because their a are the prefix sums of W[words].
        """
        is_word = (words != PADDING)[..., None]  # (B, D, 1)
        added = self.W[words] * is_word  # (B, D, H)
        a = self.c + (added.cumsum(dim=1) - added)  # (B, D, H): c + Σ_{k<i} W[v_k] (2, 6)
        h = torch.relu(a)  # (B, D, H) (11)
        return self.word_log_prob(words, h) * is_word[..., 0]  # (B, D)

    def topic_features(self, words: Tensor) -> Tensor:
        """Return h_y = g(c + Σ_k W[v_k]), (B, H) (5).

        Tags are left out, because new pictures have none. (The paper's Algorithm 1 takes all.)
        """
        is_visual = (words != PADDING) & (words < self.n_visual_words)  # (B, D)
        total = (self.W[words] * is_visual[..., None]).sum(dim=1)  # (B, H)
        return torch.relu(self.c + total)  # (B, H)

    def class_log_prob(self, words: Tensor) -> Tensor:
        """Return log p(y | v) = log softmax(d + U h_y)_y of every class, (B, C) (8)."""
        return log_softmax(self.d + self.topic_features(words) @ self.U.T, dim=1)  # (B, C)

    def tag_log_prob(self, words: Tensor) -> Tensor:
        """Return the log probability that the word after the visual words is this tag, (B, A)."""
        tags = torch.arange(self.n_visual_words, self.n_words)  # (A,)
        h_y = self.topic_features(words)[:, None]  # (B, 1, H)
        return self.word_log_prob(tags, h_y)  # (B, A)

    def loss(self, words: Tensor, labels: Tensor, lam: float, tag_weight: float = 1.0) -> Tensor:
        """Return -log p(y | v) + λ Σ_i -log p(v_i | v_<i) (10), the mean of all pictures.

        The second term alone is the loss of DocNADE (1). A picture has many visual words and few
        tags, so the loss of a tag may have a larger weight (1 in the paper).
        """
        class_term = -self.class_log_prob(words).gather(1, labels[:, None])[:, 0]  # (B,)
        weight = torch.where(words < self.n_visual_words, 1.0, tag_weight)  # (B, D)
        word_term = -(weight * self.log_likelihood(words)).sum(dim=1)  # (B,)
        return (class_term + lam * word_term).mean()  # ()

    def top_words(self, n: int) -> Tensor:
        """Return the n visual words with the largest weights in W for every topic, (H, n)."""
        return self.W[: self.n_visual_words].T.topk(n).indices  # (H, n)


# Training -----------------------------------------------------------------------------------------
# Autograd derives the gradients from Algorithm 1. Do not implement the paper's Algorithm 2: it adds
# the gradient of position i to W[v_i], although h_i depends only on the words before i, and the
# gradient that it gives c lacks the class term.


def shuffle(words: Tensor) -> Tensor:
    """Return the words of every picture in a random order of their own, (B, D).

    Padding may get between them, where it adds nothing to the sums and has no loss.
    """
    order = torch.rand(words.shape).argsort(dim=1)  # (B, D)
    return words.gather(1, order)  # (B, D)


def train(
    model: SupDocNADE,
    words: Tensor,
    labels: Tensor,
    *,
    epochs: int = 20,
    batch_size: int = 20,
    learning_rate: float = 0.01,
    lam: float = 0.1,
    tag_weight: float = 2.0,
) -> list[float]:
    """Train on pictures, (pictures, D) and (pictures,), and return the mean loss of every epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    losses = []
    for epoch in range(1, epochs + 1):
        total = 0.0
        for rows in torch.split(torch.randperm(len(words)), batch_size):  # (B,)
            # A new order for every picture and update: the model learns to go on from any words.
            loss = model.loss(shuffle(words[rows]), labels[rows], lam, tag_weight)  # ()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += float(loss.detach()) * len(rows)
        losses.append(total / len(words))
        print(f"epoch {epoch:2}: loss {losses[-1]:.3f}")
    return losses


# A small corpus -----------------------------------------------------------------------------------
# Every picture shows three of the four objects of its scene, which are its tags. Every object has
# five visual words.

SCENES = {
    "coast": ["sea", "sand", "sky", "boat"],
    "harbour": ["sea", "building", "boat", "road"],
    "street": ["road", "car", "building", "sky"],
    "forest": ["tree", "moss", "rock", "sky"],
}
NAMES = list(SCENES)
OBJECTS = sorted({each for objects in SCENES.values() for each in objects})
VISUAL_WORDS = [f"{each} {number}" for each in OBJECTS for number in range(1, 6)]


def draw_pictures(n_pictures: int, noise: float = 0.3) -> tuple[Tensor, Tensor]:
    """Return words, (pictures, D), the tags after the visual words, and labels, (pictures,)."""
    labels = torch.randint(len(SCENES), (n_pictures,))  # (pictures,)
    pictures = []
    for label in labels.tolist():
        scene = [OBJECTS.index(each) for each in SCENES[NAMES[label]]]
        shown = torch.tensor(scene)[torch.randperm(4)[:3]]  # (3,)
        length = int(torch.randint(20, 41, ()))
        visual = 5 * shown[torch.randint(3, (length,))] + torch.randint(5, (length,))  # (length,)
        anything = torch.randint(len(VISUAL_WORDS), (length,))  # (length,)
        visual = torch.where(torch.rand(length) < noise, anything, visual)  # (length,)
        pictures.append(torch.cat([visual, len(VISUAL_WORDS) + shown]))  # (length + 3,)
    words = nn.utils.rnn.pad_sequence(pictures, batch_first=True, padding_value=PADDING)
    return words, labels


def main() -> None:
    torch.manual_seed(0)
    model = SupDocNADE(len(VISUAL_WORDS), len(OBJECTS), len(SCENES), n_topics=8)
    train(model, *draw_pictures(300))

    words, labels = draw_pictures(200)  # New pictures; the model does not use their tags.
    with torch.no_grad():
        predicted = model.class_log_prob(words).argmax(dim=1)  # (200,)
        likely_tags = model.tag_log_prob(words).topk(3).indices  # (200, 3)
    tags = words[words >= len(VISUAL_WORDS)].reshape(-1, 3) - len(VISUAL_WORDS)  # (200, 3)
    found = (likely_tags[:, :, None] == tags[:, None]).any(dim=2)  # (200, 3)
    print(f"accuracy {(predicted == labels).float().mean():.1%}, tags {found.float().mean():.1%}")

    print("\npredicted class and tags (true class and tags)")
    for row in range(5):
        likely, true = (", ".join(OBJECTS[i] for i in each[row]) for each in (likely_tags, tags))
        print(f"{NAMES[predicted[row]]}: {likely} ({NAMES[labels[row]]}: {true})")

    print("\nwords of the topics")
    for topic, top in enumerate(model.top_words(5)):  # (8,)
        print(f"{topic}: {', '.join(VISUAL_WORDS[word] for word in top)}")


if __name__ == "__main__":
    torch.set_num_threads(1)  # More threads do not help with tensors this small.
    main()
