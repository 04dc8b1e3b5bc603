"""Likelihood of documents and its gradients, by several backends behind one contract."""

ACTIVATIONS = ("relu", "tanh", "sigmoid")
