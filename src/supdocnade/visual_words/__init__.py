"""Visual words: learning a codebook, and encoding one or many images."""
