"""After small trainings: quality, placement, activations, int8."""
