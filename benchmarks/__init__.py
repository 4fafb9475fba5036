"""Speed beside other people's code: `python -m benchmarks.forward`, `.taps` and, on a GPU, `.gpu`. Nothing here is a test."""
