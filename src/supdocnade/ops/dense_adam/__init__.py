"""Adam's update of whole parameters on a GPU, all of them in one kernel."""
