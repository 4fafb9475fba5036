"""The studio: every step of every model in the browser, with the numbers that were computed (optional extra)."""
