"""What training is given, where it is used."""

from supdocnade.models import SupDocNADEConfig, SupDocNADENetwork
from supdocnade.models.docnade import random_tree
from supdocnade.training.validity import class_weight_of


def test_class_weights_are_where_the_network_is():
    config = SupDocNADEConfig(n_visual_words=5, n_annotation_words=0, n_topics=2, n_classes=3)
    network = SupDocNADENetwork(config, random_tree(config, 0))
    assert class_weight_of(network, [1, 2, 3]).tolist() == [1.0, 2.0, 3.0]
    # A device that every machine has, in place of a GPU.
    assert class_weight_of(network.to("meta"), [1, 2, 3]).device.type == "meta"
