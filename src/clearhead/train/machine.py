"""On what a run trained: device, threads, precision and versions, as its figures name them."""

import platform
from pathlib import Path

import torch

CPU_FACTS = Path("/proc/cpuinfo")  # Linux alone tells a processor's full name to everyone


def machine(device: torch.device, precision: str, processes: int) -> dict[str, str | int]:
    """What the time of a run depends on, beside the run itself."""
    return {
        "device": device_name(device),
        "threads": torch.get_num_threads(),
        "processes": processes,
        "precision": precision,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
    }


def device_name(device: torch.device) -> str:
    """The name of a GPU's model, or of the processor's."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return processor() if device.type == "cpu" else f"{device.type} on {processor()}"


def processor() -> str:
    """The processor's name as far as the system tells it."""
    lines = CPU_FACTS.read_text(encoding="utf-8", errors="replace").splitlines() if CPU_FACTS.is_file() else []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()
