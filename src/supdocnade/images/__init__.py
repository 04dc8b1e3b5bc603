"""Images: decoding, descriptors of patches, and regions."""
