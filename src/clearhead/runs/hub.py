"""`hf:owner/name`: a folder from the Hugging Face hub, through the optional huggingface_hub."""

from ..errors import ClearheadError

WANTED = ["*.json", "*.safetensors", "*.txt", "*.model", "*.spm", "*.bpe", "pytorch_model*.bin"]


def downloaded(address: str) -> str:
    """The local folder of `hf:owner/name` or `hf:owner/name@revision`."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ClearheadError(
            "hf: addresses need huggingface_hub: pip install huggingface_hub, or give a local folder"
        ) from None
    name, _, revision = address.removeprefix("hf:").partition("@")
    if name.count("/") != 1:
        raise ClearheadError(f"'{address}' is not an address of the form hf:owner/name")
    try:
        return snapshot_download(name, revision=revision or None, allow_patterns=WANTED)
    except OSError as problem:
        raise ClearheadError(f"{address} could not be fetched: {str(problem).splitlines()[0]}") from None
