"""Training: how weights change (optimisers, schedules, averages, adapters) and the loop that changes them."""
