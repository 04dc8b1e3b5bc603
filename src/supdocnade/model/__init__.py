"""The networks of the paper: their shape, parameters and inference."""
