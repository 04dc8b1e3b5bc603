"""From images to words: one image, many at once, and learning which words there are."""
