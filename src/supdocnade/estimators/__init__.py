"""scikit-learn estimators: images to word counts, and topic models of word counts."""
