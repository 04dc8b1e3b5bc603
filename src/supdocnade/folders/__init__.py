"""Folders of photographs: metadata files, tags and splits."""
