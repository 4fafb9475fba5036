"""`hf:owner/name`: a folder from the Hugging Face hub, through the optional huggingface_hub."""

from pathlib import Path

from ..errors import ClearheadError

WANTED = ["*.json", "*.safetensors", "*.txt", "*.model", "*.spm", "*.bpe"]
OLD_WEIGHTS = ["pytorch_model*.bin"]  # fetched where there is no safetensors file: they hold the same numbers


def downloaded(address: str) -> str:
    """The local folder of `hf:owner/name` or `hf:owner/name@revision`."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ClearheadError(
            "hf: addresses need huggingface_hub: pip install huggingface_hub, or give a local folder"
        ) from None
    name, _, revision = address.removeprefix("hf:").partition("@")
    if name.count("/") != 1 or not all(name.split("/")):
        raise ClearheadError(f"'{address}' is not an address of the form hf:owner/name")
    try:
        folder = snapshot_download(name, revision=revision or None, allow_patterns=WANTED)
        if not any(Path(folder).glob("*.safetensors")):
            folder = snapshot_download(name, revision=revision or None, allow_patterns=WANTED + OLD_WEIGHTS)
    except (OSError, ValueError) as problem:  # the hub's own errors are one or the other
        reason = (str(problem).splitlines() or [type(problem).__name__])[0]
        raise ClearheadError(f"{address} could not be fetched: {reason}") from None
    return folder
