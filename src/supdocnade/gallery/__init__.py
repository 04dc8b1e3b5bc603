"""The index of a folder of photographs, for search by similarity, class and tag."""
