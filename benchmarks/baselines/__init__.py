"""What we compare with. Frozen: a baseline that moves makes old ratios meaningless."""
