"""What is read off a trace. Attention maps first: who looked at whom, and where on the picture."""

from .attention import AttentionMap, AttentionRow, attention_maps, over_pixels, patch_maps, patch_names

__all__ = ["AttentionMap", "AttentionRow", "attention_maps", "over_pixels", "patch_maps", "patch_names"]
