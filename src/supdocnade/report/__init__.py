"""Evaluation, explanation pictures and the HTML report of a scene model."""
