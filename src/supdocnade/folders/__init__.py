"""Photographs as people keep them: folders, metadata files, tags and splits."""
